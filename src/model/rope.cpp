#include "model/rope.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace tessera {
namespace {

std::int64_t rope_dim(const ModelConfig& config) {
  return config.mla.kv_lora_rank > 0 ? config.mla.rope_dim : config.head_dim;
}

double mscale(double factor, double m) { return factor <= 1 ? 1.0 : 0.1 * m * std::log(factor) + 1.0; }

// Pairs that turn often inside the original context keep their frequency, slow ones are stretched by
// `factor`, with a linear ramp between the two pair indices at which beta_fast and beta_slow turns fit.
double yarn(double frequency, std::int64_t pair, std::int64_t dim, double theta, const YarnScaling& scaling) {
  const auto pair_of_turns = [&](double turns) {
    return static_cast<double>(dim) *
           std::log(static_cast<double>(scaling.original_positions) / (2 * std::numbers::pi * turns)) /
           (2 * std::log(theta));
  };
  const double low = std::max(std::floor(pair_of_turns(scaling.beta_fast)), 0.0);
  double high = std::min(std::ceil(pair_of_turns(scaling.beta_slow)), static_cast<double>(dim - 1));
  if (low == high) high += 0.001;
  const double ramp = std::clamp((static_cast<double>(pair) - low) / (high - low), 0.0, 1.0);
  return frequency * (1 - ramp) + frequency / scaling.factor * ramp;
}

// Llama 3.1: by wavelength, with a smooth passage between the two limits.
double llama3(double frequency, const Llama3Scaling& scaling) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  const auto original = static_cast<double>(scaling.original_positions);
  if (wavelength < original / scaling.high_freq_factor) return frequency;
  if (wavelength > original / scaling.low_freq_factor) return frequency / scaling.factor;
  const double smooth = (original / wavelength - scaling.low_freq_factor) /
                        (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1 - smooth) * frequency / scaling.factor + smooth * frequency;
}

}  // namespace

std::vector<float> rope_frequencies(const ModelConfig& config) {
  const std::int64_t dim = rope_dim(config);
  std::vector<float> frequencies;
  for (std::int64_t pair = 0; pair < dim / 2; ++pair) {
    double f = std::pow(config.rope_theta, -2.0 * static_cast<double>(pair) / static_cast<double>(dim));
    if (config.yarn) f = yarn(f, pair, dim, config.rope_theta, *config.yarn);
    if (config.llama3_rope) f = llama3(f, *config.llama3_rope);
    frequencies.push_back(static_cast<float>(f));
  }
  return frequencies;
}

float rope_multiplier(const ModelConfig& config) {
  if (!config.yarn) return 1.0F;
  return static_cast<float>(mscale(config.yarn->factor, config.yarn->mscale) /
                            mscale(config.yarn->factor, config.yarn->mscale_all_dim));
}

float softmax_scale(const ModelConfig& config) {
  const bool is_mla = config.mla.kv_lora_rank > 0;
  const std::int64_t dim = is_mla ? config.mla.nope_dim + config.mla.rope_dim : config.head_dim;
  double scale = 1.0 / std::sqrt(static_cast<double>(dim));
  if (is_mla && config.yarn && config.yarn->mscale_all_dim != 0) {
    const double m = mscale(config.yarn->factor, config.yarn->mscale_all_dim);
    scale *= m * m;
  }
  return static_cast<float>(scale);
}

}  // namespace tessera
