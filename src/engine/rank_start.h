// A rank from nothing to ready: reads its share of the target, makes the runner, loads the draft beside it.
// A server does it on its devices, a plan on a back-end that only counts.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "engine/model_runner.h"
#include "engine/rank_memory.h"
#include "engine/scheduler.h"
#include "model/shard.h"
#include "speculative/speculative_config.h"

namespace tessera {

struct RankRecipe {
  const Checkpoint& target;
  RunnerOptions runner = {};
  // This rank's place; its communicators, runner.dcp_ranks and runner.dcp_rank agree.
  Shard shard = {};
  std::function<void(std::int64_t bytes)> on_bytes = {};  // LoadOptions::on_bytes; may be empty
  const SpeculativeConfig* speculation = nullptr;         // resolved; null: none
  const Checkpoint* draft = nullptr;                      // null for ngram
  KvFormat automatic_format = KvFormat::kF32;             // of the draft's rows where nothing is said
};

struct StartedRank {
  std::unique_ptr<ModelRunner> runner;
  RankMemory memory;
  std::int32_t draft_lookahead = 0;  // Proposer::lookahead() of runner.most_drafts
};

// `device` has a back-end that holds nothing else.
Result<StartedRank> start_rank(RankDevice device, const RankRecipe& recipe);

// What the scheduler of such ranks is told: the sizes that both must agree on. The rest is policy, and the
// caller's.
SchedulerOptions scheduler_options(const RunnerOptions& runner, std::int64_t vocab);

}  // namespace tessera
