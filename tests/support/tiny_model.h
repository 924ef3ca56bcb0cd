// The shipped model (or another folder's), loaded on one rank or several, ready to run hand-made plans.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "engine/model_runner.h"
#include "engine/step_plan.h"

namespace tessera::test {

struct TinyOptions {
  std::string folder = {};  // empty: the shipped model
  int ranks = 1;
  bool expert_parallel = false;
  int dcp_ranks = 1;
  DcpExchange exchange = DcpExchange::kAllToAll;
  std::int32_t gather_rows = 4096;
  std::int32_t max_model_len = 2048;
  std::int32_t kv_blocks = 0;  // on each rank; 0: enough for one longest sequence
  KvFormat kv_format = KvFormat::kF32;
  std::int32_t block_size = 64;
  bool batch_invariant = false;
  bool always_logits = true;
  std::string speculative_config = {};  // as the flag's JSON; "model" is a folder under models/
  bool enforce_eager = false;
  // What computes; empty: the CPU.
  std::function<std::unique_ptr<Backend>()> make_backend = {};
};

struct TinyModel {
  std::unique_ptr<StepRunner> runner;  // all ranks
  ModelRunner* first = nullptr;        // rank 0's, inside `runner`
  RunnerOptions options;
  std::int32_t draft_lookahead = 0;
};

TinyModel load_tiny(const TinyOptions& tiny);

}  // namespace tessera::test
