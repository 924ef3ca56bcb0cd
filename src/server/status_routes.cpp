#include "server/status_routes.h"

#include "server/protocol/json_writer.h"

namespace tessera {

std::string health_body(const ReadyState::Snapshot& state, bool is_draining) {
  const bool is_ready = state.ready && !is_draining;
  std::string body = R"({"status":)";
  append_json_string(body, is_ready       ? "ready"
                           : is_draining  ? "draining"
                           : state.failed ? "failed"
                                          : "loading");
  body += R"(,"phase":)";
  append_json_string(body, is_draining ? "draining" : state.phase);
  body += R"(,"progress":)";
  append_json_number(body, state.progress);
  body += R"(,"detail":)";
  append_json_string_or_null(body, state.detail);
  body += '}';
  return body;
}

void append_model(std::string& out, std::string_view name, const ModelCard& card) {
  out += R"({"id":)";
  append_json_string(out, name);
  out += R"(,"object":"model","created":)";
  append_json_number(out, card.created);
  out += R"(,"owned_by":"tessera","root":)";
  append_json_string_or_null(out, card.path);
  out += R"(,"parent":null,"max_model_len":)";
  if (card.max_model_len) {
    append_json_number(out, std::int64_t{*card.max_model_len});
  } else {
    out += "null";
  }
  out += '}';
}

}  // namespace tessera
