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
  // A layer's experts are a large part of a model: each is told when the next one is asked for.
  std::int64_t file_bytes = 0;
  WeightStack result = backend_.prepare_stack(count, [&](std::int64_t i) {
    if (options_.on_bytes && file_bytes > 0) options_.on_bytes(file_bytes);
    std::vector<HostMatrix> matrices = parts(i);
    file_bytes = 0;
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

void VocabularyShards::read(WeightReader& reader, const ModelConfig& config, const Shard& shard,
                            std::int64_t logit_rows) {
  share_ = shard.padded(config.vocab);
  embedding_ = reader.weight(reader.host("model.embed_tokens").row_range(share_.first, share_.count));
  if (!config.tied_embeddings)
    head_weight_ = reader.weight(reader.host("lm_head").row_range(share_.first, share_.count));
  head_.bind(config.tied_embeddings ? embedding_ : head_weight_,
             {.vocab = config.vocab, .hidden = config.hidden, .rows = logit_rows}, shard);
}

void VocabularyShards::embed(Backend& backend, const Shard& shard, const std::int32_t* ids,
                             const Tensor& out) const {
  backend.embed(ids, embedding_, share_.first, out);
  shard.reduce(out);  // one rank has the row, the others hold zeros: exact
}

}  // namespace tessera
