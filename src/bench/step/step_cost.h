// A decode step at a real model's width, from its config alone: random weights of the right formats, some of
// its layers, any batch, context and number of query tokens. What each part takes, beside the least that its
// bytes and its arithmetic need; and what the whole model would take, from the bytes that a plan counts.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "bench/step/op_bench.h"
#include "bench/step/step_meter.h"
#include "checkpoint/model_config.h"
#include "plan/device_model.h"

namespace tessera::bench {

struct StepShape {
  std::int32_t batch = 1;    // sequences
  std::int32_t context = 0;  // tokens that lie in the cache, of each
  std::int32_t query = 1;    // tokens of each: one, or one and its drafts
};

struct StepCostOptions {
  ModelConfig config;        // of the whole model
  std::int64_t layers = 0;   // that are run; 0: as many as have one of each kind
  std::int64_t experts = 0;  // of a layer that are held; 0: all
  int ranks = 1;             // of the extrapolation
  std::vector<StepShape> shapes;
  KvFormat kv_format = KvFormat::kBF16;
  double seconds = 2;           // of repetitions, a shape
  std::int64_t free_bytes = 0;  // of the device; what needs more by the plan is refused
  std::function<void(const std::string&)> on_progress = [](const std::string&) {};
};

struct StepPartCost {
  StepPart part = StepPart::kRest;
  PartCost measured;
  double floor_us = 0;
  double whole_us = 0;        // in all layers, a rank's share
  double whole_floor_us = 0;  // likewise
};
struct StepCost {
  StepShape shape;
  double us = 0;  // median; not watched
  double low_us = 0;
  double high_us = 0;
  std::vector<StepPartCost> parts;  // those that the model has
  double floor_us = 0;              // sums over parts
  double whole_us = 0;              // without what ranks exchange
  double whole_floor_us = 0;
};
struct StepCostReport {
  std::int64_t layers = 0, experts = 0;  // that were run
  std::int64_t planned_bytes = 0;
  std::vector<StepCost> steps;
};

Result<StepCostReport> measure_step(const StepCostOptions& options, std::unique_ptr<Backend> backend,
                                    const DeviceModel& device, const Ceilings& ceilings);

}  // namespace tessera::bench
