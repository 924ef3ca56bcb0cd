#include "model/vocabulary_head.h"

#include <algorithm>

#include "base/check.h"

namespace tessera {

void sharded_argmax(Backend& backend, const Shard& shard, const ShardedLogits& logits,
                    const ArgmaxScratch& scratch, std::int32_t* tokens) {
  const std::int64_t rows = logits.local.rows;
  if (rows == 0) return;
  backend.argmax_shard(logits.local, logits.first_token, scratch.own);
  const BestLogit* all = scratch.own;
  if (shard.ranks() > 1) {
    shard.tp->all_gather(scratch.own, scratch.gathered, static_cast<std::size_t>(rows) * sizeof(BestLogit));
    all = scratch.gathered;
  }
  backend.merge_argmax(all, shard.ranks(), rows, logits.id_map, tokens);
}

void VocabularyHead::bind(const Weight& weight, const Shape& shape, const Shard& shard) {
  weight_ = &weight;
  shape_ = shape;
  shard_ = shard;
  share_ = shard.padded(shape.vocab);
  width_ = (shape.vocab + shard.ranks() - 1) / shard.ranks();
  TS_CHECK(weight.out == share_.count && weight.in == shape.hidden, weight.out, share_.count, weight.in,
           shape.hidden);
}

void VocabularyHead::plan(Arena& arena, DType dtype) {
  picked_ = arena.take(dtype, shape_.rows, shape_.hidden);
  local_ = arena.take(DType::kF32, shape_.rows, width_);
  const auto pairs = [&](std::int64_t count) {
    return static_cast<BestLogit*>(arena.take_bytes(static_cast<std::size_t>(count) * sizeof(BestLogit)));
  };
  best_.own = pairs(shape_.rows);
  if (shard_.ranks() > 1) {
    gathered_ = arena.take(DType::kF32, shard_.ranks() * shape_.rows, width_);
    logits_ = arena.take(DType::kF32, shape_.rows, shape_.vocab);
    best_.gathered = pairs(shard_.ranks() * shape_.rows);
  }
}

Tensor VocabularyHead::local_logits(Backend& backend, const Tensor& hidden, const std::int32_t* rows,
                                    std::int64_t count) const {
  const Tensor picked = picked_.row_range(0, count);
  const Tensor local = local_.row_range(0, count);
  backend.gather_rows(hidden, rows, picked);
  backend.linear(picked, *weight_, local.col_range(0, share_.count));
  return local;
}

Tensor VocabularyHead::logits(Backend& backend, const Tensor& hidden, const std::int32_t* rows,
                              std::int64_t count) const {
  TS_CHECK(count <= shape_.rows, count, shape_.rows);
  const Tensor local = local_logits(backend, hidden, rows, count);
  if (shard_.ranks() == 1) return local;

  shard_.tp->all_gather(local.data, gathered_.data, static_cast<std::size_t>(local.size()) * sizeof(float));
  const Tensor result = logits_.row_range(0, count);
  for (std::int64_t r = 0; r < shard_.ranks(); ++r) {
    const std::int64_t columns = std::min(width_, shape_.vocab - r * width_);
    if (columns <= 0) break;
    backend.copy(gathered_.row_range(r * count, count).col_range(0, columns),
                 result.col_range(r * width_, columns));
  }
  return result;
}

void VocabularyHead::argmax(Backend& backend, const Tensor& hidden, const std::int32_t* rows,
                            std::int64_t count, const std::int32_t* id_map, std::int32_t* tokens) const {
  for (std::int64_t first = 0; first < count; first += shape_.rows) {
    const std::int64_t some = std::min(shape_.rows, count - first);
    const Tensor local = local_logits(backend, hidden, rows + first, some);
    sharded_argmax(backend, shard_,
                   {.local = local.col_range(0, share_.count),
                    .first_token = static_cast<std::int32_t>(share_.first),
                    .id_map = id_map},
                   best_, tokens + first);
  }
}

}  // namespace tessera
