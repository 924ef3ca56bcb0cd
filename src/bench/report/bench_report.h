// What every benchmark leaves behind: settings, what was measured, and what may be said of it. One form in
// memory, one schema as JSON (docs/reference/bench-report.md), whatever was measured.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace tessera::bench {

// Whether a figure may be averaged, headlined and compared.
enum class Standing {
  kGood,
  kDoesNotFit,     // longer than the model's context, or more than the cache holds: not measured
  kOverCapacity,   // the server ran fewer requests than asked for
  kDegenerate,     // the output repeats itself: nobody's workload, and a draft's dream
  kEndedEarly,     // requests stopped before their length although told not to
  kUnsteady,       // slower at its beginning than later, or the reverse: cold, or not at rest
  kInexactPrompt,  // the server counted other prompt tokens than were sent
  kFailed,         // requests ended with an error
};
std::string_view name_of(Standing standing);  // "does not fit"
std::optional<Standing> standing_of(std::string_view name);

// What a comparison groups by; empty for figures that no verdict is made of.
inline constexpr std::string_view kShortDecode = "short decode";
inline constexpr std::string_view kLongDecode = "long decode";
inline constexpr std::string_view kPrefill = "prefill";
inline constexpr std::string_view kLatency = "latency";

struct Measurement {
  std::string metric;                                  // "decode throughput"
  std::string unit;                                    // "tok/s"
  std::vector<std::pair<std::string, double>> axes{};  // what was varied, outermost first: {"context", 16384}
  std::string series{};  // what was varied and is no number: a format, an operation
  double value = 0;
  std::vector<double> samples{};  // parts of the run whose mean or median is `value`, in order of time
  bool higher_is_better = true;
  std::string group{};
  Standing standing = Standing::kGood;
  std::string remark{};                   // one sentence to the standing
  std::optional<double> bound{};          // the best that the machine could do, same unit
  std::map<std::string, double> facts{};  // all else that is known: "effective_concurrency", "ttft_ms_p99"

  bool counts() const { return standing == Standing::kGood; }
  // Without metric and unit: "context 16384, concurrency 8".
  std::string configuration() const;
  std::optional<double> axis(std::string_view name) const;
};

struct BenchReport {
  std::string kind;                             // the verb: "serve", "mla"
  std::string subject;                          // what was measured: a URL and a model, a device
  std::string created;                          // UTC, ISO 8601
  std::map<std::string, std::string> settings;  // every flag, defaults included
  std::map<std::string, std::string> machine;   // that the benchmark ran on
  std::map<std::string, std::string> server;    // what the server says of itself
  std::vector<Measurement> measurements;
  std::string headline;  // one sentence; says why there is none where there is none
  std::vector<std::string> notes;
};

std::string to_json(const BenchReport& report);
// kUnsupported for JSON that is no report of ours, kCorrupt for one with missing or senseless fields.
Result<BenchReport> bench_report_from_json(std::string_view text, const std::string& where);

// A report with time and machine filled in.
BenchReport begin_report(std::string kind);

}  // namespace tessera::bench
