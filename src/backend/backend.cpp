// Operations in terms of others, for devices that have no form of their own yet.
#include "backend/backend.h"

#include <cmath>
#include <limits>

#include "base/check.h"

namespace tessera {

void Backend::gated_linear(const Tensor& x, const Weight& weight, const Tensor& scratch, const Tensor& out) {
  linear(x, weight, scratch);
  silu_mul(scratch, out);
}

void Backend::store_mla(const MlaRows& rows, const VectorWeight& latent_norm, float eps,
                        const RopeTable& table, const AttentionBatch& batch, const KvLayer& kv) {
  rms_norm(rows.latent, latent_norm, eps, rows.latent);
  Tensor q = rows.q_rope;  // a row a token
  q.rows = rows.latent.rows;
  q.cols = (rows.heads - 1) * rows.q_rope.stride + rows.q_rope.cols;
  q.stride = rows.heads * rows.q_rope.stride;
  rope(q, rows.heads, rows.q_rope.stride, batch.positions, table, RopePairs::kInterleaved);
  rope(rows.rope_key, 1, rows.rope_key.cols, batch.positions, table, RopePairs::kInterleaved);
  write_kv_mla(rows.latent, rows.rope_key, batch, kv);
  if (rows.q_rotated.data != rows.q_rope.data) copy(rows.q_rope, rows.q_rotated);
}

void Backend::split_columns(const Tensor& x, const Parts& parts) {
  TS_CHECK(x.cols == parts.count * parts.first.cols, x.cols, parts.count, parts.first.cols);
  for (std::int64_t i = 0; i < parts.count; ++i)
    copy(x.col_range(i * parts.first.cols, parts.first.cols), parts[i]);
}

void Backend::join_columns(const Parts& parts, const Tensor& x) {
  TS_CHECK(x.cols == parts.count * parts.first.cols, x.cols, parts.count, parts.first.cols);
  for (std::int64_t i = 0; i < parts.count; ++i)
    copy(parts[i], x.col_range(i * parts.first.cols, parts.first.cols));
}

void Backend::verify(const Tensor& logits, std::span<const SamplingRow> rows,
                     std::span<const DraftDraw> drafts, std::span<SampledToken> results) {
  TS_CHECK(drafts.size() == rows.size(), drafts.size(), rows.size());
  sample(logits, rows, results);
}

void Backend::argmax_shard(const Tensor& logits, std::int32_t first_token, BestLogit* best) {
  TS_CHECK(logits.dtype == DType::kF32, name_of(logits.dtype));
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  std::vector<float> row(static_cast<std::size_t>(logits.cols));
  std::vector<BestLogit> found(static_cast<std::size_t>(logits.rows), {.value = kNone, .token = -1});
  for (std::int64_t r = 0; r < logits.rows; ++r) {
    copy_to_host(row.data(), logits.row_range(r, 1).data, row.size() * sizeof(float));
    synchronise();
    BestLogit& one = found[static_cast<std::size_t>(r)];
    for (std::size_t i = 0; i < row.size() && !std::isnan(one.value); ++i) {
      if (std::isnan(row[i])) one = {.value = row[i], .token = -1};
      if (row[i] > one.value) one = {.value = row[i], .token = first_token + static_cast<std::int32_t>(i)};
    }
  }
  copy_to_device(best, found.data(), found.size() * sizeof(BestLogit));
  synchronise();
}

void Backend::merge_argmax(const BestLogit* shards, std::int64_t ranks, std::int64_t rows,
                           const std::int32_t* id_map, std::int32_t* tokens) {
  std::vector<BestLogit> all(static_cast<std::size_t>(ranks * rows));
  std::vector<std::int32_t> merged(static_cast<std::size_t>(rows));
  copy_to_host(all.data(), shards, all.size() * sizeof(BestLogit));
  synchronise();
  for (std::int64_t r = 0; r < rows; ++r) {
    const BestLogit best = merged_best(all.data(), ranks, rows, r);
    std::int32_t& token = merged[static_cast<std::size_t>(r)];
    token = best.token;
    if (id_map == nullptr || token < 0) continue;
    copy_to_host(&token, id_map + best.token, sizeof(std::int32_t));
    synchronise();
  }
  copy_to_device(tokens, merged.data(), merged.size() * sizeof(std::int32_t));
  synchronise();
}

BestLogit merged_best(const BestLogit* shards, std::int64_t ranks, std::int64_t rows, std::int64_t row) {
  BestLogit best{.value = -std::numeric_limits<float>::infinity(), .token = -1};
  for (std::int64_t rank = 0; rank < ranks; ++rank) best = better(best, shards[rank * rows + row]);
  return best;
}

std::unique_ptr<Recording> Backend::record(const std::function<void()>&) { return nullptr; }

}  // namespace tessera
