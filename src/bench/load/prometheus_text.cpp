#include "bench/load/prometheus_text.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace tessera::bench {
namespace {

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t\r") - first + 1);
}

// `{a="x",b="y"}` at the beginning of `line`, which is cut; false for what is no list of labels.
bool take_labels(std::string_view& line, std::map<std::string, std::string>& labels) {
  line.remove_prefix(1);
  while (true) {
    line = line.substr(std::min(line.find_first_not_of(" ,"), line.size()));
    if (line.empty()) return false;
    if (line.front() == '}') {
      line.remove_prefix(1);
      return true;
    }
    const std::size_t equals = line.find("=\"");
    if (equals == std::string_view::npos) return false;
    std::string& value = labels[std::string(trimmed(line.substr(0, equals)))];
    line.remove_prefix(equals + 2);
    std::size_t at = 0;
    for (; at < line.size() && line[at] != '"'; ++at) {
      if (line[at] == '\\' && at + 1 < line.size()) {
        ++at;
        value += line[at] == 'n' ? '\n' : line[at];
      } else {
        value += line[at];
      }
    }
    if (at == line.size()) return false;
    line.remove_prefix(at + 1);
  }
}

std::optional<MetricSample> parse_sample(std::string_view line) {
  if (line.empty() || line.front() == '#') return std::nullopt;
  MetricSample sample;
  const std::size_t end = line.find_first_of(" {");
  if (end == std::string_view::npos || end == 0) return std::nullopt;
  sample.name = line.substr(0, end);
  line.remove_prefix(end);
  if (line.front() == '{' && !take_labels(line, sample.labels)) return std::nullopt;
  line = trimmed(line);
  line = line.substr(0, line.find(' '));  // a time may follow
  const auto [stop, failed] = std::from_chars(line.data(), line.data() + line.size(), sample.value);
  if (failed != std::errc() || stop != line.data() + line.size() || !std::isfinite(sample.value))
    return std::nullopt;
  return sample;
}

}  // namespace

MetricSamples::MetricSamples(std::string_view text) {
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    if (auto sample = parse_sample(trimmed(text.substr(0, end)))) samples_.push_back(*std::move(sample));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

std::optional<double> MetricSamples::sum(std::string_view name) const {
  std::optional<double> total;
  for (const MetricSample& sample : samples_) {
    if (sample.name == name) total = total.value_or(0) + sample.value;
  }
  return total;
}

ServerCounters read_counters(std::string_view metrics_text) {
  const MetricSamples samples(metrics_text);
  ServerCounters out;
  out.running = samples.sum("vllm:num_requests_running");
  out.waiting = samples.sum("vllm:num_requests_waiting");
  out.kv_usage = samples.sum("vllm:kv_cache_usage_perc");
  out.prefill_seconds = samples.sum("vllm:request_prefill_time_seconds_sum");
  out.prefills = samples.sum("vllm:request_prefill_time_seconds_count");
  out.generated_tokens = samples.sum("vllm:generation_tokens_total");
  out.drafts = samples.sum("vllm:spec_decode_num_drafts_total");
  out.draft_tokens = samples.sum("vllm:spec_decode_num_draft_tokens_total");
  out.accepted = samples.sum("vllm:spec_decode_num_accepted_tokens_total");
  out.preemptions = samples.sum("vllm:num_preemptions_total");
  for (const MetricSample& sample : samples.all()) {
    if (sample.name != "vllm:spec_decode_num_accepted_tokens_per_pos_total") continue;
    const auto position = sample.labels.find("position");
    std::size_t at = 0;
    if (position == sample.labels.end()) continue;
    const std::string& text = position->second;
    const auto [stop, failed] = std::from_chars(text.data(), text.data() + text.size(), at);
    if (failed != std::errc() || at >= 64) continue;
    if (out.accepted_at.size() <= at) out.accepted_at.resize(at + 1);
    out.accepted_at[at] += sample.value;
  }
  return out;
}

}  // namespace tessera::bench
