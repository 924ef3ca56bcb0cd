#include "engine/plan_relay.h"

#include <exception>
#include <string>

namespace tessera {

StepResult& LeadingRunner::step(const StepPlan& plan) {
  encode_plan(plan, bytes_);
  sender_->send(bytes_);
  StepResult& result = ranks_->step(plan);
  sender_->idle();
  return result;
}

Result<void> follow_plans(MessageReceiver& receiver, StepRunner& ranks, const PlanLimits& limits) {
  PlanDecoder decoder(limits);
  try {
    while (const auto message = receiver.receive()) {
      TS_TRY(const StepPlan* plan, decoder.decode(*message));
      ranks.step(*plan);
    }
  } catch (const CommError& error) {
    return Error{ErrorKind::kUnavailable, "ranks", error.what()};
  } catch (const std::exception& error) {
    return Error{ErrorKind::kInternal, "ranks", std::string("A step failed: ") + error.what()};
  }
  return {};
}

}  // namespace tessera
