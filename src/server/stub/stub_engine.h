// An engine without a model, for tests of the server, client tests and measurements of the server's own cost.
// Runs on a thread of its own, as the real one does, and keeps the same promises to clients.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include "engine/engine_client.h"

namespace tessera {

struct StubOptions {
  EngineInfo info;
  // What every request generates, before max_tokens cuts it. An end token ends it early.
  std::vector<std::int32_t> script;
  std::size_t bundle = 1;                   // tokens a step
  std::int32_t drafts = 0;                  // of these, the first so many count as accepted drafts
  std::chrono::microseconds step_delay{0};  // between steps
  std::size_t max_waiting = 1'000'000;
  bool paused = false;  // nothing runs until resume()
  // Called first thing, on the caller's thread; what they throw reaches the caller.
  std::function<void(const GenerationRequest&)> on_submit = {};
  std::function<void()> on_cancel = {};
};

class StubEngine final : public EngineClient {
 public:
  explicit StubEngine(StubOptions options);
  ~StubEngine() override;

  Result<RequestId> submit(GenerationRequest request, std::shared_ptr<RequestSink> sink) override;
  void cancel(RequestId id) override;
  const EngineInfo& info() const override { return options_.info; }
  EngineStats stats() const override;

  void resume();
  // The request that was submitted last.
  GenerationRequest last_request() const;

 private:
  struct Running {
    GenerationRequest request;
    std::shared_ptr<RequestSink> sink;  // shared with nobody: handed over by submit
    RequestTimes times = {};
    std::size_t at = 0;  // in the script
    std::int32_t generated = 0;
    bool cancelled = false;
  };

  void run();
  RequestOutput advance(RequestId id, Running& running) const;
  SampledToken sample(const Running& running, std::int32_t token) const;
  std::int32_t constrained(const Running& running, std::int32_t wanted) const;

  StubOptions options_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable wake_;
  std::map<std::uint64_t, Running> running_;
  EngineStats stats_;
  std::uint64_t next_id_ = 1;
  GenerationRequest last_;
  bool stopping_ = false;
  std::thread thread_;
};

// The alternatives that the stub reports for a token: a fixed function, so that tests can expect them.
float stub_logprob(std::int32_t token);

}  // namespace tessera
