// From flags to a running engine: opens the checkpoint, plans memory, loads the ranks. Shared by `serve` and
// `generate`.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "compute_device.h"
#include "engine/engine.h"
#include "engine/model_runner.h"
#include "engine/plan_relay.h"
#include "plan/measure_rank.h"
#include "processes.h"
#include "serve_flags.h"
#include "speculation.h"
#include "tensor/kv_format.h"

namespace tessera {

// What the flags and the checkpoint come to, before a weight is read. Sizes in bytes.
struct MemoryPlan {
  std::string model;  // folder
  std::string architecture;
  std::int32_t ranks = 1;
  std::int32_t dcp_ranks = 1;        // of these, that share the rows of a sequence
  std::int32_t replicate_up_to = 0;  // tokens; with several dcp_ranks
  std::int32_t threads_per_rank = 1;
  std::int32_t max_model_len = 0;
  std::int32_t max_num_seqs = 0;
  std::int32_t max_num_batched_tokens = 0;
  ComputeDevice device = ComputeDevice::kCpu;
  KvFormat kv_format = KvFormat::kF32;
  std::int32_t block_size = 0;          // tokens
  std::int64_t weight_file_bytes = 0;   // of the checkpoint: all ranks together hold about as much
  std::int64_t kv_bytes_per_token = 0;  // on each rank that holds the token
  std::int32_t kv_blocks = 0;           // on each rank
  bool prefix_caching = true;
  bool batch_invariant = false;
  std::shared_ptr<const Speculation> speculation;  // null: none
  RankMemory rank;                                 // what the fullest rank holds, item by item

  // What fits at most: every sequence spread.
  std::int64_t kv_tokens() const { return std::int64_t{kv_blocks} * dcp_ranks * block_size; }
};

Result<MemoryPlan> plan_memory(const ServeFlags& flags, const Checkpoint& checkpoint,
                               const Processes* processes = nullptr);
std::string describe(const MemoryPlan& plan);  // several lines, for --dry-run and the log

// The engine and what it runs on, in the order in which they must end.
struct LaunchedEngine {
  ModelConfig config;
  MemoryPlan plan;
  std::map<int, RankMemory> memory;  // what each rank has really taken, those of other processes too
  // How the draft did at start, on rank 0; absent where none reads hidden states.
  std::optional<DraftTrialReport> draft_trial = {};
  std::unique_ptr<Engine> engine;  // of process 0
  // Of the other processes: their ranks, and where their plans come from.
  struct Follower {
    std::unique_ptr<StepRunner> ranks;
    std::unique_ptr<MessageReceiver> receiver;
  };
  std::optional<Follower> follower;
};

struct LaunchHooks {
  std::function<void(double fraction, const std::string& line)>
      on_progress;  // while weights are read; any thread
  // No step is possible any more. On the engine's thread, or on one that noticed that a process is lost.
  std::function<void(const Error&)> on_fatal;
  ModelRunner::LogitsTap logits_tap;  // of rank 0, for `verify`; empty: none
  Processes* processes = nullptr;     // null: all ranks are threads of this process
};

Result<LaunchedEngine> launch_engine(const ServeFlags& flags, const Checkpoint& checkpoint,
                                     const LaunchHooks& hooks);
// Of a process other than 0: runs what process 0 plans until that ends.
Result<void> follow(LaunchedEngine& launched);

}  // namespace tessera
