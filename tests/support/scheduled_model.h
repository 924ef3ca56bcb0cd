// The shipped model under the scheduler, stepped by hand: requests in, greedy tokens and logits out.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <vector>

#include "engine/scheduler.h"
#include "support/tiny_model.h"

namespace tessera::test {

class ScheduledModel {
 public:
  struct Options {
    TinyOptions model;
    std::int32_t replicate_up_to = 0;
    std::int32_t max_num_batched_tokens = 2048;
    bool forecast_admission = true;
  };
  explicit ScheduledModel(const Options& options);

  // Greedy unless `sampling` says otherwise; with all_logits every prompt token's row is kept too, which
  // makes the prompt's prefix unfindable.
  std::uint64_t submit(std::span<const std::int32_t> prompt, std::int32_t count, bool all_logits = false);
  SamplingParams sampling;  // of what is submitted; temperature 0 at first
  void run();
  std::vector<std::int32_t> generate(std::span<const std::int32_t> prompt, std::int32_t count);

  struct Result {
    std::vector<std::int32_t> tokens;
    std::map<std::int32_t, std::vector<float>> logits;  // by position
    std::int32_t cached_tokens = 0;
  };
  const Result& result(std::uint64_t id) const { return results_.at(id); }
  Scheduler& scheduler() { return scheduler_; }

  DraftPolicy drafts;                 // of every step; may be changed between them
  std::function<void()> before_step;  // may be empty

 private:
  TinyModel model_;
  SchedulerOptions options_;
  Scheduler scheduler_;
  std::map<std::int32_t, std::uint64_t> slot_owner_;
  std::map<std::uint64_t, Result> results_;
  std::uint64_t last_id_ = 0;
};

}  // namespace tessera::test
