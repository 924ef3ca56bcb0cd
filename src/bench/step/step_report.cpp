#include "bench/step/step_report.h"

#include <array>
#include <cstdio>

namespace tessera::bench {
namespace {

std::string number(double value) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

std::vector<std::pair<std::string, double>> axes_of(const StepShape& shape) {
  return {{"batch", shape.batch}, {"context", shape.context}, {"query", shape.query}};
}

}  // namespace

void add_ceilings(const Ceilings& ceilings, BenchReport& report) {
  report.settings["read_gb_s"] = number(ceilings.read_gb_s);
  report.settings["tflop_s"] = number(ceilings.tflop_s);
  report.notes.push_back("Measured first: reading " + number(ceilings.read_gb_s) +
                         " GB/s, a large bf16 product " + number(ceilings.tflop_s) +
                         " TFLOP/s; a bound is the longer of bytes and arithmetic at these.");
}

Measurement measurement_of(const MlaDecodeCase& problem, const OpResult& result, const Ceilings& ceilings) {
  const double floor = result.floor_us(ceilings);
  return {.metric = "decode attention",
          .unit = "us",
          .axes = {{"batch", problem.seqs},
                   {"context", problem.context},
                   {"heads", static_cast<double>(problem.heads)},
                   {"query", problem.query}},
          .series = std::string(name_of(problem.format)),
          .value = result.us,
          .higher_is_better = false,
          .group = std::string(problem.context < 16384 ? kShortDecode : kLongDecode),
          .bound = floor,
          .facts = {{"us", result.us},
                    {"us_low", result.low_us},
                    {"us_high", result.high_us},
                    {"bytes", result.bytes},
                    {"flops", result.flops},
                    {"ratio_to_floor", result.us / floor}}};
}

void fill_report(const StepCostOptions& options, const StepCostReport& measured, BenchReport& report) {
  const std::int64_t layers = options.config.layers;
  for (const StepCost& step : measured.steps) {
    double bytes = 0, flops = 0;
    for (const StepPartCost& part : step.parts) {
      bytes += part.measured.bytes;
      flops += part.measured.flops;
    }
    const std::string group(step.shape.context < 16384 ? kShortDecode : kLongDecode);
    report.measurements.push_back({.metric = "step of " + std::to_string(measured.layers) + " layers",
                                   .unit = "us",
                                   .axes = axes_of(step.shape),
                                   .series = "step",
                                   .value = step.us,
                                   .higher_is_better = false,
                                   .group = group,
                                   .bound = step.floor_us,
                                   .facts = {{"us", step.us},
                                             {"us_low", step.low_us},
                                             {"us_high", step.high_us},
                                             {"bytes", bytes},
                                             {"flops", flops},
                                             {"ratio_to_floor", step.us / step.floor_us}}});
  }
  for (const StepCost& step : measured.steps) {
    for (const StepPartCost& part : step.parts) {
      report.measurements.push_back({.metric = "parts of the step",
                                     .unit = "us",
                                     .axes = axes_of(step.shape),
                                     .series = std::string(name_of(part.part)),
                                     .value = part.measured.us,
                                     .higher_is_better = false,
                                     .bound = part.floor_us,
                                     .facts = {{"us", part.measured.us},
                                               {"bytes", part.measured.bytes},
                                               {"flops", part.measured.flops},
                                               {"whole_model_us", part.whole_us},
                                               {"whole_model_floor_us", part.whole_floor_us}}});
    }
  }
  for (const StepCost& step : measured.steps) {
    report.measurements.push_back({.metric = "extrapolated to " + std::to_string(layers) + " layers, " +
                                             std::to_string(options.ranks) +
                                             (options.ranks == 1 ? " rank" : " ranks"),
                                   .unit = "us",
                                   .axes = axes_of(step.shape),
                                   .series = "step",
                                   .value = step.whole_us,
                                   .higher_is_better = false,
                                   .bound = step.whole_floor_us});
  }
  if (options.ranks > 1)
    report.notes.emplace_back(
        "Extrapolated by the bytes that a plan counts for one rank; what ranks exchange is not in it.");
  if (measured.experts < options.config.moe.experts)
    report.notes.push_back("Run with " + std::to_string(measured.experts) + " of " +
                           std::to_string(options.config.moe.experts) +
                           " experts a layer; the extrapolation counts the experts that all of them would "
                           "have had touched.");
  if (measured.steps.empty()) return;
  const StepCost& first = measured.steps.front();
  report.headline = "Batch " + std::to_string(first.shape.batch) + ", context " +
                    std::to_string(first.shape.context) + ": " + number(first.us / 1e3) + " ms for " +
                    std::to_string(measured.layers) + " layers and the head, " +
                    number(first.us / first.floor_us) + " times the floor; " + number(first.whole_us / 1e3) +
                    " ms extrapolated to " + std::to_string(layers) + " layers on " +
                    std::to_string(options.ranks) + (options.ranks == 1 ? " rank." : " ranks.");
}

}  // namespace tessera::bench
