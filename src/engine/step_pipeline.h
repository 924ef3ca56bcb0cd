// The steps of a runner, one behind the other, on a thread of their own: while one runs, the engine plans the
// next and hands out the tokens of the one before. The thread is the stream that the steps are queued on; a
// device's own stream hangs behind it.
//
// A step ends twice. Its result is there as soon as its tokens are: the engine waits for that. The drafts for
// the next step are made behind that, and read the plan to the end: so a plan's memory may be written again
// only when wait_for_plans() says so, not as soon as its result is there. (An event recorded too early let
// vLLM's proposer read the next step's inputs: vllm#40610.)
//
// Not ahead: no thread, each step runs when its result is asked for.
#pragma once

#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "engine/request.h"
#include "engine/step_plan.h"

namespace tessera {

// What passes between the two threads, for tests that delay it.
enum class HandOver : std::uint8_t {
  kPlan,      // to the runner; on its thread
  kResult,    // to the engine; on a runner's thread
  kEnd,       // of a step, drafts included; on the pipeline's thread
  kReceived,  // the result; on the engine's thread
};

struct PipelineOptions {
  bool ahead = true;
  std::function<void(HandOver)> before;  // each of these; may wait. For tests
  bool guards_plans = true;              // false: as if wait_for_plans() were forgotten. For tests
};

class StepPipeline {
 public:
  StepPipeline(std::unique_ptr<StepRunner> runner, PipelineOptions options);
  ~StepPipeline();  // lets what was launched run to its end

  // Steps that can be launched before the result of the first is taken.
  std::size_t depth() const { return options_.ahead ? 2 : 1; }
  std::size_t launched() const { return launched_ - taken_; }

  // Before a plan is written where the one before the last launched was: the runner has read that to its end.
  void wait_for_plans();
  // Before the drafts in a result are read: the last step launched is over. Throws what it threw.
  void wait_for_drafts();
  // Returns at once. The plan must stay as it is until wait_for_plans() says so.
  void launch(const StepPlan& plan, Clock::time_point planning_began);

  struct Outcome {
    StepResult* result = nullptr;  // stands until the next but one launch
    Clock::time_point known;
    Clock::duration idle = {};  // that the runner stood still for want of this step's plan
  };
  // Of the oldest step launched and not taken. Throws what the step threw; nothing runs after that.
  Outcome take();

 private:
  struct Step {
    const StepPlan* plan = nullptr;
    Clock::time_point planning_began;
    Outcome outcome;
  };

  void run_steps();
  void run(Step& step);
  void give(Step& step, StepResult& result);
  void pass(HandOver what) const {
    if (options_.before) options_.before(what);
  }

  const PipelineOptions options_;
  const std::unique_ptr<StepRunner> runner_;
  std::array<Step, 2> steps_;   // by number, modulo
  std::uint64_t launched_ = 0;  // steps; the engine's, as taken_
  std::uint64_t taken_ = 0;
  Clock::time_point ended_;  // the step before; the runner's, as given_
  bool given_ = false;       // the result of the step that runs

  std::mutex mutex_;
  std::condition_variable news_;      // for the engine
  std::condition_variable has_work_;  // for the runner's thread
  std::uint64_t queued_ = 0;          // steps that the thread may run
  std::uint64_t known_ = 0;           // whose results are there
  std::uint64_t done_ = 0;            // that have ended
  std::exception_ptr failure_;
  bool ending_ = false;
  std::thread thread_;  // last
};

}  // namespace tessera
