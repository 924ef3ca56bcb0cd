#include "bench/load/request_body.h"

#include <nlohmann/json.hpp>

namespace tessera::bench {

Result<void> check_extra(const std::string& extra) {
  if (extra.empty() || nlohmann::json::parse(extra, nullptr, false).is_object()) return {};
  return Error{ErrorKind::kInvalidArgument, "--extra-body", "is '" + extra + "', which is no JSON object."};
}

std::string completion_body(const RequestStyle& style, std::span<const std::int32_t> prompt,
                            std::int64_t max_tokens) {
  nlohmann::json json = {{"model", style.model},
                         {"max_tokens", max_tokens},
                         {"stream", true},
                         {"ignore_eos", style.ignore_eos},
                         {"stream_options", {{"include_usage", true}, {"continuous_usage_stats", true}}}};
  if (style.temperature) json["temperature"] = *style.temperature;
  if (!style.extra.empty()) json.update(nlohmann::json::parse(style.extra));
  json.erase("prompt");
  std::string body = json.dump();
  // Hundreds of thousands of ids: written by hand.
  body.back() = ',';
  body += "\"prompt\":[";
  for (std::size_t i = 0; i < prompt.size(); ++i) {
    if (i > 0) body += ',';
    body += std::to_string(prompt[i]);
  }
  body += "]}";
  return body;
}

}  // namespace tessera::bench
