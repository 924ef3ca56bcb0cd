#include "bench/compare/result_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "bench/report/statistics.h"

namespace tessera::bench {
namespace {

using nlohmann::json;

constexpr std::size_t kParts = 10;             // of a run, by the order of requests, for samples
constexpr std::int64_t kLongContext = 16'384;  // as `bench serve` has it

std::optional<double> number(const json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_number()) return std::nullopt;
  const double value = object[key].get<double>();
  if (!std::isfinite(value)) return std::nullopt;
  return value;
}

std::string text_of(const json& object, const char* key) {
  return object.is_object() && object.contains(key) && object[key].is_string()
             ? object[key].get<std::string>()
             : "";
}

// With --save-detailed a file has a value for each request (or, for gaps, a list): seconds. The share of each
// tenth of them, in milliseconds, so that an interval can be made.
std::vector<double> parts_of(const json& run, const char* key, double share) {
  std::vector<double> out;
  if (!run.contains(key) || !run[key].is_array()) return out;
  const json& list = run[key];
  const std::size_t parts = std::min(kParts, list.size() / 4);
  for (std::size_t p = 0; p < parts; ++p) {
    std::vector<double> values;
    for (std::size_t i = list.size() * p / parts; i < list.size() * (p + 1) / parts; ++i) {
      if (list[i].is_number()) values.push_back(list[i].get<double>() * 1e3);
      if (!list[i].is_array()) continue;
      for (const json& gap : list[i]) {
        if (gap.is_number()) values.push_back(gap.get<double>() * 1e3);
      }
    }
    if (!values.empty()) out.push_back(percentile(values, share));
  }
  return out;
}

struct Metric {
  const char* key;
  const char* name;
  const char* unit;
  bool higher_is_better;
  std::string_view group;
  const char* detail;  // key of the list with a value for each request; "": none
  double share;
};

BenchReport vllm_report(const json& run) {
  constexpr std::array<Metric, 10> kMetrics = {{
      {"output_throughput", "output throughput", "tok/s", true, kShortDecode, "", 0},
      {"request_throughput", "request throughput", "1/s", true, "", "", 0},
      {"median_ttft_ms", "time to first token p50", "ms", false, kLatency, "ttfts", 0.5},
      {"p99_ttft_ms", "time to first token p99", "ms", false, kLatency, "ttfts", 0.99},
      {"median_tpot_ms", "time per output token p50", "ms", false, kLatency, "", 0},
      {"p99_tpot_ms", "time per output token p99", "ms", false, kLatency, "", 0},
      {"median_itl_ms", "inter-token latency p50", "ms", false, kLatency, "itls", 0.5},
      {"p99_itl_ms", "inter-token latency p99", "ms", false, kLatency, "itls", 0.99},
      {"median_e2el_ms", "time to last token p50", "ms", false, kLatency, "", 0},
      {"p99_e2el_ms", "time to last token p99", "ms", false, kLatency, "", 0},
  }};
  BenchReport report;
  report.kind = "vllm bench serve";
  report.subject = text_of(run, "model_id");
  report.created = text_of(run, "date");
  std::vector<std::pair<std::string, double>> axes;
  if (const auto most = number(run, "max_concurrency")) axes.emplace_back("concurrency", *most);
  if (const auto rate = number(run, "request_rate")) axes.emplace_back("request_rate", *rate);
  const double prompts = number(run, "completed").value_or(number(run, "num_prompts").value_or(0));
  bool is_long = false;
  if (const auto tokens = number(run, "total_input_tokens"); tokens && prompts > 0)
    is_long = *tokens / prompts >= kLongContext;
  for (const Metric& metric : kMetrics) {
    const auto value = number(run, metric.key);
    if (!value) continue;
    Measurement m{.metric = metric.name,
                  .unit = metric.unit,
                  .axes = axes,
                  .value = *value,
                  .higher_is_better = metric.higher_is_better,
                  .group = std::string(is_long && metric.group == kShortDecode ? kLongDecode : metric.group)};
    if (*metric.detail != '\0') m.samples = parts_of(run, metric.detail, metric.share);
    if (const auto failed = number(run, "failed"); failed && *failed > 0) {
      m.standing = Standing::kFailed;
      m.remark = std::to_string(static_cast<std::int64_t>(*failed)) + " requests failed.";
    }
    report.measurements.push_back(std::move(m));
  }
  return report;
}

BenchReport inference_bench_report(const json& run) {
  BenchReport report;
  report.kind = "llm-inference-bench";
  report.subject = text_of(run["metadata"], "model");
  for (const json& cell : run["results"]) {
    const auto context = number(cell, "context_tokens");
    const auto concurrency = number(cell, "concurrency");
    if (!context || !concurrency) continue;
    const auto add = [&](const char* key, const char* metric, const char* unit, double scale, bool higher,
                         std::string_view group) {
      const auto value = number(cell, key);
      if (!value || *value == 0) return;  // the tool writes 0 for what it did not measure
      report.measurements.push_back({.metric = metric,
                                     .unit = unit,
                                     .axes = {{"context", *context}, {"concurrency", *concurrency}},
                                     .value = *value * scale,
                                     .higher_is_better = higher,
                                     .group = std::string(group)});
    };
    add("aggregate_tps", "decode throughput", "tok/s", 1, true,
        *context >= kLongContext ? kLongDecode : kShortDecode);
    add("ttft_p50", "time to first token p50", "ms", 1e3, false, kLatency);
    add("inter_token_latency_p50", "inter-token latency p50", "ms", 1e3, false, kLatency);
  }
  return report;
}

}  // namespace

Result<BenchReport> read_result(std::string_view text, const std::string& where) {
  const json run = json::parse(text, nullptr, false);
  if (run.is_discarded()) return Error{ErrorKind::kCorrupt, where, "The file is no JSON."};
  if (run.is_object() && run.contains("schema")) return bench_report_from_json(text, where);
  BenchReport report;
  if (run.is_object() && run.contains("results") && run["results"].is_array() && run.contains("metadata")) {
    report = inference_bench_report(run);
  } else if (number(run, "output_throughput") || number(run, "request_throughput")) {
    report = vllm_report(run);
  } else {
    return Error{ErrorKind::kUnsupported, where,
                 "This JSON is no result of tessera bench, vllm bench serve or llm-inference-bench."};
  }
  if (report.measurements.empty())
    return Error{ErrorKind::kCorrupt, where, "The file holds no measurements."};
  return report;
}

}  // namespace tessera::bench
