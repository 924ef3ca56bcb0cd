// Decode attention over the latent KV cache (MLA, absorbed form): what the host asks for.
//
//   const auto layout = mla_decode_layout(shape, traits_of(device));   // pure; printable; sizes the
//   workspace mla_plan(*layout, lengths, workspace, stream);                     // once a step: divides the
//   work, on the device mla_decode(*layout, work, workspace, stream);                      // once a layer:
//   attention, then the merge
//
// Launch shapes and scratch depend on the shape alone, never on lengths, so one captured graph serves every
// step of a batch size. Nothing is allocated here and nothing waits. All pointers are device memory, 16-byte
// aligned, owned by the caller.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "backend/cuda/device.h"
#include "backend/cuda_layout/mla_layout.h"
#include "base/result.h"
#include "tensor/kv_format.h"

namespace tessera::cuda {

// How many KV rows each query token sees. Exactly one of the two is set.
struct MlaDecodeLengths {
  const std::int32_t* kv_rows = nullptr;  // [seqs]; rows visible to the last query token; token j of a
                                          // sequence sees kv_rows - (q_tokens - 1 - j), not less than 0
  const std::int32_t* query_rows =
      nullptr;  // [seqs, q_tokens]; rows visible to each query token, in any order, 0
                // allowed: what a rank of a context-parallel group holds
};

struct MlaDecodeWork {
  const void* q = nullptr;  // [seqs * q_tokens, heads, 576] bf16, absorbed
  KvLayer kv;               // [blocks, 64, row]
  const std::int32_t* block_table =
      nullptr;               // [seqs, max_blocks]; entries past the rows in use are never read
  MlaDecodeLengths lengths;  // the same that the plan was made from
  float softmax_scale = 1.0F;
  void* out = nullptr;   // [seqs * q_tokens, heads, 512] bf16 or f32; 0 where a token sees no rows
  float* lse = nullptr;  // [seqs * q_tokens, heads], natural log; -inf where a token sees no rows
};

Result<void> mla_plan(const MlaDecodeLayout& layout, const MlaDecodeLengths& lengths, void* workspace,
                      cudaStream_t stream);
Result<void> mla_decode(const MlaDecodeLayout& layout, const MlaDecodeWork& work, void* workspace,
                        cudaStream_t stream);

}  // namespace tessera::cuda
