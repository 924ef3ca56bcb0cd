// Decode attention over rows that the ranks of a group share: every rank attends with the queries of all the
// group's heads over the rows it has, and sends each part of the result to the rank of its heads. Merging by
// log-sum-exp is exact for any partition of the rows (docs/explanation/context-parallelism.md).
//
// Memory and messages, for n query tokens, H heads on each of D ranks, keys of 576 and values of 512:
//   queries   each rank sends n * H * 576 values and receives D times as many
//   results   each rank sends n * D * H values of 512 and their log-sum-exps in f32, and receives as many
#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "model/shard.h"
#include "tensor/arena.h"

namespace tessera {

class ContextExchange {
 public:
  struct Sizes {
    std::int64_t tokens = 0;  // most in a step
    std::int64_t heads = 0;   // of one rank
    std::int64_t key_dim = 0;
    std::int64_t value_dim = 0;
    DType dtype = DType::kF32;
  };
  void plan(Arena& arena, Communicator* dcp, DcpExchange exchange, const Sizes& sizes);

  // q [tokens, heads * key_dim] of every rank: [tokens, ranks * heads * key_dim], in rank order.
  Tensor gather_queries(Backend& backend, const Tensor& q) const;

  // Where attention with the gathered queries leaves its result: [tokens, ranks * heads * value_dim] and
  // [tokens, ranks * heads] f32.
  struct Partial {
    Tensor out;
    Tensor lse;
  };
  Partial partial(std::int64_t tokens) const;
  // out [tokens, heads * value_dim]: this rank's heads over the rows of all ranks, from every rank's
  // partial().
  void combine(Backend& backend, const Tensor& out) const;

 private:
  void combine_by_all_to_all(Backend& backend, const Tensor& out) const;
  void combine_by_reduce_scatter(Backend& backend, const Tensor& out) const;
  // The message to or from one rank: outputs [tokens, heads * value_dim], then log-sum-exps [tokens, heads].
  std::int64_t output_bytes(std::int64_t tokens) const {
    return tokens * sizes_.heads * sizes_.value_dim * bytes_of(sizes_.dtype);
  }
  std::int64_t lse_bytes(std::int64_t tokens) const {
    return tokens * sizes_.heads * static_cast<std::int64_t>(sizeof(float));
  }
  Parts outputs_in(void* messages, std::int64_t tokens, std::int64_t step) const;
  Parts lses_in(void* messages, std::int64_t tokens, std::int64_t step) const;

  Communicator* dcp_ = nullptr;
  DcpExchange exchange_ = DcpExchange::kAllToAll;
  Sizes sizes_;
  std::int64_t ranks_ = 1;
  Tensor received_queries_, queries_;  // [ranks * tokens, heads * key_dim], [tokens, ranks * heads * key_dim]
  Tensor out_, lse_;                   // partial()
  void* sent_ = nullptr;               // [ranks] messages
  void* received_ = nullptr;           // [ranks] messages
};

// Microseconds of each way to combine sizes.tokens rows, medians of several, as rank 0 saw them. Every rank
// of the group must call it, and gets the same answer.
struct MeasuredExchange {
  DcpExchange faster = DcpExchange::kAllToAll;
  double all_to_all_us = 0;
  double reduce_scatter_us = 0;
};
MeasuredExchange measure_exchange(Backend& backend, Communicator& dcp, const ContextExchange::Sizes& sizes);

}  // namespace tessera
