// The kernel of the one-shot all-reduce (peer_protocol.h).
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstdint>

#include "comm/peer/peer_protocol.h"
#include "tensor/dtype.h"

namespace tessera {

// Blocks for a call of so many packs: the same on every rank.
int peer_blocks(std::int64_t packs);

// kF32 or kBF16, in place. Enqueues one kernel and returns; may be captured into a graph. A wait of more than
// `patience` is given up and leaves its reason in call.trouble.
cudaError_t launch_peer_all_reduce(const PeerCall& call, DType dtype, std::chrono::nanoseconds patience,
                                   cudaStream_t stream);

}  // namespace tessera
