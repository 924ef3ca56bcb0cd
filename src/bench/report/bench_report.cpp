#include "bench/report/bench_report.h"

#include <array>
#include <chrono>
#include <cmath>
#include <ctime>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

namespace tessera::bench {
namespace {

using nlohmann::ordered_json;

constexpr std::string_view kSchema = "tessera-bench/1";

constexpr std::array<std::pair<Standing, std::string_view>, 8> kStandings = {{
    {Standing::kGood, "good"},
    {Standing::kDoesNotFit, "does not fit"},
    {Standing::kOverCapacity, "over capacity"},
    {Standing::kDegenerate, "degenerate output"},
    {Standing::kEndedEarly, "ended early"},
    {Standing::kUnsteady, "unsteady"},
    {Standing::kInexactPrompt, "inexact prompt"},
    {Standing::kFailed, "failed"},
}};

std::string shown(double value) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(),
                value == std::floor(value) && std::abs(value) < 1e15 ? "%.0f" : "%g", value);
  return text.data();
}

std::string processor() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("model name")) {
      const std::size_t colon = line.find(": ");
      if (colon != std::string::npos) return line.substr(colon + 2);
    }
  }
  return "unknown";
}

Result<Measurement> measurement_from(const ordered_json& json, const std::string& where) {
  Measurement m;
  m.metric = json.at("metric").get<std::string>();
  m.unit = json.at("unit").get<std::string>();
  for (const auto& [name, value] : json.at("axes").items()) m.axes.emplace_back(name, value.get<double>());
  m.series = json.value("series", "");
  m.higher_is_better = json.at("higher_is_better").get<bool>();
  m.group = json.value("group", "");
  const std::string standing = json.at("standing").get<std::string>();
  const auto known = standing_of(standing);
  if (!known) return Error{ErrorKind::kCorrupt, where, "The standing \"" + standing + "\" is unknown."};
  m.standing = *known;
  m.remark = json.value("remark", "");
  m.value = json.at("value").is_null() ? 0 : json.at("value").get<double>();
  if (m.counts() && json.at("value").is_null())
    return Error{ErrorKind::kCorrupt, where, "A good measurement of " + m.metric + " has no value."};
  m.samples = json.value("samples", std::vector<double>{});
  if (json.contains("bound")) m.bound = json.at("bound").get<double>();
  m.facts = json.value("facts", std::map<std::string, double>{});
  return m;
}

}  // namespace

std::string_view name_of(Standing standing) {
  for (const auto& [one, name] : kStandings) {
    if (one == standing) return name;
  }
  return "unknown";
}

std::optional<Standing> standing_of(std::string_view name) {
  for (const auto& [one, known] : kStandings) {
    if (known == name) return one;
  }
  return std::nullopt;
}

std::string Measurement::configuration() const {
  std::string out = series;
  for (const auto& [name, at] : axes) out += (out.empty() ? "" : ", ") + name + ' ' + shown(at);
  return out;
}

std::optional<double> Measurement::axis(std::string_view name) const {
  for (const auto& [one, at] : axes) {
    if (one == name) return at;
  }
  return std::nullopt;
}

std::string to_json(const BenchReport& report) {
  ordered_json json = {
      {"schema", kSchema},         {"kind", report.kind},         {"subject", report.subject},
      {"created", report.created}, {"headline", report.headline}, {"settings", report.settings},
      {"machine", report.machine}, {"server", report.server},     {"measurements", ordered_json::array()},
      {"notes", report.notes}};
  for (const Measurement& m : report.measurements) {
    ordered_json axes = ordered_json::object();
    for (const auto& [name, value] : m.axes) axes[name] = value;
    ordered_json one = {{"metric", m.metric}, {"unit", m.unit}, {"axes", axes}};
    if (!m.series.empty()) one["series"] = m.series;
    // What was not measured is null, not 0.
    one["value"] = m.standing == Standing::kDoesNotFit || m.standing == Standing::kFailed
                       ? ordered_json(nullptr)
                       : ordered_json(m.value);
    one["higher_is_better"] = m.higher_is_better;
    if (!m.group.empty()) one["group"] = m.group;
    one["standing"] = name_of(m.standing);
    if (!m.remark.empty()) one["remark"] = m.remark;
    if (m.bound) one["bound"] = *m.bound;
    if (!m.facts.empty()) one["facts"] = m.facts;
    if (!m.samples.empty()) one["samples"] = m.samples;
    json["measurements"].push_back(std::move(one));
  }
  return json.dump(1, ' ', false, ordered_json::error_handler_t::replace) + "\n";
}

Result<BenchReport> bench_report_from_json(std::string_view text, const std::string& where) {
  try {
    const ordered_json json = ordered_json::parse(text);
    if (!json.is_object() || json.value("schema", "") != kSchema)
      return Error{ErrorKind::kUnsupported, where, "This JSON is no report of tessera bench."};
    BenchReport report;
    report.kind = json.at("kind").get<std::string>();
    report.subject = json.value("subject", "");
    report.created = json.value("created", "");
    report.headline = json.value("headline", "");
    report.settings = json.value("settings", std::map<std::string, std::string>{});
    report.machine = json.value("machine", std::map<std::string, std::string>{});
    report.server = json.value("server", std::map<std::string, std::string>{});
    report.notes = json.value("notes", std::vector<std::string>{});
    for (const ordered_json& one : json.at("measurements")) {
      TS_TRY(Measurement m, measurement_from(one, where));
      report.measurements.push_back(std::move(m));
    }
    return report;
  } catch (const nlohmann::json::exception& error) {
    return Error{ErrorKind::kCorrupt, where, std::string("The report cannot be read: ") + error.what()};
  }
}

BenchReport begin_report(std::string kind) {
  BenchReport report;
  report.kind = std::move(kind);
  const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
  std::tm utc{};
  gmtime_r(&now, &utc);
  std::array<char, 32> text;
  std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &utc);
  report.created = text.data();
  report.machine["processor"] = processor();
  report.machine["hardware_threads"] = std::to_string(std::thread::hardware_concurrency());
  std::ifstream load("/proc/loadavg");
  if (std::string first; load >> first) report.machine["load_at_start"] = first;
  return report;
}

}  // namespace tessera::bench
