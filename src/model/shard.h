// One rank's place among the ranks that share a model, and its share of every dimension that is split.
#pragma once

#include <algorithm>
#include <cstdint>

#include "comm/communicator.h"
#include "tensor/tensor.h"

namespace tessera {

// [first, first + count) of a dimension.
struct Share {
  std::int64_t first = 0;
  std::int64_t count = 0;
};

// How the ranks of a decode context parallel group turn their partial attention outputs into whole ones of
// their own heads.
enum class DcpExchange : std::uint8_t {
  kAllToAll,      // outputs with their log-sum-exps to the rank of their heads, which merges: one message
  kReduceScatter  // log-sum-exps to all, each weighs its own outputs, which are summed on the way: two
                  // messages
};

struct Shard {
  Communicator* tp = nullptr;    // borrowed; null with one rank
  bool expert_parallel = false;  // whole experts on each rank instead of a slice of each expert
  // The ranks that share the rows of the KV cache: a run of the ranks of tp, in their order. Borrowed; null
  // when every rank keeps all rows.
  Communicator* dcp = nullptr;
  DcpExchange exchange = DcpExchange::kAllToAll;

  int rank() const { return tp ? tp->rank() : 0; }
  int ranks() const { return tp ? tp->size() : 1; }
  int dcp_ranks() const { return dcp ? dcp->size() : 1; }

  // Equal shares; check_shardable has made sure that `total` divides.
  Share even(std::int64_t total) const {
    return {.first = total / ranks() * rank(), .count = total / ranks()};
  }
  // Shares that differ by at most one: whole experts.
  Share nearly_even(std::int64_t total) const {
    const std::int64_t first = total * rank() / ranks();
    return {.first = first, .count = total * (rank() + 1) / ranks() - first};
  }
  // Equal shares of ceil(total / ranks), the last ones shorter or empty: rows of the vocabulary.
  Share padded(std::int64_t total) const {
    const std::int64_t width = (total + ranks() - 1) / ranks();
    const std::int64_t first = std::min(width * rank(), total);
    return {.first = first, .count = std::min(width, total - first)};
  }

  // The sum of every rank's partial result, in place. Dense tensors only.
  void reduce(const Tensor& partial) const {
    if (tp) tp->all_reduce(partial.data, partial.dtype, partial.size());
  }
};

}  // namespace tessera
