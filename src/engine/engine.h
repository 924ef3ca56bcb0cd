// The engine's thread: takes requests from clients, plans steps, hands out results. Owns the scheduler;
// everything that the two share with clients lies behind one mutex, which is never held while a sink, a
// constraint or the runner is called.
#pragma once

#include <array>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <thread>
#include <vector>

#include "engine/engine_client.h"
#include "engine/scheduler.h"
#include "engine/step_pipeline.h"
#include "engine/step_plan.h"
#include "speculative/gate.h"

namespace tessera {

struct EngineOptions {
  SchedulerOptions scheduler;                    // hash_key is drawn by the engine
  std::vector<std::int32_t> end_tokens;          // of the model
  std::string kv_cache_dtype;                    // for info() only
  std::int32_t ranks = 1;                        // likewise
  std::vector<MemoryLine> memory;                // likewise
  std::vector<CollectiveLine> collectives = {};  // likewise
  std::vector<AllReduceLine> all_reduces = {};   // likewise
  std::string fingerprint;                       // for info() only
  std::int32_t max_waiting = 0;                  // most requests in the queue; 0: no limit
  std::uint64_t seed = 0;                        // of the seeds of requests that bring none
  // Whether and how far to speculate; most_drafts is the scheduler's. Absent: the runner has no drafts.
  std::optional<GateOptions> gate;
  PipelineOptions pipeline = {};  // whether steps are planned ahead
  // Called once, on the engine's thread, after a step threw and every request was told. No further request is
  // taken; the process should end with this message.
  std::function<void(const Error&)> on_fatal;
  // What an operator should know while requests go on; on the engine's thread. May be empty.
  std::function<void(const std::string&)> on_warning = {};
};

class Engine final : public EngineClient {
 public:
  // The runner's limits must be the scheduler's.
  static Result<std::unique_ptr<Engine>> create(EngineOptions options, std::unique_ptr<StepRunner> runner);
  ~Engine() override;  // aborts what still runs; never on the engine's thread

  Result<RequestId> submit(GenerationRequest request, std::shared_ptr<RequestSink> sink) override;
  void cancel(RequestId id) override;
  const EngineInfo& info() const override { return info_; }
  EngineStats stats() const override;

  // Takes no further request, returns when all have ended; those that have not after `patience` are aborted.
  // Not on the engine's thread.
  void drain(std::chrono::milliseconds patience);

 private:
  Engine(EngineOptions options, std::unique_ptr<StepRunner> runner);

  void run();
  // What clients asked for since the last look. False: the engine is to end.
  bool take_requests();
  void step();
  bool has_steps() const { return scheduler_.has_work() || pipeline_.launched() > 0; }
  bool launch();
  void settle();
  DraftPolicy decide_drafts(StepSituation& situation);
  struct Launched;
  void record_drafts(const Launched& step, double seconds);
  void stop_after(const Error& error);
  void hand_out(std::span<const Delivery> deliveries);
  void publish(bool handing_out);
  Result<void> admit_submission() const;  // with mutex_ held
  std::int64_t waiting() const;           // with mutex_ held

  const EngineOptions options_;
  EngineInfo info_;
  SequenceLimits limits_;

  // --- the engine's thread alone
  Scheduler scheduler_;
  StepPipeline pipeline_;
  std::optional<SpeculationGate> gate_;
  struct Launched {
    Clock::time_point began;    // its planning
    StepSituation situation;    // that the gate decided in
    std::int32_t drafting = 0;  // drafts that it makes; what the one before made, it verifies
    std::int32_t verifying = 0;
    std::int64_t tokens = 0;
  };
  std::array<Launched, 2> launched_;  // by number, modulo
  std::int64_t launches_ = 0;
  std::int32_t drafting_ = 0;     // of the step launched last
  Clock::time_point known_;       // when the result before the next was there
  StepResult* result_ = nullptr;  // that one
  SpeculationStats speculation_;
  std::vector<std::unique_ptr<Sequence>> arrived_;
  std::vector<RequestId> cancelled_;
  std::vector<RequestId> broken_sinks_;  // a sink threw: its request is cancelled
  std::int64_t steps_ = 0;
  StepTokenCounts step_tokens_;
  double step_seconds_ = 0;
  double host_seconds_ = 0;

  // --- shared, under mutex_
  mutable std::mutex mutex_;
  std::condition_variable wake_;  // for the engine: something is in the inbox
  std::condition_variable idle_;  // for drain(): all requests have ended
  std::vector<std::unique_ptr<Sequence>> inbox_;
  std::vector<RequestId> cancel_inbox_;
  EngineStats books_;
  bool handing_out_ = false;  // the books already count what sinks are yet to hear
  std::uint64_t next_id_ = 1;
  std::mt19937_64 seeds_;
  bool draining_ = false;
  std::optional<Clock::time_point> abort_at_;
  bool ending_ = false;
  std::optional<Error> fatal_;

  std::thread thread_;  // last: starts when all else is there
};

}  // namespace tessera
