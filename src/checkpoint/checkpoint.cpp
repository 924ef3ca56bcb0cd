#include "checkpoint/checkpoint.h"

#include <cstring>
#include <set>

#include "base/check.h"

namespace tessera {
namespace {

template <class T>
T load(const void* base, std::int64_t i) {  // vectors may lie at odd addresses
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(base) + i * static_cast<std::int64_t>(sizeof(T)),
              sizeof(T));
  return value;
}

// Data and scales of a parameter, as they lie in memory.
struct Spans {
  std::span<const std::byte> data;
  std::span<const std::byte> scale;
};
Spans spans_of(const BoundParameter& bound) {
  const HostMatrix& m = bound.weight;
  const auto* data = static_cast<const std::byte*>(m.data);
  if (m.scale == nullptr) return {{data, static_cast<std::size_t>(bound.bytes)}, {}};
  const auto data_bytes = static_cast<std::size_t>(m.out * m.data_stride);
  return {{data, data_bytes},
          {static_cast<const std::byte*>(m.scale), static_cast<std::size_t>(bound.bytes) - data_bytes}};
}

}  // namespace

Result<Checkpoint> Checkpoint::open(const std::filesystem::path& folder) {
  Checkpoint checkpoint;
  checkpoint.folder_ = folder;
  TS_TRY(checkpoint.config_, read_model_config(folder));
  TS_TRY(checkpoint.files_, TensorFiles::open(folder));
  TS_TRY(checkpoint.binding_, bind(checkpoint.config_, checkpoint.files_));
  return checkpoint;
}

const BoundParameter& Checkpoint::bound(std::string_view name) const {
  std::string_view key = name;
  if (config_.tied_embeddings && name == "lm_head" && !config_.draft) key = "model.embed_tokens";
  const auto at = binding_.index.find(key);
  TS_CHECK(at != binding_.index.end(), name, config_.architecture_name);
  return binding_.parameters[at->second];
}

bool Checkpoint::has(std::string_view name) const {
  return binding_.index.contains(name) || (config_.tied_embeddings && name == "lm_head" && !config_.draft);
}

HostMatrix Checkpoint::matrix(std::string_view name) const {
  const BoundParameter& found = bound(name);
  TS_CHECK(found.parameter.is_matrix(), name);
  return found.weight;
}

std::vector<float> Checkpoint::vector(std::string_view name) const {
  const BoundParameter& found = bound(name);
  TS_CHECK(found.parameter.role == ParameterRole::kVector, name);
  std::vector<float> values(static_cast<std::size_t>(found.parameter.rows));
  for (std::int64_t i = 0; i < found.parameter.rows; ++i) {
    values[static_cast<std::size_t>(i)] = found.dtype == DType::kF32
                                              ? load<float>(found.weight.data, i)
                                              : static_cast<float>(load<BF16>(found.weight.data, i));
  }
  return values;
}

std::vector<std::int64_t> Checkpoint::token_map(std::string_view name) const {
  const BoundParameter& found = bound(name);
  TS_CHECK(found.parameter.role == ParameterRole::kTokenMap, name);
  std::vector<std::int64_t> values(static_cast<std::size_t>(found.parameter.rows));
  for (std::int64_t i = 0; i < found.parameter.rows; ++i) {
    std::int64_t& value = values[static_cast<std::size_t>(i)];
    switch (found.dtype) {
      case DType::kI64:
        value = load<std::int64_t>(found.weight.data, i);
        break;
      case DType::kI32:
        value = load<std::int32_t>(found.weight.data, i);
        break;
      default:  // bool and u8
        value = load<std::uint8_t>(found.weight.data, i) != 0 ? 1 : 0;
    }
  }
  return values;
}

std::vector<std::span<const std::byte>> Checkpoint::weight_bytes() const {
  std::vector<std::span<const std::byte>> out;
  if (zeros_.data() != nullptr) return out;
  std::set<const std::byte*> copies;  // in memory already
  for (const auto& copy : binding_.realigned) copies.insert(copy.get());
  for (const BoundParameter& parameter : binding_.parameters) {
    const Spans spans = spans_of(parameter);
    for (const auto& bytes : {spans.data, spans.scale}) {
      if (!bytes.empty() && !copies.contains(bytes.data())) out.push_back(bytes);
    }
  }
  return out;
}

void Checkpoint::drop_pages() const {
  for (const auto& bytes : weight_bytes()) tessera::drop_pages(bytes);
}

std::int64_t Checkpoint::stored_bytes(std::string_view name) const { return bound(name).bytes; }

}  // namespace tessera
