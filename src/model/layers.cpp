#include "model/layers.h"

namespace tessera {

void WeightReader::account(std::int64_t file_bytes, std::int64_t device_bytes) {
  device_bytes_ += static_cast<std::size_t>(device_bytes);
  if (options_.on_bytes) options_.on_bytes(file_bytes);
}

Projection WeightReader::projection(const std::vector<std::string>& modules) {
  std::vector<HostMatrix> parts;
  bool same_format = true;
  std::int64_t file_bytes = 0;
  for (const std::string& module : modules) {
    parts.push_back(checkpoint_.matrix(module));
    same_format = same_format && parts.back().format == parts.front().format;
    file_bytes += parts.back().bytes();
  }
  Projection result;
  if (same_format) {
    result.add_part(backend_.prepare(parts));
  } else {
    for (const HostMatrix& part : parts) result.add_part(backend_.prepare({&part, 1}));
  }
  account(file_bytes, result.bytes());
  return result;
}

Weight WeightReader::weight(const std::string& module) {
  const HostMatrix matrix = checkpoint_.matrix(module);
  Weight result = backend_.prepare({&matrix, 1});
  account(matrix.bytes(), result.bytes);
  return result;
}

VectorWeight WeightReader::vector(const std::string& name) {
  const std::vector<float> values = checkpoint_.vector(name);
  account(static_cast<std::int64_t>(values.size()) * 2, static_cast<std::int64_t>(values.size()) * 4);
  return backend_.prepare_vector(values);
}

GatedMlp WeightReader::gated_mlp(const std::string& prefix) {
  return {.gate_up = projection({prefix + "gate_proj", prefix + "up_proj"}),
          .down = projection({prefix + "down_proj"})};
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

}  // namespace tessera
