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
#include "backend/cuda/weight_layout.h"
#include "tensor/kv_format.h"
#include "tensor/tensor.h"

namespace tessera::cuda {

// Rows [first_row, first_row + rows) of one sequence, expanded to rows [chunk_row, ...) of the chunk. A
// sequence is cut at multiples of the chunk's size, so that what a token gets does not depend on the batch.
struct PrefillPiece {
  std::int32_t seq;
  std::int32_t first_row;
  std::int32_t rows;
  std::int32_t chunk_row;
  std::int32_t first_token;
  std::int32_t tokens;
};
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

struct PrefillShape {
  std::int64_t heads = 0;
  std::int32_t nope = 0;
  std::int32_t rope = 0;
  std::int32_t latent = 0;
  std::int32_t value = 0;
};

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
