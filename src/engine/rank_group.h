// Several ranks of one process as one StepRunner: each has a thread that drives its own runner, all run the
// same plan in lock step.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/result.h"
#include "comm/communicator.h"
#include "engine/step_plan.h"

namespace tessera {

class RankGroup final : public StepRunner {
 public:
  // Called once on each rank's own thread, with the group's communicator for that rank, which outlives the
  // runner.
  using MakeRunner = std::function<Result<std::unique_ptr<StepRunner>>(Communicator& tp)>;

  // `communicators` has one for each rank. The first error of any rank is returned; the other ranks are
  // ended.
  static Result<std::unique_ptr<RankGroup>> create(std::vector<std::unique_ptr<Communicator>> communicators,
                                                   const MakeRunner& make_runner,
                                                   std::chrono::milliseconds deadline);
  ~RankGroup() override;

  // Runs the plan on every rank and returns rank 0's result. Throws what the first failing rank threw, its
  // number in front; a rank that does not come back within the deadline after that is named and abandoned
  // (the process must end).
  StepResult& step(const StepPlan& plan) override;
  // Rank 0 tells, on its thread; another rank may fail afterwards.
  void set_listener(Listener listener) override;

  int size() const { return static_cast<int>(threads_.size()); }

 private:
  // What the group and its threads share. Each thread holds a reference, so that a stuck one that was given
  // up finds its memory where it left it.
  struct Shared;

  explicit RankGroup(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  std::shared_ptr<Shared> shared_;
  std::vector<std::thread> threads_;
};

}  // namespace tessera
