#include "server/service.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>

#include "server/access.h"
#include "server/http/failure.h"
#include "server/page/page.h"
#include "server/protocol/json_body.h"
#include "server/protocol/json_writer.h"
#include "server/status_routes.h"
#include "server/tokenize_routes.h"

namespace tessera {

using http::Exchange;
using http::Request;
using http::Response;

struct Service::Call {
  Service& service;
  std::shared_ptr<Exchange> exchange;
  std::string method;
  std::string path;  // as sent, for the log
  std::string client;
  Route route;
  std::string id;
  http::Headers headers;
  std::size_t body_bytes = 0;
  Clock::time_point began = Clock::now();
  bool counted = false;

  void count() {
    counted = true;
    const std::lock_guard lock(service.flight_mutex_);
    ++service.in_flight_;
  }
  ~Call() {
    if (!counted) return;
    const std::lock_guard lock(service.flight_mutex_);
    if (--service.in_flight_ == 0) service.landed_.notify_all();
  }
};

namespace {

constexpr std::array<std::string_view, 12> kRouteNames = {"/",
                                                          "/health",
                                                          "/ping",
                                                          "/version",
                                                          "/metrics",
                                                          "/load",
                                                          "/v1/models",
                                                          "/v1/chat/completions",
                                                          "/v1/completions",
                                                          "/tokenize",
                                                          "/detokenize",
                                                          "other"};

}  // namespace

Service::Service(const ServerOptions& options, ReadyState& ready)
    : options_(options),
      ready_(ready),
      metrics_(options.served_names.empty() ? "model" : options.served_names.front(), options.version),
      created_(std::chrono::duration_cast<std::chrono::seconds>(
                   std::chrono::system_clock::now().time_since_epoch())
                   .count()),
      workers_(options.worker_threads),
      random_(std::random_device{}()) {}

Service::~Service() { stop(); }

void Service::stop() {
  workers_.join();
  if (recorder_) recorder_->stop();
  metrics_.attach(nullptr);
}

void Service::record(std::unique_ptr<Recorder> recorder) { recorder_ = std::move(recorder); }

void Service::attach(const ServedModel& model) {
  auto made = std::make_shared<const PrepareContext>(make_prepare_context(options_, model));
  metrics_.attach(model.engine);
  const std::lock_guard lock(context_mutex_);
  context_ = std::move(made);
}

std::shared_ptr<const PrepareContext> Service::context() const {
  const std::lock_guard lock(context_mutex_);
  return context_;
}

int Service::in_flight() const {
  const std::lock_guard lock(flight_mutex_);
  return in_flight_;
}

bool Service::wait_idle(std::chrono::milliseconds time) {
  std::unique_lock lock(flight_mutex_);
  return landed_.wait_for(lock, time, [&] { return in_flight_ == 0; });
}

std::string_view Service::local_path(std::string_view path) const {
  const std::string& root = options_.root_path;
  if (!root.empty() && path.starts_with(root) && path.substr(root.size()).starts_with('/')) {
    path.remove_prefix(root.size());
  }
  return path;
}

Service::Route Service::route_of(std::string_view path) const {
  path = local_path(path);
  if (path == "/" && !options_.page) return Route::kUnknown;
  if (path.starts_with("/v1/models/")) return Route::kModels;
  const auto found = std::ranges::find(kRouteNames, path);
  return found == kRouteNames.end() ? Route::kUnknown : static_cast<Route>(found - kRouteNames.begin());
}

// What can be said without the body.
std::optional<ApiError> Service::refusal(const Request& request, Route route) const {
  const std::string shown = printable(request.path);
  if (route == Route::kUnknown) {
    return ApiError{.status = 404, .message = "There is nothing at " + shown + ".", .code = "not_found"};
  }
  const bool is_post = route >= Route::kChat;
  const bool reads = request.method == "GET" || request.method == "HEAD" ||
                     (route == Route::kPing && request.method == "POST");
  if (is_post ? request.method != "POST" : !reads) {
    return ApiError{.status = 405,
                    .message = shown + " takes " + (is_post ? "POST" : "GET") + ", not " +
                               printable(request.method) + ".",
                    .code = "method_not_allowed"};
  }
  const bool is_open = route == Route::kPage || route == Route::kHealth || route == Route::kPing ||
                       route == Route::kVersion || route == Route::kMetrics;
  if (!is_open && !has_key(request.header("authorization"), options_.api_keys)) {
    return ApiError{.status = 401,
                    .message = request.header("authorization").empty()
                                   ? "An API key is needed: send it as 'Authorization: Bearer KEY'."
                                   : "The API key is not valid.",
                    .type = "authentication_error",
                    .code = "invalid_api_key"};
  }
  if (!is_post) return std::nullopt;
  if (draining_) {
    return ApiError{.status = 503,
                    .message = "The server is shutting down.",
                    .type = "service_unavailable",
                    .code = "shutting_down",
                    .retry_after_s = 5};
  }
  const auto state = ready_.snapshot();
  if (!state.ready || !context()) {
    return ApiError{.status = 503,
                    .message = "The server is not ready: " + state.phase +
                               (state.detail.empty() ? "" : " (" + state.detail + ")") + ".",
                    .type = "service_unavailable",
                    .code = "not_ready",
                    .retry_after_s = 2};
  }
  if (in_flight() >= options_.max_concurrent_requests) {
    return ApiError{.status = 429,
                    .message = "The server already works on " +
                               std::to_string(options_.max_concurrent_requests) +
                               " requests, which is its limit.",
                    .type = "rate_limit_error",
                    .code = "too_many_requests",
                    .retry_after_s = 1};
  }
  return std::nullopt;
}

std::string Service::request_id(const Request& request) {
  const std::string_view given = request.header("x-request-id");
  if (is_clean_id(given)) return std::string(given);
  std::array<std::uint64_t, 2> words;
  {
    const std::lock_guard lock(random_mutex_);
    words = {random_(), random_()};
  }
  return fmt::format("{:016x}{:016x}", words[0], words[1]);
}

http::Headers Service::common_headers(const Request& request, const std::string& id) const {
  http::Headers out = {{"X-Request-Id", id}};
  const CorsPolicy policy{.origins = options_.cors_origins, .credentials = options_.cors_credentials};
  for (auto& header : cors_headers(policy, request.header("origin"))) out.push_back(std::move(header));
  return out;
}

bool Service::refuse(const Request& head, Exchange& exchange) {
  if (head.method == "OPTIONS") return false;
  const Route route = route_of(head.path);
  const auto error = refusal(head, route);
  if (!error) return false;
  const std::string id = request_id(head);
  Response response{.status = error->status, .body = error->to_json(), .headers = common_headers(head, id)};
  if (error->status == 405)
    response.headers.emplace_back("Allow", route >= Route::kChat ? "POST" : "GET, HEAD");
  if (error->status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (error->retry_after_s > 0)
    response.headers.emplace_back("Retry-After", std::to_string(error->retry_after_s));
  metrics_.http_answered(kRouteNames[static_cast<std::size_t>(route)], error->status);
  if (options_.access_log) {
    spdlog::info("{} \"{} {}\" {} id={} {}", head.client, printable(head.method), printable(head.path),
                 error->status, id, error->code);
  }
  exchange.respond(std::move(response));
  return true;
}

Response Service::problem(int status, std::string message) {
  metrics_.http_answered("other", status);
  return {.status = status, .body = ApiError{.status = status, .message = std::move(message)}.to_json()};
}

std::shared_ptr<Exchange> Service::watched(std::shared_ptr<Exchange> exchange, const Request& request,
                                           const std::string& id) {
  const auto model = context();
  return recorder_->watch(std::move(exchange),
                          {.at = record_time(),
                           .version = options_.version,
                           .model = options_.served_names.front(),
                           .fingerprint = model ? model->model.engine->info().fingerprint : "",
                           .id = id,
                           .user_agent = std::string(request.header("user-agent")),
                           .method = request.method,
                           .path = std::string(local_path(request.path)),
                           .body = request.body});
}

void Service::handle(std::shared_ptr<Exchange> exchange, Request request) {
  std::string id = request_id(request);
  if (recorder_ && request.method == "POST") exchange = watched(std::move(exchange), request, id);
  http::Headers headers = common_headers(request, id);
  if (request.method == "OPTIONS") {
    headers.emplace_back("Allow", "GET, HEAD, POST, OPTIONS");
    if (!request.header("origin").empty()) {
      headers.emplace_back("Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS");
      headers.emplace_back("Access-Control-Allow-Headers", "Authorization, Content-Type, X-Request-Id");
      headers.emplace_back("Access-Control-Max-Age", "600");
    }
    return exchange->respond({.status = 204, .headers = std::move(headers)});
  }
  const auto call = std::shared_ptr<Call>(new Call{.service = *this,
                                                   .exchange = std::move(exchange),
                                                   .method = request.method,
                                                   .path = request.path,
                                                   .client = request.client,
                                                   .route = route_of(request.path),
                                                   .id = std::move(id),
                                                   .headers = std::move(headers),
                                                   .body_bytes = request.body.size()});
  try {
    dispatch(call, request);
  } catch (...) {
    answer_failure(*call, "handling");
  }
}

void Service::dispatch(const std::shared_ptr<Call>& call, Request& request) {
  switch (call->route) {
    case Route::kPage:
      return page(*call);
    case Route::kHealth:
      return health(*call);
    case Route::kPing:
      return health(*call);
    case Route::kVersion: {
      std::string body = R"({"version":)";
      append_json_string(body, options_.version);
      return answer(*call, 200, body + "}");
    }
    case Route::kMetrics:
      return answer(*call, 200, metrics_.render(), "text/plain; version=0.0.4; charset=utf-8");
    case Route::kLoad:
      return answer(*call, 200, R"({"server_load":)" + std::to_string(in_flight()) + "}");
    case Route::kModels:
      return models(*call);
    default:
      break;
  }
  // It may have begun to drain, or filled up, while the body came.
  if (const auto error = refusal(request, call->route)) return answer_error(*call, *error);
  call->count();
  prepare(call, std::move(request.body));
}

void Service::page(Call& call) {
  call.headers.emplace_back("Content-Security-Policy", page_policy());
  call.headers.emplace_back("X-Content-Type-Options", "nosniff");
  call.headers.emplace_back("Referrer-Policy", "no-referrer");
  call.headers.emplace_back("Cache-Control", "no-cache");  // a new build is a new page
  answer(call, 200, std::string(page_document()), "text/html; charset=utf-8");
}

void Service::health(Call& call) {
  const auto state = ready_.snapshot();
  const bool is_draining = draining_;
  answer(call, state.ready && !is_draining ? 200 : 503, health_body(state, is_draining));
}

void Service::models(Call& call) {
  const std::string_view path = local_path(call.path);
  constexpr std::string_view kOne = "/v1/models/";
  ModelCard card{.path = options_.model_path, .created = created_};
  if (const auto ready = context()) card.max_model_len = ready->model.engine->info().max_model_len;
  std::string body;
  if (path.starts_with(kOne)) {
    const std::string name(path.substr(kOne.size()));
    if (std::ranges::find(options_.served_names, name) == options_.served_names.end()) {
      return answer_error(call, {.status = 404,
                                 .message = "The model '" + printable(name) + "' is not served here.",
                                 .param = "model",
                                 .code = "model_not_found"});
    }
    append_model(body, name, card);
  } else {
    body = R"({"object":"list","data":[)";
    for (const std::string& name : options_.served_names) {
      if (&name != &options_.served_names.front()) body += ',';
      append_model(body, name, card);
    }
    body += "]}";
  }
  answer(call, 200, std::move(body));
}

void Service::answer(Call& call, int status, std::string body, std::string content_type) {
  metrics_.http_answered(kRouteNames[static_cast<std::size_t>(call.route)], status);
  if (options_.access_log && call.route >= Route::kLoad) {  // probes and scrapes would drown the rest
    const auto took = std::chrono::duration<double, std::milli>(Clock::now() - call.began);
    spdlog::info("{} \"{} {}\" {} id={} {:.1f} ms", call.client, printable(call.method), printable(call.path),
                 status, call.id, took.count());
  }
  call.exchange->respond({.status = status,
                          .content_type = std::move(content_type),
                          .body = std::move(body),
                          .headers = call.headers});
}

void Service::answer_error(Call& call, const ApiError& error) {
  if (error.retry_after_s > 0) call.headers.emplace_back("Retry-After", std::to_string(error.retry_after_s));
  answer(call, error.status, error.to_json());
}

// A border: a client gets an answer, whatever happens, and the log learns why, but not of what it asked.
void Service::answer_failure(Call& call, std::string_view what) {
  spdlog::error("id={}: {} the request failed: {}", call.id, what, http::describe_failure());
  answer_error(call, {.status = 500,
                      .message = "The server failed to answer this request.",
                      .type = "server_error",
                      .code = "internal_error"});
}

// Parsing and tokenising happen here for short bodies and on a worker for long ones: ten milliseconds of work
// on an io thread would hold up every stream on it.
void Service::prepare(std::shared_ptr<Call> call, std::string body) {
  using Done = std::function<void(const std::shared_ptr<Call>&)>;
  auto work = [route = call->route, id = call->id, text = std::move(body), model = context()]() -> Done {
    const auto failed = [](ApiError error) -> Done {
      return [error = std::move(error)](const auto& to) { to->service.answer_error(*to, error); };
    };
    auto json = parse_json_body(text);
    if (!json) return failed(json.error());
    if (route == Route::kTokenize || route == Route::kDetokenize) {
      auto answered = route == Route::kTokenize ? tokenize(*model, *json) : detokenize(*model, *json);
      if (!answered) return failed(answered.error());
      return [out = *std::move(answered)](const auto& to) { to->service.answer(*to, 200, out); };
    }
    auto prepared =
        route == Route::kChat ? prepare_chat(*model, *json, id) : prepare_completion(*model, *json, id);
    if (!prepared) return failed(prepared.error());
    // std::function copies, requests are large: the one copy is shared until it is moved out.
    return [ready = std::make_shared<PreparedGeneration>(*std::move(prepared))](const auto& to) {
      to->service.generate(to, std::move(*ready));
    };
  };
  const auto guarded = [work = std::move(work)]() -> Done {
    try {
      return work();
    } catch (...) {  // told on the connection's thread, where it can be answered
      return [failure = std::current_exception()](const auto& to) {
        try {
          std::rethrow_exception(failure);
        } catch (...) {
          to->service.answer_failure(*to, "preparing");
        }
      };
    }
  };
  if (call->body_bytes <= options_.inline_body_bytes) return guarded()(call);
  // The exchange owns the call while a worker is busy; a worker's result for a client that left finds nobody.
  Exchange& exchange = *call->exchange;
  exchange.on_gone([call] {});
  workers_.post([guarded, mailbox = exchange.mailbox(), weak = std::weak_ptr(call)] {
    if (weak.expired()) return;
    mailbox->mail([done = guarded(), weak] {
      const auto alive = weak.lock();
      if (!alive) return;
      try {
        done(alive);
      } catch (...) {
        alive->service.answer_failure(*alive, "handling");
      }
    });
  });
}

void Service::generate(std::shared_ptr<Call> call, ApiResult<PreparedGeneration> prepared) {
  const auto model = context();
  const auto generation = std::make_shared<Generation>(
      *model->model.engine, *model->model.tokenizer, metrics_, call->exchange, *std::move(prepared),
      GenerationSettings{.id = call->id, .ping_interval = options_.ping_interval, .headers = call->headers},
      [this, call](const GenerationSummary& summary) { log(*call, summary); });
  generation->start();
}

void Service::log(const Call& call, const GenerationSummary& summary) {
  metrics_.http_answered(kRouteNames[static_cast<std::size_t>(call.route)], summary.status);
  if (!options_.access_log) return;
  using Milliseconds = std::chrono::duration<double, std::milli>;
  spdlog::info("{} \"{} {}\" {} id={} {} prompt={} cached={} completion={} first={:.1f} ms all={:.1f} ms",
               call.client, call.method, printable(call.path), summary.status, call.id, summary.finish,
               summary.usage.prompt_tokens, summary.usage.cached_tokens, summary.usage.completion_tokens,
               Milliseconds(summary.to_first_token).count(), Milliseconds(Clock::now() - call.began).count());
}

}  // namespace tessera
