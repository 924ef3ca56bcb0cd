// Metrics in Prometheus' text format, as far as a benchmark reads them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::bench {

struct MetricSample {
  std::string name;
  std::map<std::string, std::string> labels;
  double value = 0;
};

class MetricSamples {
 public:
  // Lines that are no samples are left out.
  explicit MetricSamples(std::string_view text);

  // Over all labels (a server may have several engines); nothing where the name does not occur.
  std::optional<double> sum(std::string_view name) const;
  const std::vector<MetricSample>& all() const { return samples_; }

 private:
  std::vector<MetricSample> samples_;
};

// What a server counted by itself, at one moment. Nothing where it does not say.
struct ServerCounters {
  std::optional<double> running, waiting;
  std::optional<double> kv_usage;                   // share
  std::optional<double> prefill_seconds, prefills;  // of finished requests
  std::optional<double> generated_tokens;
  std::optional<double> drafts, draft_tokens, accepted;  // of speculation
  std::vector<double> accepted_at;                       // by position
  std::optional<double> preemptions;
};
ServerCounters read_counters(std::string_view metrics_text);

}  // namespace tessera::bench
