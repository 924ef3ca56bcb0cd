#include "backend/cuda/attention_runner.h"

#include <algorithm>
#include <cstring>

#include "backend/cuda/products.h"
#include "backend/cuda/weight_store.h"
#include "base/check.h"

namespace tessera::cuda {
namespace {

// Whether the decode kernels take these tensors; what they do not take goes the plain way.
bool has_fast_decode(const Tensor& q, std::int64_t heads, const KvLayer& kv, const Tensor& out,
                     const Tensor& lse) {
  return q.dtype == DType::kBF16 && q.is_dense() && out.dtype == DType::kBF16 && out.is_dense() &&
         (lse.data == nullptr || lse.is_dense()) && heads <= kMlaMaxHeads && kv.format != KvFormat::kF32 &&
         kv.shape == KvRowShape::mla(kMlaLatent, kMlaRope) && kv.block_size == kMlaBlockSize &&
         reinterpret_cast<std::uintptr_t>(q.data) % 16 == 0 &&
         reinterpret_cast<std::uintptr_t>(out.data) % 16 == 0;
}

template <class T>
T or_abort(Result<T> result) {
  TS_CHECK(result.ok(), result.error().message());
  return *std::move(result);
}
void or_abort(const Result<void>& result) { TS_CHECK(result.ok(), result.error().message()); }

}  // namespace

Tensor AttentionRunner::lse_or_scratch(const Tensor& lse, std::int64_t tokens, std::int64_t heads) {
  if (lse.data != nullptr) return lse;
  return Tensor::dense(lse_.at_least(static_cast<std::size_t>(tokens * heads) * 4), DType::kF32, tokens,
                       heads);
}

MlaDecodeShape AttentionRunner::decode_shape(const AttentionBatch& batch, std::int64_t heads,
                                             KvFormat format) const {
  return {.kv = format,
          .seqs = batch.seqs,
          .q_tokens = batch.max_query,
          .heads = static_cast<std::int32_t>(heads),
          .max_blocks = batch.max_blocks,
          .fixed_split_tiles = batch_invariant_ ? kFixedSplitTiles : 0};
}

// All sequences with the same number of query tokens, in launches whose partial results fit the workspace.
void AttentionRunner::decode_uniform(const MlaDecodeShape& shape, const MlaDecodeWork& work) {
  const auto layout_of = [&](std::int32_t seqs) {
    MlaDecodeShape part = shape;
    part.seqs = seqs;
    return or_abort(mla_decode_layout(part, traits_));
  };
  std::int32_t step = std::min(shape.seqs, kMlaMaxSeqs);
  while (step > 1 && layout_of(step).workspace_bytes > kWorkspaceLimit) step = (step + 1) / 2;
  for (std::int32_t first = 0; first < shape.seqs; first += step) {
    const MlaDecodeLayout layout = layout_of(std::min(step, shape.seqs - first));
    const std::int64_t tokens = std::int64_t{first} * shape.q_tokens;
    MlaDecodeWork part = work;
    part.q = static_cast<const std::byte*>(work.q) + tokens * shape.heads * kMlaDim * 2;
    part.block_table = work.block_table + std::int64_t{first} * shape.max_blocks;
    part.lengths.query_rows = work.lengths.query_rows + tokens;
    part.out = static_cast<std::byte*>(work.out) + tokens * shape.heads * kMlaLatent * 2;
    part.lse = work.lse + tokens * shape.heads;
    void* workspace = workspace_.at_least(layout.workspace_bytes);
    const Planned wanted{layout.shape, part.lengths.query_rows, workspace};
    if (planned_ != wanted) or_abort(mla_plan(layout, part.lengths, workspace, stream_));
    planned_ = wanted;
    or_abort(cuda::mla_decode(layout, part, workspace, stream_));
  }
}

void AttentionRunner::mla_decode(const Tensor& q, std::int64_t heads, float scale,
                                 const AttentionBatch& batch, const KvLayer& kv, const Tensor& out,
                                 const Tensor& lse) {
  if (batch.tokens == 0 || heads == 0) return;
  if (!has_fast_decode(q, heads, kv, out, lse)) {
    launch_cached_attention({.heads = heads,
                             .kv_heads = 1,
                             .key_dim = kv.shape.latent + kv.shape.rope,
                             .value_dim = kv.shape.latent,
                             .value_first = 0,
                             .scale = scale},
                            q, batch, kv, out, lse, stream_);
    return;
  }
  const Tensor sums = lse_or_scratch(lse, batch.tokens, heads);
  MlaDecodeWork work{.q = q.data,
                     .kv = kv,
                     .block_table = batch.block_table,
                     .lengths = {.query_rows = batch.visible_rows},
                     .softmax_scale = scale,
                     .out = out.data,
                     .lse = static_cast<float*>(sums.data)};
  MlaDecodeShape shape = decode_shape(batch, heads, kv.format);
  const bool uniform = std::int64_t{batch.seqs} * batch.max_query == batch.tokens;
  const std::int32_t most_query = batch_invariant_ ? 1 : kMlaMaxQueryTokens;  // tiles differ with the number
  if (uniform && batch.max_query <= most_query) return decode_uniform(shape, work);

  // Every token becomes a sequence of its own.
  const std::int64_t step = std::min<std::int64_t>(batch.tokens, kTokensATable);
  auto* tables = static_cast<std::int32_t*>(
      tables_.at_least(static_cast<std::size_t>(step * std::max(batch.max_blocks, 1)) * 4));
  shape.q_tokens = 1;
  for (std::int64_t first = 0; first < batch.tokens; first += step) {
    const auto count = static_cast<std::int32_t>(std::min(step, batch.tokens - first));
    launch_token_tables(batch, kv.block_size, static_cast<std::int32_t>(first), count, tables, stream_);
    shape.seqs = count;
    MlaDecodeWork part = work;
    part.q = static_cast<const std::byte*>(work.q) + first * heads * kMlaDim * 2;
    part.block_table = tables;
    part.lengths.query_rows = batch.visible_rows + first;
    part.out = static_cast<std::byte*>(work.out) + first * heads * kMlaLatent * 2;
    part.lse = work.lse + first * heads;
    decode_uniform(shape, part);
  }
}

std::byte* AttentionRunner::pinned(std::size_t bytes) {
  if (bytes > pinned_bytes_) {
    wait_.wait();
    pinned_ = allocate_pinned(bytes);
    pinned_bytes_ = bytes;
  }
  return pinned_.get();
}

// The host learns how many rows each sequence has, and cuts them into pieces. This waits for the device: some
// microseconds against the milliseconds of a prefill's layer.
PrefillPlan AttentionRunner::plan(const AttentionBatch& batch, std::int32_t chunk_rows) {
  const auto seqs = static_cast<std::size_t>(batch.seqs);
  const auto tokens = static_cast<std::size_t>(batch.tokens);
  auto* query_start = reinterpret_cast<std::int32_t*>(pinned((seqs + 1 + tokens) * 4));
  std::int32_t* visible = query_start + seqs + 1;
  TS_CUDA(cudaMemcpyAsync(query_start, batch.query_start, (seqs + 1) * 4, cudaMemcpyDeviceToHost, stream_));
  TS_CUDA(cudaMemcpyAsync(visible, batch.visible_rows, tokens * 4, cudaMemcpyDeviceToHost, stream_));
  wait_.wait();
  return plan_prefill(query_start, visible, batch.seqs, chunk_rows);
}

// Copies a plan to the device.
AttentionRunner::PlanOnDevice AttentionRunner::upload(const PrefillPlan& plan) {
  const std::size_t piece_bytes = plan.pieces.size() * sizeof(PrefillPiece);
  const std::size_t tile_bytes = plan.tiles.size() * sizeof(PrefillTile);
  const std::size_t bytes = prefill_plan_bytes(plan.pieces.size(), plan.tiles.size(), plan.rounds.size());
  std::byte* from = pinned(bytes);
  std::memcpy(from, plan.pieces.data(), piece_bytes);
  std::memcpy(from + piece_bytes, plan.tiles.data(), tile_bytes);
  std::memset(from + piece_bytes + tile_bytes, 0, bytes - piece_bytes - tile_bytes);
  auto* to = static_cast<std::byte*>(plan_.at_least(bytes));
  TS_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream_));
  return {.pieces = reinterpret_cast<const PrefillPiece*>(to),
          .tiles = reinterpret_cast<const PrefillTile*>(to + piece_bytes),
          .counters = reinterpret_cast<std::int32_t*>(to + piece_bytes + tile_bytes)};
}

void AttentionRunner::mla_prefill(const Tensor& q, std::int64_t heads, float scale,
                                  const AttentionBatch& batch, const KvLayer& kv, const WeightStack& k_up,
                                  const WeightStack& v_up, const Tensor& out, const Tensor& lse) {
  if (batch.tokens == 0 || heads == 0) return;
  const DType dtype = q.dtype;
  const Tensor sums = lse_or_scratch(lse, batch.tokens, heads);
  PrefillRun run{.shape = {.heads = heads,
                           .nope = static_cast<std::int32_t>(k_up.out),
                           .rope = kv.shape.rope,
                           .latent = kv.shape.latent,
                           .value = static_cast<std::int32_t>(v_up.out)},
                 .scale = scale,
                 .q = q,
                 .out = out,
                 .lse = static_cast<float*>(sums.data),
                 .lse_stride = sums.stride,
                 .batch = batch,
                 .kv = kv};
  const std::size_t row_bytes = chunk_row_bytes(run.shape, dtype);
  if (chunk_.capacity() < kPieceAlign * row_bytes) chunk_.at_least(kChunkRows * row_bytes);
  const std::int64_t chunk_rows = std::min(
      kChunkRows, static_cast<std::int64_t>(chunk_.capacity() / row_bytes) / kPieceAlign * kPieceAlign);
  const PrefillPlan plan = this->plan(batch, static_cast<std::int32_t>(chunk_rows));
  const PlanOnDevice there = upload(plan);

  const std::int64_t size = bytes_of(dtype);
  run.latents = chunk_.at_least(0);
  run.keys = static_cast<std::byte*>(run.latents) + chunk_rows * (run.shape.latent + run.shape.rope) * size;
  run.values = static_cast<std::byte*>(run.keys) + chunk_rows * heads * run.shape.nope * size;
  const auto expand = [&](const WeightStack& up, void* to, std::int64_t rows) {
    Tensor latents = Tensor::dense(run.latents, dtype, rows, run.shape.latent);
    latents.stride = run.shape.latent + run.shape.rope;
    run_linear_heads(latents, 0, tiled(up), Tensor::dense(to, dtype, rows, heads * up.out), up.out,
                     {.multiprocessors = traits_.multiprocessors, .hopper = hopper_}, stream_);
  };
  for (std::size_t r = 0; r < plan.rounds.size(); ++r) {
    const PrefillRound& round = plan.rounds[r];
    run.pieces = there.pieces + round.first_piece;
    run.tiles = there.tiles + round.first_tile;
    run.counter = there.counters + r;
    run.round = round;
    if (round.rows > 0) {
      launch_gather_latents(run, stream_);
      expand(k_up, run.keys, round.rows);
      expand(v_up, run.values, round.rows);
    }
    if (!portable_ && has_expanded_attention_sm90(run, traits_)) {
      launch_expanded_attention_sm90(run, traits_, stream_);
    } else if (has_expanded_attention_mma(run)) {
      launch_expanded_attention_mma(run, stream_);
    } else {
      launch_expanded_attention_any(run, stream_);
    }
  }
}

void AttentionRunner::reserve(const AttentionScratch& scratch, const Backend::Limits& limits) {
  pinned(std::max(static_cast<std::size_t>(limits.tokens + limits.seqs + 1) * 4, scratch.prefill_plan));
  lse_.at_least(scratch.lse);
  plan_.at_least(scratch.prefill_plan);
  chunk_.at_least(scratch.chunk);
  tables_.at_least(scratch.tables);
  workspace_.at_least(scratch.workspace);
}

}  // namespace tessera::cuda
