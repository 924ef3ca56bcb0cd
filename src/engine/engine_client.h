// The engine as the server sees it. All calls are thread-safe and return at once.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "comm/collective_times.h"
#include "engine/request.h"

namespace tessera {

// Steps by how many tokens went through the model in them, within vLLM's bounds of iteration_tokens_total.
struct StepTokenCounts {
  static constexpr std::array<std::int32_t, 13> kBounds = {1,   8,    16,   32,   64,   128,  256,
                                                           512, 1024, 2048, 4096, 8192, 16384};
  // [i]: steps of at most kBounds[i] tokens and of more than the bound before; the last: of more than all.
  std::array<std::int64_t, kBounds.size() + 1> steps = {};
  std::int64_t tokens = 0;  // of all steps together

  void count(std::int64_t step_tokens) {
    std::size_t i = 0;
    while (i < kBounds.size() && step_tokens > kBounds[i]) ++i;
    ++steps[i];
    tokens += step_tokens;
  }
};

// Speculation since the start. Steps of sequences count, not steps of the engine.
struct SpeculationStats {
  static constexpr std::size_t kMostDrafts = 7;

  std::int64_t drafts = 0;                                 // steps of sequences that verified drafts
  std::int64_t draft_tokens = 0;                           // drafts verified
  std::int64_t accepted_tokens = 0;                        // of these, those that stood
  std::array<std::int64_t, kMostDrafts> verified_at = {};  // draft_tokens by position
  std::array<std::int64_t, kMostDrafts> accepted_at = {};  // accepted_tokens by position
  std::int64_t refused_drafts = 0;  // that a grammar does not allow, so that nothing verified them
  std::int32_t draft_length = 0;    // that the gate chose for the last step
  // [drafts]: engine steps for which it chose so many; of these, the ones that only try a length.
  std::array<std::int64_t, kMostDrafts + 1> chosen = {};
  std::int64_t probes = 0;
};

// Of one item of one rank's memory, in bytes: what was planned before anything was loaded, and what the rank
// has then taken.
struct MemoryLine {
  std::int32_t rank = 0;
  std::string item;
  std::int64_t planned = 0;
  std::int64_t used = 0;
};

// The collectives of a rank within one group, counted as they happen. Shared, since the thread of a rank that
// was given up may go on counting.
struct CollectiveLine {
  std::int32_t rank = 0;
  std::string group;  // "tp", "dcp"
  std::shared_ptr<const CollectiveTimes> times;
};

// A sum over all ranks as it was measured when the ranks were made, by rank 0.
struct AllReduceLine {
  std::int64_t bytes = 0;
  double seconds = 0;
};

struct EngineInfo {
  std::int32_t vocab = 0;
  std::int32_t max_model_len = 0;  // prompt + output tokens
  std::int32_t block_size = 0;     // tokens
  std::int32_t kv_blocks = 0;      // blocks in the pool
  std::int64_t kv_tokens = 0;      // tokens the pool can hold
  std::int32_t max_num_seqs = 0;
  std::int32_t max_num_batched_tokens = 0;
  std::string kv_cache_dtype;
  bool prefix_caching = true;
  std::vector<std::int32_t> end_tokens;
  std::int32_t ranks = 1;
  std::int32_t dcp_ranks = 1;      // of these, that share the rows of a sequence: a run of neighbours
  std::int32_t most_drafts = 0;    // of a sequence in a step; 0: no speculation
  std::string fingerprint;         // changes with kernels and configuration: OpenAI's system_fingerprint
  std::vector<MemoryLine> memory;  // of the ranks of this process
  std::vector<CollectiveLine> collectives = {};  // likewise; empty where calls only enqueue
  std::vector<AllReduceLine> all_reduces = {};   // empty with one rank
};

// Counters only grow; gauges are of the last step. Taken without stopping the engine.
struct EngineStats {
  std::int64_t running = 0;
  std::int64_t waiting = 0;
  double kv_usage = 0;              // share of blocks referenced by live requests, 0..1
  std::vector<double> kv_usage_of;  // [dcp_ranks] likewise of each rank's own memory
  std::int64_t received = 0;        // accepted by submit; = finished + aborted + failed + waiting + running
  std::int64_t finished = 0;        // kStop or kLength
  std::int64_t aborted = 0;
  std::int64_t failed = 0;
  std::int64_t prompt_tokens = 0;  // of requests whose prefill is complete
  std::int64_t generation_tokens = 0;
  std::int64_t computed_tokens = 0;    // query tokens that went through the model, recomputation included
  std::int64_t recomputed_tokens = 0;  // of these, computed before and lost to preemption
  std::int64_t preemptions = 0;
  std::int64_t prefix_queries = 0;  // prompt tokens looked up
  std::int64_t prefix_hits = 0;     // of these, found
  std::int64_t steps = 0;
  StepTokenCounts step_tokens = {};
  std::int64_t sharded = 0;  // sequences that were spread over ranks after they had begun
  SpeculationStats speculation = {};
  double step_seconds = 0;  // sum over steps, device included
  double host_seconds = 0;  // of these, the runner waited for a plan, or for results to be handed out
  // Steps that were not planned ahead, because a grammar wanted the token before and the drafts, or for want
  // of blocks.
  std::int64_t awaited_constraint = 0;
  std::int64_t awaited_blocks = 0;
};

class EngineClient {
 public:
  virtual ~EngineClient() = default;

  // Queues the request. Refused at once, with both numbers: an empty prompt, one that cannot fit the context
  // or the whole KV pool (kInvalidArgument), bad sampling values (kInvalidArgument), a full queue or a
  // draining engine (kUnavailable). max_tokens is cut to the room that the context leaves. The sink is called
  // from the first output to `finished`.
  virtual Result<RequestId> submit(GenerationRequest request, std::shared_ptr<RequestSink> sink) = 0;
  // Ends the request with kAbort within a few steps, wherever it is; unknown or finished ids are ignored.
  virtual void cancel(RequestId id) = 0;

  virtual const EngineInfo& info() const = 0;
  virtual EngineStats stats() const = 0;
};

}  // namespace tessera
