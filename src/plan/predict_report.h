// Predicted throughputs of every layout of a plan, and which of them serves a goal best.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "plan/predict_fit.h"

namespace tessera {

enum class PredictGoal {
  kLatency,   // one stream as fast as can be
  kBalance,   // the geometric mean over all contexts and concurrencies that were asked about
  kCapacity,  // the most streams at the longest context
};
std::optional<PredictGoal> parse_goal(std::string_view name);  // "latency", "balance", "capacity"

struct PredictRequest {
  std::vector<std::int64_t> contexts = {0, 16'384, 65'536, 131'072};
  std::vector<std::int64_t> concurrencies = {1, 8, 32, 128};
  PredictGoal goal = PredictGoal::kBalance;
  BoxSpeed box;
  PredictConstants constants;
  std::optional<Fit> fit;  // of the user's own matrix: its errors are printed
};

std::string predict_text(const ModelConfig& config, const GpuPlan& plan, const PredictRequest& request);
std::string predict_json(const ModelConfig& config, const GpuPlan& plan, const PredictRequest& request);

}  // namespace tessera
