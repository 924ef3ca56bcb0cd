// For tests: the limits under which the fuzz target's seeds were written.
#pragma once

#include "engine/plan_codec.h"

namespace tessera {

inline constexpr PlanLimits kSeedLimits{.max_num_seqs = 4,
                                        .max_num_batched_tokens = 64,
                                        .max_model_len = 96,
                                        .block_size = 16,
                                        .kv_blocks = 32,
                                        .dcp_ranks = 2,
                                        .vocab = 997,
                                        .max_drafts = 3,
                                        .shared_table = true};

}  // namespace tessera
