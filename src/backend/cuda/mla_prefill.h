// MLA attention in the expanded form: keys and values of every visible row are made from the cached latents,
// some thousand rows at a time, then attended to by tensor cores. Any number of rounds: each takes up the
// result of the one before, kept as output and log-sum-exp.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/attention_batch.h"
#include "backend/cuda/device.h"
#include "backend/cuda_layout/attention_layout.h"
#include "backend/cuda_layout/weight_layout.h"
#include "tensor/kv_format.h"
#include "tensor/tensor.h"

namespace tessera::cuda {

struct PrefillRound {
  std::int32_t first_piece = 0;
  std::int32_t pieces = 0;
  std::int32_t rows = 0;         // of the chunk, in use
  std::int32_t most_tokens = 0;  // of a piece
};
struct PrefillPlan {
  std::vector<PrefillPiece> pieces;
  std::vector<PrefillRound> rounds;
};
// query_start [seqs + 1]; rows [seqs], that the last token of each sequence sees.
PrefillPlan plan_prefill(const std::int32_t* query_start, const std::int32_t* rows, std::int32_t seqs,
                         std::int32_t chunk_rows);

// What the kernels of one round see.
struct PrefillRun {
  PrefillShape shape;
  float scale = 1.0F;
  Tensor q, out;         // [tokens, heads * (nope + rope)], [tokens, heads * value]
  float* lse = nullptr;  // [tokens, heads], rows of lse_stride
  std::int64_t lse_stride = 0;
  AttentionBatch batch;
  KvLayer kv;
  const PrefillPiece* pieces = nullptr;  // of this round, on the device
  PrefillRound round = {};
  void* latents = nullptr;  // [chunk rows, latent + rope], all in the activation's type
  void* keys = nullptr;     // [chunk rows, heads * nope]
  void* values = nullptr;   // [chunk rows, heads * value]
};
void launch_gather_latents(const PrefillRun& run, cudaStream_t stream);
void launch_expanded_attention_any(const PrefillRun& run, cudaStream_t stream);
bool has_expanded_attention_mma(const PrefillRun& run);
void launch_expanded_attention_mma(const PrefillRun& run, cudaStream_t stream);

}  // namespace tessera::cuda
