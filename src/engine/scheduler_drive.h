// For tests: a scheduler and a fake runner stepped by hand, with what every request received.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

#include "engine/fake_runner.h"
#include "engine/scheduler.h"

namespace tessera {

struct Received {
  std::vector<std::int32_t> tokens;
  std::vector<SampledToken> prompt_logprobs;
  std::optional<FinishReason> finished;
  std::optional<std::int32_t> stop_token;
  std::optional<Error> error;
  std::int32_t cached_tokens = 0;
  std::int32_t preemptions = 0;

  void add(const RequestOutput& output) {
    TS_CHECK(!finished, output.id.value);
    for (const SampledToken& token : output.tokens) tokens.push_back(token.token);
    prompt_logprobs.insert(prompt_logprobs.end(), output.prompt_logprobs.begin(),
                           output.prompt_logprobs.end());
    finished = output.finished;
    stop_token = output.stop_token;
    error = output.error;
    cached_tokens = output.cached_tokens;
    preemptions = output.preemptions;
  }
};

class NullSink final : public RequestSink {
 public:
  void on_output(const RequestOutput&) override {}
};

// A grammar over numbers: multiples of `step`; those of an even step are shifted by one after each token that
// 4 does not divide, so that what may follow depends on the tokens before. Breaks after so many.
class Multiples final : public TokenConstraint {
 public:
  Multiples(std::int32_t vocab, std::int32_t step, std::int32_t breaks_after = 1000)
      : vocab_(vocab), step_(step), breaks_after_(breaks_after) {}
  void allowed(std::vector<std::uint64_t>& mask) override {
    if (accepted() == breaks_after_) throw std::runtime_error("broken grammar");
    TS_CHECK(mask.size() == static_cast<std::size_t>((vocab_ + 63) / 64), mask.size(), vocab_);
    for (std::int32_t t = 0; t < vocab_; ++t) {
      if (allows(t)) mask[static_cast<std::size_t>(t / 64)] |= std::uint64_t{1} << (t % 64);
    }
  }
  void accept(std::int32_t token) override {
    if (!allows(token)) throw std::runtime_error("not a multiple");
    tokens_.push_back(token);
  }
  void rollback(std::int32_t count) override {
    TS_CHECK(count >= 0 && count <= accepted(), count, accepted());
    tokens_.resize(tokens_.size() - static_cast<std::size_t>(count));
  }
  bool is_complete() const override { return false; }
  std::int32_t accepted() const { return static_cast<std::int32_t>(tokens_.size()); }

 private:
  bool allows(std::int32_t token) const {
    const bool is_shifted = step_ % 2 == 0 && !tokens_.empty() && tokens_.back() % 4 != 0;
    return (token + (is_shifted ? 1 : 0)) % step_ == 0;
  }

  std::int32_t vocab_, step_, breaks_after_;
  std::vector<std::int32_t> tokens_;
};

// A runner for this scheduler's plans.
inline FakeRunner::Options runner_options(const SchedulerOptions& options, bool verify = true) {
  return {.max_num_seqs = options.max_num_seqs,
          .max_num_batched_tokens = options.max_num_batched_tokens,
          .block_size = options.block_size,
          .kv_blocks = options.kv_blocks,
          .dcp_ranks = options.dcp_ranks,
          .vocab = options.vocab,
          .shared_table = options.shared_table,
          .verify = verify};
}

struct Drive {
  SchedulerOptions options;
  SequenceLimits limits;
  Scheduler scheduler;
  FakeRunner runner;
  std::map<std::uint64_t, Received> received;
  std::uint64_t last_id = 0;
  DraftPolicy policy;
  std::array<const StepPlan*, Scheduler::kMostFlying> plans = {};  // that fly, the older first
  bool check_each_step = true;

  explicit Drive(const SchedulerOptions& scheduler_options, std::vector<std::int32_t> end_tokens = {},
                 bool verify = true)
      : options(scheduler_options),
        limits(sequence_limits(options, std::move(end_tokens))),
        scheduler(options),
        runner(runner_options(options, verify)),
        check_each_step(verify) {}

  Result<RequestId> submit(GenerationRequest request) {
    TS_TRY(auto sequence,
           prepare_sequence({last_id + 1}, std::move(request), std::make_shared<NullSink>(), 7, limits));
    ++last_id;
    received[last_id];
    scheduler.add(std::move(sequence));
    return RequestId{last_id};
  }
  void take(std::span<const Delivery> deliveries) {
    for (const Delivery& delivery : deliveries) received[delivery.output.id.value].add(delivery.output);
  }
  // False: nothing to do. Applies what flies; to plan ahead, plan() once more before.
  bool step() {
    if (scheduler.flying() == 0) {
      if (!scheduler.has_work()) return false;
      plan();
      TS_CHECK(scheduler.flying() == 1, scheduler.waiting(), scheduler.running());
    }
    StepResult& result = runner.step(*plans[0]);
    take(scheduler.apply(result, {}));
    scheduler.take_drafts(result);
    plans[0] = plans[1];
    if (check_each_step) scheduler.check_invariants();
    return true;
  }
  // Another step, if there is one before the one under way is applied.
  void plan() {
    const std::size_t flying = scheduler.flying();
    const StepPlan& plan = scheduler.plan_step({}, policy);
    if (check_each_step) scheduler.check_invariants();
    if (!plan.work.empty()) plans[flying] = &plan;
  }
  void run() {
    while (step()) {
    }
  }
};

// What the request would get alone on an endless machine.
inline std::vector<std::int32_t> alone(std::vector<std::int32_t> tokens, std::int32_t max_tokens,
                                       std::int32_t vocab, const std::vector<std::int32_t>& stop_tokens = {},
                                       std::int32_t min_tokens = 0) {
  std::vector<std::int32_t> output;
  FakeRunner::Hash context = FakeRunner::context(tokens);
  while (static_cast<std::int32_t>(output.size()) < max_tokens) {
    std::int32_t token = FakeRunner::token_after(context, vocab);
    const bool is_banned = static_cast<std::int32_t>(output.size()) < min_tokens;
    while (is_banned && std::ranges::count(stop_tokens, token) > 0) token = (token + 1) % vocab;
    output.push_back(token);
    if (std::ranges::count(stop_tokens, token) > 0) break;
    context = FakeRunner::chain(context, token);
  }
  return output;
}

inline GenerationRequest request_of(std::vector<std::int32_t> prompt, std::int32_t max_tokens) {
  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.sampling.max_tokens = max_tokens;
  return request;
}

// `count` tokens that differ from those of every other seed.
inline std::vector<std::int32_t> prompt_of(std::int32_t count, std::int32_t seed, std::int32_t vocab) {
  std::vector<std::int32_t> prompt;
  for (std::int32_t i = 0; i < count; ++i)
    prompt.push_back(
        FakeRunner::token_after(FakeRunner::chain(static_cast<FakeRunner::Hash>(seed), i + 1), vocab));
  return prompt;
}

}  // namespace tessera
