// What a server says of itself before anything is measured.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "bench/load/load_loop.h"
#include "bench/load/prometheus_text.h"

namespace tessera::bench {

struct ServerFacts {
  std::string model;                      // as requests must name it
  std::optional<std::int64_t> context;    // max_model_len
  std::optional<std::int64_t> kv_tokens;  // that its cache holds
  bool has_metrics = false;
  std::map<std::string, std::string> said;  // everything, for the report
};

// Asks /v1/models, /version and /metrics. `model`: the one to use, empty for the first that is served.
Result<ServerFacts> ask_server(LoadLoop& loop, const std::string& model);

// The counters now; empty where the server has no /metrics.
ServerCounters fetch_counters(LoadLoop& loop, const ServerFacts& facts);

}  // namespace tessera::bench
