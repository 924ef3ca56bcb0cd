// The modules that a model's weights consist of: names, shapes and roles, computed from its config alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/host_matrix.h"
#include "checkpoint/model_config.h"

namespace tessera {

enum class ParameterRole : std::uint8_t {
  kLinear,       // matrix [rows, cols] that a checkpoint may quantise
  kPlainMatrix,  // matrix that never is: the router
  kEmbedding,    // matrix of one row a token
  kVector,       // norm weight or bias [rows], used in f32
  kTokenMap,     // d2t (i64) or t2d (bool) [rows] of a draft with a reduced vocabulary
};

enum class ModuleClass : std::uint8_t {
  kEmbedding,
  kHead,
  kNorm,
  kAttention,
  kDenseMlp,
  kRouter,  // its bias too
  kSharedExpert,
  kRoutedExpert,
  kFusion,  // a draft's fc
  kTokenMap,
};
constexpr int kModuleClasses = 10;
std::string_view name_of(ModuleClass module_class);

struct Parameter {
  // Module name in the canonical spelling: "model.layers.3.self_attn.o_proj" for targets,
  // "layers.0.self_attn.o_proj" for drafts, whatever prefix the files use. A bias and a token map carry
  // their whole tensor name: "model.layers.3.mlp.gate.e_score_correction_bias", "d2t".
  std::string name;
  ParameterRole role = ParameterRole::kLinear;
  ModuleClass module_class = ModuleClass::kAttention;
  std::int32_t layer = -1;  // -1 outside the layers
  std::int64_t rows = 0;
  std::int64_t cols = 1;
  bool optional = false;          // drafts: embedding and head may be the target's
  bool has_weight_suffix = true;  // the tensor is name + ".weight", not name

  std::int64_t values() const { return rows * cols; }
  bool is_matrix() const { return role <= ParameterRole::kEmbedding; }
};

// Every module in the order of the forward pass.
std::vector<Parameter> parameters_of(const ModelConfig& config);

// The format that a config promises for a matrix: what a checkpoint made by its recipe holds. `ignored`: a
// rule of the config says so.
WeightFormat promised_format(const ModelConfig& config, const Parameter& matrix, bool ignored);

// Tensors that hold one parameter: int4 is a triple, fp8 a pair.
int tensors_of(WeightFormat format);
// Bytes of data and scales of a matrix of this shape (the two numbers of an int4 weight_shape not counted).
std::int64_t weight_bytes(WeightFormat format, std::int64_t rows, std::int64_t cols);

}  // namespace tessera
