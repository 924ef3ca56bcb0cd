// Rotary position embedding: the frequency of each pair and the factors that YaRN adds (Peng et al. 2023;
// DeepSeek's form).
#pragma once

#include <vector>

#include "checkpoint/model_config.h"

namespace tessera {

// [rope_dim / 2] radians per position, with YaRN's or Llama 3's scaling applied where the model has it.
// Computed in f64, rounded once to f32.
std::vector<float> rope_frequencies(const ModelConfig& config);

// What cos and sin are multiplied by: mscale(factor, mscale) / mscale(factor, mscale_all_dim). 1 for Kimi.
float rope_multiplier(const ModelConfig& config);

// head_dim^-0.5, times mscale(factor, mscale_all_dim)^2 under YaRN: the square because it stands for scaling
// q and k.
float softmax_scale(const ModelConfig& config);

}  // namespace tessera
