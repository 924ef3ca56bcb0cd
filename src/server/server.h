// The HTTP server of one model, as main sees it.
//
//   ReadyState ready;
//   Server server(options, ready);
//   server.start();                    // answers /health with 503 and the phase from here on
//   ... load ...
//   server.attach({.engine = &engine, .tokenizer = &tokenizer, .chat_template = &chat});
//   ready.set_ready();
//   ... SIGTERM ...
//   server.drain(30s);                 // 503 for new requests, running ones finish
//   server.stop();                     // before the engine and the tokenizer go
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine_client.h"
#include "server/http/http_server.h"
#include "server/ready_state.h"
#include "tokenizer/chat_template.h"
#include "tokenizer/tokenizer.h"

namespace tessera {

struct ServerOptions {
  http::HttpOptions http;                 // --host, --port, body and time limits
  std::string root_path;                  // --root-path: a prefix that a proxy leaves on
  std::vector<std::string> served_names;  // --served-model-name; the first one is used in answers and metrics
  std::string model_path;                 // "root" in /v1/models
  std::string version = "0.1.0";
  std::vector<std::string> api_keys;              // --api-key; none: everybody may
  std::vector<std::string> cors_origins = {"*"};  // --allowed-origins; none: no CORS headers
  bool cors_credentials = false;                  // --allow-credentials
  std::string record_folder;  // --record-requests: a file for each request and its answer; empty: none
  std::int64_t record_folder_bytes = std::int64_t{1} << 30;  // --record-requests-max-bytes
  bool page = true;           // --no-ui turns it off: the page at "/"
  bool access_log = true;     // --disable-uvicorn-access-log turns it off

  int max_concurrent_requests = 1024;  // --max-concurrent-requests: in work at once; more are answered 429
  int worker_threads = 2;              // for preparing large requests
  std::size_t inline_body_bytes = 32U << 10;  // larger bodies are prepared by workers, off the io threads
  std::chrono::milliseconds ping_interval{15'000};  // a comment in a stream that has nothing to send

  bool always_include_usage = false;  // --enable-force-include-usage
  std::int32_t max_logprobs = 20;     // --max-logprobs
  std::int32_t max_choices = 128;     // n times prompts in one request
  SamplingParams default_sampling;    // from the model's generation_config (--generation-config)

  std::string tool_call_parser;          // --tool-call-parser: "" or "kimi_k2"
  bool enable_auto_tool_choice = false;  // --enable-auto-tool-choice
  std::string reasoning_parser;          // --reasoning-parser: "" or "kimi_k2"
  bool canonical_tool_ids = true;  // rename ids in history to functions.NAME:IDX (with a kimi_k2 parser)
  std::string response_role = "assistant";  // --response-role
  std::string chat_template_kwargs =
      "{}";  // --default-chat-template-kwargs: a JSON object, under a request's own
  bool control_tokens_in_messages =
      false;  // restore what other engines do: message text may spell control tokens
};

// Borrowed; all must outlive the server's stop().
struct ServedModel {
  EngineClient* engine = nullptr;
  const Tokenizer* tokenizer = nullptr;
  const ChatTemplate* chat_template = nullptr;  // null: the model has none, and chat is refused
};

class Server {
 public:
  // Borrows `ready`.
  Server(ServerOptions options, ReadyState& ready);
  ~Server();

  // Names the option that cannot be accepted, or the address that cannot be had.
  Result<void> start();
  std::uint16_t port() const;
  void attach(const ServedModel& model);

  // Requests that are being answered.
  int in_flight() const;
  // Refuses new work with 503 and waits until nothing is in flight or the time is up; true: nothing is.
  bool drain(std::chrono::milliseconds time);
  // Cuts what is left (cancelling it in the engine) and joins all threads.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera
