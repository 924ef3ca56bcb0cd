// The bodies of the routes that tell how the server is: /health and /v1/models.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "server/ready_state.h"

namespace tessera {

// {"status","phase","progress","detail"}
std::string health_body(const ReadyState::Snapshot& state, bool is_draining);

struct ModelCard {
  std::string_view path;                           // of the model's folder
  std::int64_t created = 0;                        // seconds since 1970
  std::optional<std::int32_t> max_model_len = {};  // absent until the model is loaded
};
void append_model(std::string& out, std::string_view name, const ModelCard& card);

}  // namespace tessera
