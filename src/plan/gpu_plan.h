// What fits on a set of GPUs before anything is loaded: memory by item, KV tokens and sequences for every
// size of decode context parallelism.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "plan/gpu_card.h"
#include "plan/kv_pool.h"
#include "plan/measure_rank.h"

namespace tessera {

struct GpuPlanRequest {
  GpuSet gpus;
  double utilisation = 0.9;  // share of the visible memory that may be used
  std::optional<int> tensor_parallel;
  std::optional<int> context_parallel;  // absent: every D that divides T
  bool expert_parallel = false;
  std::int32_t draft_tokens = 3;  // of one proposal, when there is a draft
  KvFormat draft_kv_format = KvFormat::kBF16;
  RunnerOptions runner;  // limits, block size, row format; most_drafts follows from the draft
};

// The plan of one D, in bytes of one GPU (the fullest rank's).
struct LayoutPlan {
  int context_ranks = 1;
  RankMemory rank;           // its caches are those of `kv`
  std::int64_t graphs = 0;   // allowance
  std::int64_t nccl = 0;     // allowance
  std::int64_t context = 0;  // allowance: the driver's context and code
  std::int64_t usable = 0;   // visible x utilisation
  KvPool kv;
  double sequences = 0;  // of full length that fit at a time

  std::int64_t without_kv() const;
};

struct GpuPlan {
  std::string model;
  std::string architecture;
  bool from_files = false;   // else formats are what the config promises
  std::string draft;         // empty: none
  std::string draft_method;  // "eagle3", "dflash", "draft_model"
  GpuPlanRequest request;
  int tensor_parallel = 1;
  std::int64_t kv_bytes_per_token = 0;        // on a rank that holds it
  std::int64_t draft_kv_bytes_per_token = 0;  // on every rank of its group
  std::vector<LayoutPlan> layouts;            // ascending D
  std::vector<std::string> notes;
};

// What NCCL may take on each GPU for the groups of such a layout: an allowance, not a measurement.
std::int64_t nccl_allowance(int ranks, int context_ranks);

struct PlanModel {
  std::string path;
  const Checkpoint* outline = nullptr;
  bool from_files = false;
};

// Refused with the numbers and the nearest working choice: sizes that do not divide, more ranks than GPUs,
// a draft that does not fit its target, a model that does not fit the cards.
Result<GpuPlan> plan_gpus(const PlanModel& target, const std::optional<PlanModel>& draft,
                          const GpuPlanRequest& request);

}  // namespace tessera
