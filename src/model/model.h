// A language model as the engine runs it: tokens in, final hidden states and logits out, keys and values into
// the cache.
//
// A Model owns one rank's weights and the scratch of one step, on one back-end. It is written once for every
// device: all arithmetic goes through Backend. Not thread-safe; one thread drives it.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "base/result.h"
#include "checkpoint/checkpoint.h"
#include "model/shard.h"

namespace tessera {

// Upper bounds of every step, known at start: scratch is sized by them.
struct StepLimits {
  std::int64_t tokens = 0;         // query tokens in a step
  std::int64_t decode_tokens = 0;  // of these, in decode form
  std::int64_t seqs = 0;
  std::int64_t logit_rows = 0;  // rows of logits made at a time
  std::int64_t positions = 0;   // longest sequence
};

// Earlier rows of sharded prefills that the ranks of a group show each other: each sends some of its blocks,
// and what arrives lies rank by rank in StagedPrefill::gathered.
struct ContextRound {
  const std::int32_t* send = nullptr;  // [StagedPrefill::blocks_each] this rank's blocks, on the device
  std::int32_t first_token = 0;        // of the tokens that see these rows, within the sharded prefills
  AttentionBatch batch;                // they, and where the rows lie in the staging pool
};

// What a rank needs to prefill sequences whose rows are spread over a group. Keys and values are expanded
// from rows of all ranks but for a rank's own heads, so the rows come to the heads: those of the chunk itself
// are known to every rank, the earlier ones arrive in rounds.
struct StagedPrefill {
  KvLayer staging;     // a pool for one layer at a time: the chunk's rows, then the gathered ones
  AttentionBatch own;  // the sharded prefills' tokens over the chunk's rows alone
  std::span<const ContextRound> rounds;
  void* send = nullptr;      // [blocks_each] blocks
  void* gathered = nullptr;  // [ranks, blocks_each] blocks, part of `staging`
  std::int64_t blocks_each = 0;
};

// The query tokens of a step, in this order. All batches index the whole step's arrays from their own first
// token on; their token counts add up to `tokens`. Any may be empty; without decode context parallelism the
// sharded ones are.
struct ForwardBatch {
  std::int32_t tokens = 0;
  const std::int32_t* ids = nullptr;   // [tokens], on the device
  AttentionBatch decode = {};          // absorbed form: one token, or one and its drafts
  AttentionBatch sharded_decode = {};  // the same, of sequences whose rows are spread over the group
  AttentionBatch prefill = {};         // expanded form
  AttentionBatch sharded_prefill = {};
  const StagedPrefill* staged = nullptr;  // for sharded_prefill
};

class VocabularyHead;

class Model {
 public:
  virtual ~Model() = default;

  virtual std::int64_t layers() const = 0;  // layers with a KV cache
  virtual KvRowShape kv_shape() const = 0;
  virtual std::int64_t vocab() const = 0;
  virtual std::size_t weight_bytes() const = 0;   // held on the device
  virtual std::size_t scratch_bytes() const = 0;  // likewise

  // Runs the step; kv has one entry a layer. Returns the input of lm_head, [tokens, hidden], valid until the
  // next call.
  virtual Tensor forward(const ForwardBatch& batch, std::span<const KvLayer> kv) = 0;
  // Rows `rows` (on the device, at most limits.logit_rows) of what forward returned, through lm_head: f32
  // [count, vocab].
  virtual Tensor logits(const Tensor& hidden, const std::int32_t* rows, std::int64_t count) = 0;
  // The most likely token of each such row, any number of them, without gathering logits (sharded_argmax).
  virtual void argmax(const Tensor& hidden, const std::int32_t* rows, std::int64_t count,
                      std::int32_t* tokens) = 0;

  // What drafts read and share. aux_states: of the last forward, [tokens, aux layers * hidden], the residual
  // streams after the layers of LoadOptions::aux_layers, on every rank; valid until the next forward.
  virtual Tensor aux_states() const = 0;
  virtual void embed(const std::int32_t* ids, const Tensor& out) = 0;  // out [tokens, hidden]
  virtual const VocabularyHead& head() const = 0;
};

struct LoadOptions {
  StepLimits limits;
  Shard shard = {};  // this rank's place; its communicator must outlive the model
  std::function<void(std::int64_t bytes)>
      on_bytes;  // called with the file bytes that have just been read; may be empty
  std::function<void(ModuleClass module_class, std::int64_t bytes)> on_weight =
      {};  // called with the bytes that a weight has just taken on the device; may be empty
  std::vector<std::int64_t> aux_layers = {};  // layers whose outputs drafts read; -1: the embedding
};

// Every dimension that `ranks` ranks would split can be split, or one sentence that names the one that cannot
// and the nearest number of ranks that works.
Result<void> check_shardable(const Checkpoint& checkpoint, int ranks, bool expert_parallel);

// Likewise for spreading the KV cache over groups of `dcp_ranks` of `ranks` ranks.
Result<void> check_context_shardable(const Checkpoint& checkpoint, int ranks, int dcp_ranks);

// Reads this rank's share of the weights of any supported architecture. The checkpoint may be closed
// afterwards.
Result<std::unique_ptr<Model>> load_model(const Checkpoint& checkpoint, Backend& backend,
                                          const LoadOptions& options);

}  // namespace tessera
