#include "server/server.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "server/service.h"

namespace tessera {

struct Server::Impl {
  Impl(ServerOptions given, ReadyState& ready)
      : options(std::move(given)), service(options, ready), http(options.http, service) {}

  ServerOptions options;
  Service service;
  http::HttpServer http;
  bool stopped = false;
};

Server::Server(ServerOptions options, ReadyState& ready)
    : impl_(std::make_unique<Impl>(std::move(options), ready)) {}

Server::~Server() { stop(); }

Result<void> Server::start() {
  const ServerOptions& options = impl_->options;
  const auto refuse = [](const char* option, std::string what) {
    return Error{ErrorKind::kInvalidArgument, option, std::move(what)};
  };
  if (options.served_names.empty()) return refuse("--served-model-name", "A model needs at least one name.");
  for (const std::string& key : options.api_keys) {
    if (key.empty())
      return refuse("--api-key", "An empty API key would let nobody in; leave the option out instead.");
  }
  for (const auto& [option, parser] : {std::pair{"--tool-call-parser", options.tool_call_parser},
                                       std::pair{"--reasoning-parser", options.reasoning_parser}}) {
    if (!parser.empty() && parser != "kimi_k2") {
      return refuse(option, "The parser '" + parser + "' is not known; kimi_k2 is.");
    }
  }
  if (options.enable_auto_tool_choice && options.tool_call_parser.empty()) {
    return refuse("--enable-auto-tool-choice", "It needs --tool-call-parser (kimi_k2).");
  }
  const auto kwargs = nlohmann::json::parse(options.chat_template_kwargs, nullptr, false);
  if (!kwargs.is_object()) {
    return refuse("--default-chat-template-kwargs",
                  "The value must be a JSON object, not '" + options.chat_template_kwargs + "'.");
  }
  if (!options.root_path.empty() && (options.root_path.front() != '/' || options.root_path.back() == '/')) {
    return refuse("--root-path",
                  "The path must begin with '/' and not end with it, unlike '" + options.root_path + "'.");
  }
  if (!options.record_folder.empty()) {
    TS_TRY(auto recorder, Recorder::open(options.record_folder, options.api_keys,
                                         {.folder_bytes = options.record_folder_bytes}));
    impl_->service.record(std::move(recorder));
  }
  return impl_->http.start();
}

std::uint16_t Server::port() const { return impl_->http.port(); }

void Server::attach(const ServedModel& model) { impl_->service.attach(model); }

int Server::in_flight() const { return impl_->service.in_flight(); }

bool Server::drain(std::chrono::milliseconds time) {
  impl_->service.start_draining();
  impl_->http.drain();
  const auto deadline = std::chrono::steady_clock::now() + time;
  if (!impl_->service.wait_idle(time)) return false;
  // The last answers are complete, but perhaps not on the wire yet; connections close behind them.
  constexpr std::chrono::milliseconds kLook{5};
  const auto patience = std::min(deadline, std::chrono::steady_clock::now() + std::chrono::milliseconds(500));
  while (impl_->http.open_connections() > 0 && std::chrono::steady_clock::now() < patience) {
    std::this_thread::sleep_for(kLook);
  }
  return true;
}

void Server::stop() {
  if (std::exchange(impl_->stopped, true)) return;
  impl_->http.stop();
  impl_->service.stop();
}

}  // namespace tessera
