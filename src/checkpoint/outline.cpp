// Checkpoints whose weights have names, shapes and formats, but no values.
#include <algorithm>
#include <utility>

#include "checkpoint/checkpoint.h"
#include "checkpoint/ignore_rules.h"

namespace tessera {
namespace {

HostMatrix matrix_of(const Parameter& p, WeightFormat format, const std::byte* zeros) {
  HostMatrix m{.format = format, .out = p.rows, .in = p.cols, .data = zeros};
  switch (format) {
    case WeightFormat::kF32:
      m.data_stride = p.cols * 4;
      break;
    case WeightFormat::kBF16:
      m.data_stride = p.cols * 2;
      break;
    case WeightFormat::kFp8Block128:
      m.data_stride = p.cols;
      m.scale = zeros;
      m.scale_stride = (p.cols + 127) / 128 * 4;
      break;
    case WeightFormat::kInt4Group32:
      m.data_stride = p.cols / 2;
      m.scale = zeros;
      m.scale_stride = p.cols / 32 * 2;
      break;
  }
  return m;
}

// What a checkpoint made by the config's own recipe holds.
Result<std::vector<BoundParameter>> promised_parameters(const ModelConfig& config) {
  TS_TRY(auto rules, IgnoreRules::compile(config.quantisation.ignore, "config.json"));
  std::vector<BoundParameter> result;
  for (Parameter& p : parameters_of(config)) {
    if (p.optional) continue;
    BoundParameter bound;
    if (p.is_matrix()) {
      const WeightFormat format = promised_format(config, p, rules.match(p.name, p.name));
      bound.weight = matrix_of(p, format, nullptr);
      bound.tensors = tensors_of(format);
      bound.bytes = weight_bytes(format, p.rows, p.cols);
    } else {
      bound.dtype = p.role == ParameterRole::kTokenMap       ? DType::kI64
                    : p.module_class == ModuleClass::kRouter ? DType::kF32
                                                             : DType::kBF16;
      bound.weight = {.out = p.rows, .in = 1, .data_stride = bytes_of(bound.dtype)};
      bound.bytes = p.rows * bytes_of(bound.dtype);
    }
    bound.parameter = std::move(p);
    result.push_back(std::move(bound));
  }
  return result;
}

}  // namespace

Result<Checkpoint> Checkpoint::outline(const ModelConfig& config) {
  TS_TRY(auto parameters, promised_parameters(config));
  return outline(config, std::move(parameters));
}

Result<Checkpoint> Checkpoint::outline() const { return outline(config_, binding_.parameters); }

Result<Checkpoint> Checkpoint::outline(const ModelConfig& config, std::vector<BoundParameter> parameters) {
  std::int64_t largest = 1;
  for (const BoundParameter& bound : parameters) largest = std::max(largest, bound.bytes);
  Checkpoint result;
  result.config_ = config;
  TS_TRY(result.zeros_, ZeroPages::map(static_cast<std::size_t>(largest)));
  Binding& binding = result.binding_;
  binding.parameters = std::move(parameters);
  for (std::size_t i = 0; i < binding.parameters.size(); ++i) {
    BoundParameter& bound = binding.parameters[i];
    bound.weight.data = result.zeros_.data();
    if (bound.parameter.is_matrix())
      bound.weight = matrix_of(bound.parameter, bound.weight.format, result.zeros_.data());
    binding.index.emplace(bound.parameter.name, i);
    binding.bytes += bound.bytes;
  }
  return result;
}

}  // namespace tessera
