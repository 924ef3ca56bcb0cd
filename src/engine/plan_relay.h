// One engine over several processes: process 0 plans and sends, every process runs the plan on its own ranks.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "base/result.h"
#include "comm/message_channel.h"
#include "engine/plan_codec.h"
#include "engine/step_plan.h"

namespace tessera {

// Process 0's runner: `ranks` are those of this process, rank 0 among them, whose result is returned.
class LeadingRunner final : public StepRunner {
 public:
  LeadingRunner(std::unique_ptr<StepRunner> ranks, std::unique_ptr<MessageSender> sender)
      : ranks_(std::move(ranks)), sender_(std::move(sender)) {}

  StepResult& step(const StepPlan& plan) override;
  void set_listener(Listener listener) override { ranks_->set_listener(std::move(listener)); }

 private:
  std::unique_ptr<StepRunner> ranks_;
  std::unique_ptr<MessageSender> sender_;  // ends first: then the others leave their loops
  std::vector<std::byte> bytes_;
};

// Every other process: runs what comes until process 0 ends. An error when it is lost, sent something else
// than a plan for these limits, or a step failed here.
Result<void> follow_plans(MessageReceiver& receiver, StepRunner& ranks, const PlanLimits& limits);

}  // namespace tessera
