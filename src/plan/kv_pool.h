// How many blocks a KV pool gets, and what they hold: the one place where both the server and `tessera plan`
// decide it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "tensor/kv_format.h"

namespace tessera {

// The row format that --kv-cache-dtype names; "auto" is `automatic`.
Result<KvFormat> parse_kv_format(const std::string& name, KvFormat automatic);

struct KvPoolRequest {
  std::int64_t block_bytes = 0;  // of one block on one rank that holds it, all layers
  std::int32_t block_size = 0;   // tokens
  std::int32_t max_model_len = 0;
  std::int32_t max_num_seqs = 0;
  int context_ranks = 1;               // D: ranks that each hold blocks of their own
  std::optional<std::int32_t> blocks;  // on each rank, whatever they take
  std::optional<std::int64_t> bytes;   // on each rank, all of them used
  std::int64_t default_bytes = 0;      // on each rank, when neither is given: no more than the sequences can
                                       // use, but at least one sequence of full length
};

struct KvPool {
  std::int32_t blocks = 0;  // on each rank
  std::int64_t bytes = 0;   // likewise
  std::int64_t tokens = 0;  // over the D ranks, every block on one of them
};

Result<KvPool> size_kv_pool(const KvPoolRequest& request);

}  // namespace tessera
