// What a config says about quantised weights: the scheme, and which modules are left alone. It describes
// intent only; the tensors in the files decide each matrix's format (binding.h), and the two are compared.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checkpoint/host_matrix.h"

namespace tessera {

enum class QuantisationScheme : std::uint8_t {
  kNone,
  kInt4Group32,  // compressed-tensors "pack-quantized": 4 bits, symmetric, groups of 32
  kFp8Block128,  // quant_method fp8 with weight_block_size [128, 128], or compressed-tensors' block form
};

struct QuantisationConfig {
  QuantisationScheme scheme = QuantisationScheme::kNone;
  std::string method;               // as written, e.g. "compressed-tensors pack-quantized"
  std::vector<std::string> ignore;  // rules: "re:PATTERN", a module's name, or the name of a parent module
};

}  // namespace tessera
