#include "stack/publish/bench_rows.h"

#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>

#include "stack/object/checked_json.h"
#include "stack/object/printable.h"

namespace tessera::stack {
namespace {

constexpr double kNoise = 0.02;  // below this share a change without stated spread is called nothing

std::optional<double> number(const nlohmann::json& object, const char* key) {
  const nlohmann::json& field = json_field(object, key);
  if (!field.is_number()) return std::nullopt;
  const double value = field.get<double>();
  if (!std::isfinite(value)) return std::nullopt;
  return value;
}

std::string amount(const nlohmann::json& object, const char* key) {
  const auto value = number(object, key);
  if (!value) return {};
  return *value == std::floor(*value) && std::abs(*value) < 1e15
             ? std::to_string(static_cast<long long>(*value))
             : std::to_string(*value);
}

void add(std::string& list, const std::string& item) { list += (list.empty() ? "" : ", ") + item; }

struct Metric {
  const char* key;
  const char* name;
  const char* unit;
  bool higher_is_better;
};

// vLLM's result of `bench serve`: one object, one run.
std::vector<BenchRow> vllm_rows(const nlohmann::json& run) {
  static constexpr std::array<Metric, 9> kMetrics = {
      {{"request_throughput", "requests", "1/s", true},
       {"output_throughput", "output tokens", "tok/s", true},
       {"total_token_throughput", "all tokens", "tok/s", true},
       {"median_ttft_ms", "median time to first token", "ms", false},
       {"p99_ttft_ms", "p99 time to first token", "ms", false},
       {"median_tpot_ms", "median time per output token", "ms", false},
       {"p99_tpot_ms", "p99 time per output token", "ms", false},
       {"median_itl_ms", "median inter-token latency", "ms", false},
       {"p99_itl_ms", "p99 inter-token latency", "ms", false}}};
  std::string configuration = json_string(run, "model_id");
  for (const char* key : {"max_concurrency", "num_prompts", "request_rate"}) {
    const nlohmann::json& field = json_field(run, key);
    const std::string value = field.is_string() ? field.get<std::string>() : amount(run, key);
    if (!value.empty()) add(configuration, std::string(key) + ' ' + value);
  }
  std::vector<BenchRow> out;
  for (const Metric& metric : kMetrics) {
    const auto value = number(run, metric.key);
    if (!value) continue;
    out.push_back({.configuration = configuration,
                   .metric = metric.name,
                   .unit = metric.unit,
                   .after = value,
                   .higher_is_better = metric.higher_is_better});
  }
  return out;
}

// llm-inference-bench: a matrix of context and concurrency under "results", the run's settings under
// "metadata".
std::vector<BenchRow> inference_bench_rows(const nlohmann::json& run) {
  static constexpr std::array<Metric, 3> kMetrics = {
      {{"aggregate_tps", "output tokens", "tok/s", true},
       {"ttft_p50", "median time to first token", "s", false},
       {"inter_token_latency_p50", "median inter-token latency", "s", false}}};
  const nlohmann::json& metadata = json_field(run, "metadata");
  std::vector<BenchRow> out;
  for (const nlohmann::json& cell : json_field(run, "results")) {
    std::string configuration = json_string(metadata, "model");
    add(configuration, "context " + amount(cell, "context_tokens"));
    add(configuration, "concurrency " + amount(cell, "concurrency"));
    for (const Metric& metric : kMetrics) {
      const auto value = number(cell, metric.key);
      if (!value || *value == 0.0) continue;  // the tool writes 0 for what it did not measure
      out.push_back({.configuration = configuration,
                     .metric = metric.name,
                     .unit = metric.unit,
                     .after = value,
                     .higher_is_better = metric.higher_is_better});
    }
  }
  return out;
}

// `tessera bench compare --json`: cells with both figures, an interval of their ratio and a verdict.
std::vector<BenchRow> comparison_rows(const nlohmann::json& comparison) {
  std::vector<BenchRow> out;
  for (const nlohmann::json& cell : json_field(comparison, "cells")) {
    BenchRow row{.configuration = json_string(cell, "configuration"),
                 .metric = json_string(cell, "metric"),
                 .unit = json_string(cell, "unit"),
                 .before = number(cell, "before"),
                 .after = number(cell, "after")};
    for (const char* key : {"context", "concurrency"}) {
      if (const std::string value = amount(cell, key); !value.empty())
        add(row.configuration, std::string(key) + ' ' + value);
    }
    const auto low = number(cell, "ratio_low"), high = number(cell, "ratio_high");
    if (low && high) {
      std::array<char, 64> text;
      std::snprintf(text.data(), text.size(), "%.3f to %.3f", *low, *high);
      row.spread = text.data();
    }
    row.verdict = json_string(cell, "verdict");
    const nlohmann::json& better = json_field(cell, "higher_is_better");
    if (better.is_boolean()) row.higher_is_better = better.get<bool>();
    row.image = json_string(cell, "image");
    out.push_back(std::move(row));
  }
  return out;
}

std::vector<std::string> csv_fields(std::string_view line) {
  std::vector<std::string> out(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const char c = line[i];
    if (c == '"') {
      if (quoted && i + 1 < line.size() && line[i + 1] == '"') {
        out.back() += '"';
        ++i;
      } else {
        quoted = !quoted;
      }
    } else if (c == ',' && !quoted) {
      out.emplace_back();
    } else {
      out.back() += c;
    }
  }
  return out;
}

std::optional<double> parsed(const std::string& text) {
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return std::nullopt;
  return value;
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  for (const std::string_view candidate : names) {
    if (candidate == name) return true;
  }
  return false;
}

// A header names the columns. With `metric` and `before` or `after` each line is a row; without, the last
// column is the figure and the others are the configuration.
Result<std::vector<BenchRow>> csv_rows(std::string_view text, const std::string& source) {
  std::vector<std::string> head;
  std::vector<BenchRow> out;
  std::size_t number_of_line = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++number_of_line;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with('#')) continue;
    const std::vector<std::string> fields = csv_fields(line);
    if (head.empty()) {
      head = fields;
      continue;
    }
    const std::string where = printable(source) + ":" + std::to_string(number_of_line);
    if (fields.size() != head.size()) {
      return Error{ErrorKind::kCorrupt, where,
                   "It has " + std::to_string(fields.size()) + " fields, the header " +
                       std::to_string(head.size()) + "."};
    }
    BenchRow row;
    bool has_figure = false;
    for (std::size_t i = 0; i < head.size(); ++i) {
      const std::string& name = head[i];
      const bool figure = is_one_of(name, {"before", "after", "value"});
      const bool last = i + 1 == head.size() && row.metric.empty() && !has_figure;
      if (figure || (last && parsed(fields[i]))) {
        const auto value = parsed(fields[i]);
        if (!value && !fields[i].empty()) {
          return Error{
              ErrorKind::kCorrupt, where,
              "The column " + printable(name) + " holds \"" + printable(fields[i]) + "\", not a number."};
        }
        (name == "before" ? row.before : row.after) = value;
        has_figure = true;
        if (last && !figure) row.metric = name;
      } else if (name == "metric") {
        row.metric = fields[i];
      } else if (name == "unit") {
        row.unit = fields[i];
      } else if (name == "spread") {
        row.spread = fields[i];
      } else if (name == "image") {
        row.image = fields[i];
      } else if (name == "better") {
        row.higher_is_better = fields[i] != "lower";
      } else if (name == "configuration") {
        add(row.configuration, fields[i]);
      } else {
        add(row.configuration, name + ' ' + fields[i]);
      }
    }
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace

std::optional<double> BenchRow::change() const {
  if (!before || !after || *before == 0.0) return std::nullopt;
  return *after / *before - 1.0;
}

bool BenchRow::is_regression() const {
  if (!verdict.empty()) return verdict.find("worse") != std::string::npos;
  const auto share = change();
  return share && (higher_is_better ? *share < -kNoise : *share > kNoise);
}

Result<std::vector<BenchRow>> read_bench_rows(std::string_view text, const std::string& source,
                                              const std::string& image) {
  std::vector<BenchRow> rows;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '{') {
    TS_TRY(const nlohmann::json json, parse_json(text, printable(source)));
    if (json_field(json, "cells").is_array()) {
      rows = comparison_rows(json);
    } else if (json_field(json, "results").is_array() && json_field(json, "metadata").is_object()) {
      rows = inference_bench_rows(json);
    } else if (number(json, "output_throughput") || number(json, "request_throughput")) {
      rows = vllm_rows(json);
    } else {
      return Error{
          ErrorKind::kUnsupported, printable(source),
          "This JSON is no result of tessera bench compare, vllm bench serve or llm-inference-bench."};
    }
  } else {
    TS_TRY(rows, csv_rows(text, source));
  }
  for (BenchRow& row : rows) {
    row.source = source;
    if (row.image.empty()) row.image = image;
  }
  return rows;
}

}  // namespace tessera::stack
