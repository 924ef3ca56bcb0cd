// The operations that models are made of. Model code reads like the formulas and is written once; each device
// implements this.
//
// Calls enqueue work on the device's stream and return; results may be read after synchronise(). On the CPU
// they have run on return. Nothing here allocates except allocate() and the prepare calls, which belong to
// start-up.
//
// Shapes: Tensor is rows x cols; [tokens, heads, dim] is a Tensor of tokens rows and heads * dim columns.
// Activations have activation_dtype(); logits, router scores and log-sum-exps are f32. Wrong shapes are our
// own mistake and abort (TS_CHECK).
//
// Determinism: a row of a result depends on that row's inputs alone, bit for bit, never on which other rows
// share the call or how many there are. (Where a faster kernel breaks that, it is behind batch_invariant =
// false.)
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "backend/attention_batch.h"
#include "backend/device_memory.h"
#include "backend/sampling.h"
#include "base/result.h"
#include "checkpoint/host_matrix.h"
#include "tensor/kv_format.h"
#include "tensor/tensor.h"

namespace tessera {

// A matrix [out, in] in the device's own layout (which may differ from the file's).
struct Weight {
  WeightFormat format = WeightFormat::kBF16;
  std::int64_t out = 0;
  std::int64_t in = 0;
  Buffer storage;               // data and scales
  const void* data = nullptr;   // into storage, layout private to the back-end
  const void* scale = nullptr;  // likewise; null where the format has none
  std::int64_t bytes = 0;       // of storage
};

// `count` matrices [out, in] of one format: the experts of a layer, or one matrix for each attention head.
struct WeightStack {
  WeightFormat format = WeightFormat::kBF16;
  std::int64_t count = 0;
  std::int64_t out = 0;
  std::int64_t in = 0;
  Buffer storage;
  const void* data = nullptr;
  const void* scale = nullptr;
  std::int64_t bytes = 0;
};

// A vector of f32 on the device: norm weights, router bias.
struct VectorWeight {
  std::int64_t size = 0;
  Buffer storage;
  const float* data = nullptr;
};

// cos and sin of position x frequency, [positions, rope / 2] each, f32.
struct RopeTable {
  std::int64_t positions = 0;
  std::int64_t pairs = 0;
  Buffer storage;
  const float* cos = nullptr;
  const float* sin = nullptr;
};
enum class RopePairs : std::uint8_t {
  kInterleaved,  // (2i, 2i + 1): DeepSeek, Kimi
  kHalves,       // (i, i + dim / 2): Llama, Qwen
};

// The best logit of one rank's part of the vocabulary: what ranks exchange instead of logits.
struct BestLogit {
  float value = 0;         // NaN: the row held a NaN; -inf: nothing may be chosen in this part
  std::int32_t token = 0;  // -1 in both of these cases
};
static_assert(sizeof(BestLogit) == 8);
// Of two that were found in different tokens: NaN before everything, then the larger, of equals the lower
// token. Associative and commutative but for a NaN's bits, so no result depends on who meets whom.
constexpr BestLogit better(BestLogit a, BestLogit b) {
  if (a.value != a.value) return {a.value, -1};
  if (b.value != b.value) return {b.value, -1};
  if (b.token < 0) return a;
  const bool first_of_equals = b.value == a.value && b.token < a.token;
  return a.token < 0 || b.value > a.value || first_of_equals ? b : a;
}
// The best of row `row` over shards [ranks, rows], on the host: how every device merges.
BestLogit merged_best(const BestLogit* shards, std::int64_t ranks, std::int64_t rows, std::int64_t row);

struct RoutingRule {
  std::int32_t top_k = 8;
  std::int32_t groups = 1;      // n_group
  std::int32_t top_groups = 1;  // topk_group
  bool normalise = true;        // norm_topk_prob
  float scaling = 1.0F;         // routed_scaling_factor
};

// `count` matrices of one shape that lie `step` bytes apart: what the ranks of a group send each other.
struct Parts {
  Tensor first;
  std::int64_t count = 0;
  std::int64_t step = 0;

  Tensor operator[](std::int64_t i) const {
    Tensor part = first;
    part.data = static_cast<char*>(first.data) + i * step;
    return part;
  }
};

// What one layer's projections give MLA for some tokens, before norms and rotation.
struct MlaRows {
  Tensor latent;    // [tokens, latent]
  Tensor rope_key;  // [tokens, rope]
  std::int64_t heads = 0;
  Tensor q_rope;     // [tokens * heads, rope]
  Tensor q_rotated;  // [tokens * heads, rope]: where the rotated queries go; may be q_rope
};

// Work that was recorded once, and is enqueued again as a whole.
class Recording {
 public:
  virtual ~Recording() = default;
  virtual void replay() = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string name() const = 0;  // "cpu (AVX-512, 2 threads)"
  virtual DType activation_dtype() const = 0;

  // --- start-up
  // -------------------------------------------------------------------------------------------------------
  // What a prepare call is given has been read when it returns, and may be freed; the device may still be at
  // work on it, as on any operation.
  virtual Buffer allocate(std::size_t bytes) = 0;  // zeroed
  // The parts stacked by rows ([gate; up]); all of one format and width.
  virtual Weight prepare(std::span<const HostMatrix> row_parts) = 0;
  // count matrices; parts(i) gives matrix i's row parts, which stay until the call returns.
  virtual WeightStack prepare_stack(std::int64_t count,
                                    const std::function<std::vector<HostMatrix>(std::int64_t)>& parts) = 0;
  // f32 matrices made on the host (transposed up-projections), stored in `format` (kF32 or kBF16): values
  // [count, out, in].
  virtual WeightStack prepare_stack_f32(WeightFormat format, std::int64_t count, std::int64_t out,
                                        std::int64_t in, std::span<const float> values) = 0;
  virtual VectorWeight prepare_vector(std::span<const float> values) = 0;
  virtual RopeTable prepare_rope(std::int64_t positions, std::span<const float> frequencies,
                                 float multiplier) = 0;

  // --- memory between host and device
  // -----------------------------------------------------------------------------------
  virtual void copy_to_device(void* device, const void* host, std::size_t bytes) = 0;
  virtual void copy_to_host(void* host, const void* device,
                            std::size_t bytes) = 0;  // complete after synchronise()
  virtual void synchronise() = 0;

  // Keeps what `work` enqueues instead of running it: the same operations on the same memory at each replay,
  // whatever that memory then holds. `work` must have run before, so that nothing is allocated in it, and may
  // not wait for the device. Null where the device has no such thing; then nothing has run.
  virtual std::unique_ptr<Recording> record(const std::function<void()>& work);

  // What is enqueued between aside() and back() may run beside what is enqueued between back() and join():
  // the two share memory only to read it. `rows`: of the activations; larger ones fill a device by
  // themselves, and may then run in order. Devices that do one thing at a time do so.
  virtual void aside(std::int64_t /*rows*/) {}
  virtual void back() {}
  virtual void join() {}

  // --- dense
  // ------------------------------------------------------------------------------------------------------------
  // out[t] = table[ids[t]]; ids [tokens] on the device. An id outside [first, first + table.out) gives zeros
  // (vocabulary shards).
  virtual void embed(const std::int32_t* ids, const Weight& table, std::int64_t first, const Tensor& out) = 0;
  virtual void rms_norm(const Tensor& x, const VectorWeight& weight, float eps, const Tensor& out) = 0;
  // residual += delta, then out = norm(residual): one pass.
  virtual void add_rms_norm(const Tensor& residual, const Tensor& delta, const VectorWeight& weight,
                            float eps, const Tensor& out) = 0;
  virtual void add(const Tensor& x, const Tensor& y, const Tensor& out) = 0;  // out = x + y; may alias
  virtual void linear(const Tensor& x, const Weight& weight,
                      const Tensor& out) = 0;  // out [tokens, weight.out], f32 or activation dtype
  // out[t, h] = W[h] x[t, h]: x [tokens, count * in], out [tokens, count * out]. Row strides may exceed the
  // widths.
  virtual void linear_heads(const Tensor& x, std::int64_t x_head_stride, const WeightStack& weight,
                            const Tensor& out, std::int64_t out_head_stride) = 0;
  // out = silu(gate x) * (up x) for weight = [gate; up]; scratch [tokens, weight.out] in the activation
  // dtype.
  virtual void gated_linear(const Tensor& x, const Weight& weight, const Tensor& scratch,
                            const Tensor& out);  // backend.cpp: a product, then silu_mul
  // out = silu(gate) * up for gate_up = [gate | up] by columns.
  virtual void silu_mul(const Tensor& gate_up, const Tensor& out) = 0;
  virtual void gather_rows(const Tensor& x, const std::int32_t* rows,
                           const Tensor& out) = 0;            // out[i] = x[rows[i]]
  virtual void copy(const Tensor& x, const Tensor& out) = 0;  // same shape, strides may differ

  // --- attention
  // ----------------------------------------------------------------------------------------------------------
  // Rotates dims [0, 2 * table.pairs) of each head in place: x [tokens, heads * head_stride] from its first
  // column on.
  virtual void rope(const Tensor& x, std::int64_t heads, std::int64_t head_stride,
                    const std::int32_t* positions, const RopeTable& table, RopePairs pairs) = 0;
  // latent [tokens, latent] (normed), rope_key [tokens, rope] (rotated) into rows slots[t].
  virtual void write_kv_mla(const Tensor& latent, const Tensor& rope_key, const AttentionBatch& batch,
                            const KvLayer& kv) = 0;
  // All of that for a layer's tokens: latents normed and keys rotated in place and written to the cache,
  // queries rotated. Interleaved pairs.
  virtual void store_mla(const MlaRows& rows, const VectorWeight& latent_norm, float eps,
                         const RopeTable& table, const AttentionBatch& batch,
                         const KvLayer& kv);  // backend.cpp: one by one
  // q [tokens, heads * (latent + rope)] absorbed; out [tokens, heads * latent]; lse [tokens, heads] f32,
  // natural log, or null data. A token without visible rows gives out = 0 and lse = -inf. Scratch comes from
  // the back-end, sized by reserve_attention.
  virtual void mla_decode(const Tensor& q, std::int64_t heads, float scale, const AttentionBatch& batch,
                          const KvLayer& kv, const Tensor& out, const Tensor& lse) = 0;
  // Expanded form. q [tokens, heads * (nope + rope)]; keys and values of every visible row are made from the
  // cached latents by k_up [heads, nope, latent] and v_up [heads, v, latent]; out [tokens, heads * v]; lse as
  // above.
  virtual void mla_prefill(const Tensor& q, std::int64_t heads, float scale, const AttentionBatch& batch,
                           const KvLayer& kv, const WeightStack& k_up, const WeightStack& v_up,
                           const Tensor& out, const Tensor& lse) = 0;
  // keys, values [tokens, kv_heads * head_dim].
  virtual void write_kv_gqa(const Tensor& keys, const Tensor& values, const AttentionBatch& batch,
                            const KvLayer& kv) = 0;
  // q [tokens, heads * head_dim], out the same; query head h reads kv head h / (heads / kv_heads).
  virtual void gqa_attention(const Tensor& q, std::int64_t heads, float scale, const AttentionBatch& batch,
                             const KvLayer& kv, const Tensor& out, const Tensor& lse) = 0;

  // --- attention that ranks share (docs/explanation/context-parallelism.md)
  // -------------------------------------------------------------------------------------
  // x [tokens, count * width] cut by columns into parts [tokens, width], and put together again.
  virtual void split_columns(const Tensor& x, const Parts& parts);  // backend.cpp: by copies
  virtual void join_columns(const Parts& parts, const Tensor& x);   // likewise
  // out[t, h] = sum over p of exp(lses[p][t, h] - L) * outs[p][t, h], L = log of the sum over p of
  // exp(lses[p][t, h]): attention over all rows from attention over parts of them. outs [tokens, heads *
  // dim], lses [tokens, heads] f32; sums in f32, in order. A part with lse = -inf is not read; without any
  // other the result is 0. `out` may be outs[0], `lse` (L, or null data) lses[0].
  virtual void merge_partials(const Parts& outs, const Parts& lses, std::int64_t heads, const Tensor& out,
                              const Tensor& lse) = 0;
  // In place: one term of that sum, x = exp(lses[own] - L) * x.
  virtual void weigh_partial(const Parts& lses, std::int64_t own, std::int64_t heads, const Tensor& x) = 0;
  // Whole blocks of the pool, one after the other: blocks [count] on the device.
  virtual void copy_blocks(const KvLayer& kv, const std::int32_t* blocks, std::int64_t count, void* out) = 0;

  // --- mixture of experts
  // ----------------------------------------------------------------------------------------------- logits
  // [tokens, experts] f32; ids i32 [tokens, top_k], weights f32 [tokens, top_k]. Sigmoid scores; bias for
  // choice only; ties to the lower index; weights are the unbiased scores, normalised (+ 1e-20) and scaled by
  // the rule.
  virtual void route_experts(const Tensor& logits, const VectorWeight& bias, const RoutingRule& rule,
                             const Tensor& ids, const Tensor& weights) = 0;
  // out[t] = sum over k of weights[t, k] * down[e] (silu(gate[e] x) * up[e] x), e = ids[t, k] - first_expert;
  // experts outside [0, count) belong to other ranks and add nothing. gate_up [count, 2 * width, hidden],
  // down [count, hidden, width].
  virtual void moe(const Tensor& x, const Tensor& ids, const Tensor& weights, std::int64_t first_expert,
                   const WeightStack& gate_up, const WeightStack& down, const Tensor& out) = 0;

  // --- sampling
  // ---------------------------------------------------------------------------------------------------------
  // logits f32 [rows, vocab], overwritten. One result a row.
  virtual void sample(const Tensor& logits, std::span<const SamplingRow> rows,
                      std::span<SampledToken> results) = 0;
  // Speculative sampling: row i confirms drafts[i] or replaces it; results[i].token is the draft's token
  // exactly where the draft stands. The token's law is that of sample() on the same row, whatever the draft
  // (Leviathan, Kalman, Matias 2023). A draft without `probs`, or a row of temperature 0: the row is sampled,
  // and the draft stands if that gave its token. The form in backend.cpp does so with every draft: as exact,
  // but fewer drafts stand.
  virtual void verify(const Tensor& logits, std::span<const SamplingRow> rows,
                      std::span<const DraftDraw> drafts, std::span<SampledToken> results);
  // Log-softmax statistics without drawing, for prompt_logprobs: row i's target token and its `top` best
  // alternatives.
  virtual void logprobs(const Tensor& logits, std::span<const std::int32_t> targets, std::int32_t top,
                        std::span<SampledToken> results) = 0;

  // --- greedy choice over a vocabulary that ranks share; backend.cpp has forms on the host that are right on
  // every device, and slow
  // best[r] of f32 logits [rows, share], whose column 0 is token first_token: the largest, of equals the
  // first.
  virtual void argmax_shard(const Tensor& logits, std::int32_t first_token, BestLogit* best);
  // tokens[r] = the best of row r over `ranks` shards, shards [ranks, rows] in rank order; of equals the
  // lowest token. -1 where a shard held a NaN or none may choose. id_map [tokens], if not null, is applied
  // last.
  virtual void merge_argmax(const BestLogit* shards, std::int64_t ranks, std::int64_t rows,
                            const std::int32_t* id_map, std::int32_t* tokens);

  // --- scratch
  // ----------------------------------------------------------------------------------------------------------
  struct Limits {
    std::int64_t tokens = 0;     // most query tokens in a step
    std::int64_t seqs = 0;       // most sequences in a step
    std::int64_t heads = 0;      // most query heads a rank attends with (after gathering)
    std::int64_t head_dim = 0;   // widest head; latent + rope for MLA
    std::int64_t kv_tokens = 0;  // longest sequence
    std::int64_t vocab = 0;
    std::int64_t width = 0;  // widest activation of a linear (in or out), moe included
    std::int64_t top_k = 0;
    std::int64_t gate_up = 0;    // twice the width of an expert; 0: not known, then `width`
    std::int64_t hidden = 0;     // of the residual stream; 0: not known, then `width`
    std::int64_t key_dim = 0;    // MLA, expanded: nope + rope; 0: no MLA
    std::int64_t value_dim = 0;  // MLA, expanded; 0: no MLA
  };
  // Makes every later call within the limits free of allocation. Returns the bytes of scratch that are now
  // held.
  virtual std::size_t reserve(const Limits& limits) = 0;
  // Everything this back-end has on the device now.
  virtual DeviceMemory held() const = 0;
};

}  // namespace tessera
