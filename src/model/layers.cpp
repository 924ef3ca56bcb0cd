#include "model/layers.h"

#include <algorithm>

namespace tessera {

void WeightReader::account(std::int64_t file_bytes, std::int64_t device_bytes) {
  device_bytes_ += static_cast<std::size_t>(device_bytes);
  if (options_.on_bytes) options_.on_bytes(file_bytes);
  if (options_.on_weight) options_.on_weight(reading_, device_bytes);
}

Projection WeightReader::projection(const std::vector<HostMatrix>& parts) {
  Projection result;
  if (std::ranges::all_of(parts,
                          [&](const HostMatrix& part) { return part.format == parts.front().format; })) {
    result.add_part(backend_.prepare(parts));
  } else {
    for (const HostMatrix& part : parts) result.add_part(backend_.prepare({&part, 1}));
  }
  std::int64_t file_bytes = 0;
  for (const HostMatrix& part : parts) file_bytes += part.bytes();
  account(file_bytes, result.bytes());
  return result;
}

Weight WeightReader::weight(const HostMatrix& matrix) {
  Weight result = backend_.prepare({&matrix, 1});
  account(matrix.bytes(), result.bytes);
  return result;
}

VectorWeight WeightReader::vector(const std::string& name) {
  const std::vector<float> values = checkpoint_.vector(name);
  reading_ = checkpoint_.module_class(name);
  account(checkpoint_.stored_bytes(name), static_cast<std::int64_t>(values.size() * sizeof(float)));
  return backend_.prepare_vector(values);
}

GatedMlp WeightReader::gated_mlp(const std::string& prefix, const Share& width) {
  return {.gate_up = projection({host(prefix + "gate_proj").row_range(width.first, width.count),
                                 host(prefix + "up_proj").row_range(width.first, width.count)}),
          .down = projection({host(prefix + "down_proj").col_range(width.first, width.count)})};
}

WeightStack WeightReader::stack(std::int64_t count,
                                const std::function<std::vector<HostMatrix>(std::int64_t)>& parts) {
  std::int64_t file_bytes = 0;
  WeightStack result = backend_.prepare_stack(count, [&](std::int64_t i) {
    std::vector<HostMatrix> matrices = parts(i);
    for (const HostMatrix& matrix : matrices) file_bytes += matrix.bytes();
    return matrices;
  });
  account(file_bytes, result.bytes);
  return result;
}

WeightStack WeightReader::stack_f32(WeightFormat format, std::int64_t count, std::int64_t out,
                                    std::int64_t in, std::span<const float> values) {
  WeightStack result = backend_.prepare_stack_f32(format, count, out, in, values);
  account(0, result.bytes);
  return result;
}

void VocabularyShards::read(WeightReader& reader, const ModelConfig& config, const Shard& shard) {
  vocab_ = config.vocab;
  share_ = shard.padded(vocab_);
  width_ = shard.ranks() > 1 ? (vocab_ + shard.ranks() - 1) / shard.ranks() : vocab_;
  embedding_ = reader.weight(reader.host("model.embed_tokens").row_range(share_.first, share_.count));
  if (!config.tied_embeddings)
    head_ = reader.weight(reader.host("lm_head").row_range(share_.first, share_.count));
}

void VocabularyShards::plan(Arena& arena, const ModelConfig& config, const Shard& shard, DType dtype,
                            std::int64_t logit_rows) {
  picked_ = arena.take(dtype, logit_rows, config.hidden);
  local_ = arena.take(DType::kF32, logit_rows, width_);
  if (shard.ranks() > 1) {
    gathered_ = arena.take(DType::kF32, shard.ranks() * logit_rows, width_);
    logits_ = arena.take(DType::kF32, logit_rows, vocab_);
  }
}

void VocabularyShards::embed(Backend& backend, const Shard& shard, const std::int32_t* ids,
                             const Tensor& out) const {
  backend.embed(ids, embedding_, share_.first, out);
  shard.reduce(out);  // one rank has the row, the others hold zeros: exact
}

Tensor VocabularyShards::logits(Backend& backend, const Shard& shard, const Tensor& hidden,
                                const std::int32_t* rows, std::int64_t count) const {
  const Tensor picked = picked_.row_range(0, count);
  const Tensor local = local_.row_range(0, count);
  backend.gather_rows(hidden, rows, picked);
  backend.linear(picked, head_.out > 0 ? head_ : embedding_, local.col_range(0, share_.count));
  if (shard.ranks() == 1) return local;

  shard.tp->all_gather(local.data, gathered_.data, static_cast<std::size_t>(local.size()) * sizeof(float));
  const Tensor result = logits_.row_range(0, count);
  for (std::int64_t r = 0; r < shard.ranks(); ++r) {
    const std::int64_t columns = std::min(width_, vocab_ - r * width_);
    if (columns <= 0) break;
    backend.copy(gathered_.row_range(r * count, count).col_range(0, columns),
                 result.col_range(r * width_, columns));
  }
  return result;
}

}  // namespace tessera
