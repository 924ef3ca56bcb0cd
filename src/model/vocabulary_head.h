// lm_head over a vocabulary that ranks share: whole rows of logits, or only the best token of each.
#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "model/shard.h"
#include "tensor/arena.h"

namespace tessera {

// Logits of one rank's part of the vocabulary and where the choice among all parts goes.
struct ShardedLogits {
  Tensor local;                          // f32 [rows, share]
  std::int32_t first_token = 0;          // of the share
  const std::int32_t* id_map = nullptr;  // [vocab], on the device: applied to the merged tokens; null: none
};
struct ArgmaxScratch {
  BestLogit* own = nullptr;       // [rows]
  BestLogit* gathered = nullptr;  // [ranks, rows]; unused with one rank
};

// tokens[r] (on the device) = the token of the largest of all ranks' logits in row r, of equals the lowest
// (through id_map where there is one); -1 where a part holds a NaN or nothing may be chosen. Ranks exchange
// one (value, token) pair a row, never logits; columns that no rank owns cannot win, because a share has
// none.
void sharded_argmax(Backend& backend, const Shard& shard, const ShardedLogits& logits,
                    const ArgmaxScratch& scratch, std::int32_t* tokens);

// What one rank receives for one row: independent of the vocabulary.
constexpr std::int64_t argmax_exchange_bytes(int ranks) {
  return ranks > 1 ? ranks * static_cast<std::int64_t>(sizeof(BestLogit)) : 0;
}

class VocabularyHead {
 public:
  struct Shape {
    std::int64_t vocab = 0;  // rows of the head over all ranks
    std::int64_t hidden = 0;
    std::int64_t rows = 0;  // of logits made at a time
  };
  // `weight` [share, hidden] is this rank's part and must outlive the head.
  void bind(const Weight& weight, const Shape& shape, const Shard& shard);
  void plan(Arena& arena, DType dtype);  // the same takes in the same order each time

  // Rows `rows` (on the device, at most Shape::rows) of hidden: f32 [count, vocab] on every rank.
  Tensor logits(Backend& backend, const Tensor& hidden, const std::int32_t* rows, std::int64_t count) const;
  // Any number of rows.
  void argmax(Backend& backend, const Tensor& hidden, const std::int32_t* rows, std::int64_t count,
              const std::int32_t* id_map, std::int32_t* tokens) const;

  const Weight& weight() const { return *weight_; }
  const Shard& shard() const { return shard_; }

 private:
  Tensor local_logits(Backend& backend, const Tensor& hidden, const std::int32_t* rows,
                      std::int64_t count) const;

  const Weight* weight_ = nullptr;
  Shape shape_;
  Shard shard_;
  Share share_;             // this rank's rows of the vocabulary
  std::int64_t width_ = 0;  // of the widest share
  Tensor picked_;           // [rows, hidden]
  Tensor local_;            // [rows, width] f32
  Tensor gathered_;         // [ranks * rows, width] f32; empty with one rank
  Tensor logits_;           // [rows, vocab] f32; empty with one rank
  ArgmaxScratch best_;
};

}  // namespace tessera
