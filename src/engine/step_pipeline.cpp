#include "engine/step_pipeline.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace tessera {

StepPipeline::StepPipeline(std::unique_ptr<StepRunner> runner, PipelineOptions options)
    : options_(std::move(options)), runner_(std::move(runner)) {
  if (!options_.ahead) return;
  runner_->set_listener([this](StepResult& result) { give(steps_[done_ % steps_.size()], result); });
  thread_ = std::thread([this] { run_steps(); });
}

StepPipeline::~StepPipeline() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  has_work_.notify_one();
  thread_.join();
}

void StepPipeline::wait_for_plans() {
  if (!options_.ahead || !options_.guards_plans) return;
  std::unique_lock lock(mutex_);
  news_.wait(lock, [&] { return done_ + 1 >= queued_ || failure_; });
}

void StepPipeline::wait_for_drafts() {
  if (!options_.ahead) return;
  std::unique_lock lock(mutex_);
  news_.wait(lock, [&] { return done_ == queued_ || failure_; });
  if (failure_) std::rethrow_exception(failure_);
}

void StepPipeline::launch(const StepPlan& plan, Clock::time_point planning_began) {
  TS_CHECK(launched() < depth(), launched(), depth());
  steps_[launched_++ % steps_.size()] = {.plan = &plan, .planning_began = planning_began, .outcome = {}};
  if (!options_.ahead) return;
  {
    const std::lock_guard lock(mutex_);
    queued_ = launched_;
  }
  has_work_.notify_one();
}

StepPipeline::Outcome StepPipeline::take() {
  TS_CHECK(launched() > 0);
  Step& step = steps_[taken_ % steps_.size()];
  if (options_.ahead) {
    std::unique_lock lock(mutex_);
    news_.wait(lock, [&] { return known_ > taken_ || failure_; });
    if (known_ <= taken_) std::rethrow_exception(failure_);
  } else {
    if (!failure_) run(step);
    if (failure_) std::rethrow_exception(failure_);
  }
  ++taken_;
  pass(HandOver::kReceived);
  return step.outcome;
}

void StepPipeline::run_steps() {
  while (true) {
    {
      std::unique_lock lock(mutex_);
      has_work_.wait(lock, [&] { return queued_ > done_ || ending_; });
      if (queued_ == done_) return;
    }
    run(steps_[done_ % steps_.size()]);
    if (failure_) return;
  }
}

void StepPipeline::run(Step& step) {
  std::exception_ptr failure;
  try {
    pass(HandOver::kPlan);
    const auto began = Clock::now();
    step.outcome.idle = began - std::max(ended_, step.planning_began);
    given_ = false;
    StepResult& result = runner_->step(*step.plan);
    if (!given_) give(step, result);
    pass(HandOver::kEnd);
  } catch (...) {
    failure = std::current_exception();
  }
  ended_ = Clock::now();
  {
    const std::lock_guard lock(mutex_);
    if (failure) {
      failure_ = failure;
    } else {
      ++done_;
    }
  }
  news_.notify_one();
}

void StepPipeline::give(Step& step, StepResult& result) {
  pass(HandOver::kResult);
  step.outcome.result = &result;
  step.outcome.known = Clock::now();
  given_ = true;
  {
    const std::lock_guard lock(mutex_);
    ++known_;
  }
  news_.notify_one();
}

}  // namespace tessera
