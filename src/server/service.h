// The routes: which path does what, who may, and what is written to the access log.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <random>
#include <string>

#include "server/http/exchange.h"
#include "server/metrics.h"
#include "server/prepare.h"
#include "server/recorder.h"
#include "server/server.h"
#include "server/worker_pool.h"

namespace tessera {

class Service final : public http::Handler {
 public:
  // Borrows both.
  Service(const ServerOptions& options, ReadyState& ready);
  ~Service() override;

  void attach(const ServedModel& model);
  void start_draining() { draining_ = true; }
  int in_flight() const;
  bool wait_idle(std::chrono::milliseconds time);
  // Ends the worker threads; after the http server has stopped.
  void stop();
  // From here on requests are recorded; before the http server starts.
  void record(std::unique_ptr<Recorder> recorder);

  bool refuse(const http::Request& head, http::Exchange& exchange) override;
  void handle(std::shared_ptr<http::Exchange> exchange, http::Request request) override;
  http::Response problem(int status, std::string message) override;

 private:
  enum class Route {
    kPage,
    kHealth,
    kPing,
    kVersion,
    kMetrics,
    kLoad,
    kModels,
    kChat,
    kCompletions,
    kTokenize,
    kDetokenize,
    kUnknown
  };
  std::shared_ptr<http::Exchange> watched(std::shared_ptr<http::Exchange> exchange,
                                          const http::Request& request, const std::string& id);
  struct Call;  // one request that is being answered

  Route route_of(std::string_view path) const;
  std::string_view local_path(std::string_view path) const;  // without the root path
  std::optional<ApiError> refusal(const http::Request& request, Route route) const;
  std::string request_id(const http::Request& request);
  http::Headers common_headers(const http::Request& request, const std::string& id) const;

  void answer(Call& call, int status, std::string body, std::string content_type = "application/json");
  void answer_error(Call& call, const ApiError& error);
  void answer_failure(Call& call, std::string_view what);  // only inside a catch block
  void dispatch(const std::shared_ptr<Call>& call, http::Request& request);
  void log(const Call& call, const GenerationSummary& summary);
  void page(Call& call);
  void health(Call& call);
  void models(Call& call);
  void prepare(std::shared_ptr<Call> call, std::string body);
  void generate(std::shared_ptr<Call> call, ApiResult<PreparedGeneration> prepared);

  std::shared_ptr<const PrepareContext> context() const;

  const ServerOptions& options_;
  ReadyState& ready_;
  Metrics metrics_;
  std::int64_t created_;  // seconds since 1970
  mutable std::mutex context_mutex_;
  std::shared_ptr<const PrepareContext>
      context_;                         // null until the model is attached; shared with running work
  std::unique_ptr<Recorder> recorder_;  // null: nothing is recorded
  WorkerPool workers_;
  std::atomic<bool> draining_{false};
  std::mutex random_mutex_;
  std::mt19937_64 random_;

  mutable std::mutex flight_mutex_;
  std::condition_variable landed_;
  int in_flight_ = 0;
};

}  // namespace tessera
