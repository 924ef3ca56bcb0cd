#include "bench/load/server_facts.h"

#include <charconv>
#include <nlohmann/json.hpp>

namespace tessera::bench {
namespace {

// The entry of the model that is asked for, or the first.
Result<nlohmann::json> model_entry(const std::string& models, const std::string& wanted) {
  const auto json = nlohmann::json::parse(models, nullptr, false);
  if (!json.is_object() || !json.contains("data") || !json["data"].is_array() || json["data"].empty())
    return Error{ErrorKind::kCorrupt, "/v1/models", "The answer lists no models."};
  std::string names;
  for (const auto& entry : json["data"]) {
    if (!entry.is_object() || !entry.contains("id") || !entry["id"].is_string()) continue;
    const std::string name = entry["id"];
    if (wanted.empty() || name == wanted) return entry;
    names += (names.empty() ? "" : ", ") + name;
  }
  return Error{ErrorKind::kNotFound, "--model",
               "The server does not serve '" + wanted + "'; it serves " + names + "."};
}

std::optional<std::int64_t> label_number(const MetricSample& sample, const std::string& name) {
  const auto found = sample.labels.find(name);
  if (found == sample.labels.end()) return std::nullopt;
  std::int64_t value = 0;
  const auto [end, failed] =
      std::from_chars(found->second.data(), found->second.data() + found->second.size(), value);
  if (failed != std::errc() || end != found->second.data() + found->second.size() || value <= 0)
    return std::nullopt;
  return value;
}

void read_cache_config(const MetricSamples& samples, ServerFacts& facts) {
  for (const MetricSample& sample : samples.all()) {
    if (!sample.name.ends_with("_info")) continue;
    for (const auto& [label, value] : sample.labels) facts.said[sample.name + '.' + label] = value;
    if (sample.name != "vllm:cache_config_info") continue;
    const auto blocks = label_number(sample, "num_gpu_blocks");
    const auto block_size = label_number(sample, "block_size");
    if (blocks && block_size) facts.kv_tokens = *blocks * *block_size;
  }
}

}  // namespace

Result<ServerFacts> ask_server(LoadLoop& loop, const std::string& model) {
  ServerFacts facts;
  TS_TRY(const std::string models, loop.fetch_ok("GET", "/v1/models"));
  TS_TRY(const nlohmann::json entry, model_entry(models, model));
  facts.model = entry["id"];
  for (const auto& [key, value] : entry.items()) {
    if (!value.is_structured() && !value.is_null())
      facts.said["model." + key] = value.is_string() ? value.get<std::string>() : value.dump();
  }
  if (entry.contains("max_model_len") && entry["max_model_len"].is_number_integer())
    facts.context = entry["max_model_len"].get<std::int64_t>();
  if (const auto version = loop.fetch("GET", "/version"); version && version->status == 200)
    facts.said["version"] = version->body.substr(0, 400);
  if (const auto metrics = loop.fetch("GET", "/metrics"); metrics && metrics->status == 200) {
    facts.has_metrics = true;
    read_cache_config(MetricSamples(metrics->body), facts);
  }
  return facts;
}

ServerCounters fetch_counters(LoadLoop& loop, const ServerFacts& facts) {
  if (!facts.has_metrics) return {};
  const auto reply = loop.fetch("GET", "/metrics", {}, 10);
  return reply && reply->status == 200 ? read_counters(reply->body) : ServerCounters{};
}

}  // namespace tessera::bench
