// The parameters of a model laid over the tensors of its files, with every tensor accounted for.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "checkpoint/host_matrix.h"
#include "checkpoint/ignore_rules.h"
#include "checkpoint/model_config.h"
#include "checkpoint/parameters.h"
#include "checkpoint/tensor_files.h"

namespace tessera {

struct BoundParameter {
  Parameter parameter;
  DType dtype = DType::kBF16;  // of the data; what vectors and token maps need
  HostMatrix weight = {};      // vectors and token maps: data alone, [rows, cols], format without meaning
  int tensors = 1;             // in the files
  std::int64_t bytes = 0;      // data and scales
  std::int32_t file = 0;       // of the data
};

struct Binding {
  std::vector<BoundParameter> parameters;  // in the order of parameters_of(); absent optional ones left out
  std::unordered_map<std::string_view, std::size_t> index;  // by name, which points into `parameters`
  std::int64_t bytes = 0;
  std::vector<RuleMatch> rules;
  std::vector<std::string> notes;                       // skipped tensors, odd but harmless facts
  std::vector<std::unique_ptr<std::byte[]>> realigned;  // copies of tensors that lay at odd addresses
};

Result<Binding> bind(const ModelConfig& config, const TensorFiles& files);

}  // namespace tessera
