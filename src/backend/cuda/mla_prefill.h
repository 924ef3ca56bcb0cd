// MLA attention in the expanded form: keys and values of every visible row are made from the cached latents,
// some thousand rows at a time, then attended to by tensor cores. Any number of rounds: each takes up the
// result of the one before, kept as output and log-sum-exp.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "backend/attention_batch.h"
#include "backend/cuda/device.h"
#include "backend/cuda_layout/attention_layout.h"
#include "backend/cuda_layout/prefill_plan.h"
#include "backend/cuda_layout/weight_layout.h"
#include "tensor/kv_format.h"
#include "tensor/tensor.h"

namespace tessera::cuda {

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
  const PrefillTile* tiles = nullptr;    // of this round, on the device
  std::int32_t* counter = nullptr;       // 0; of this round, on the device
  PrefillRound round = {};
  void* latents = nullptr;  // [chunk rows, latent + rope], all in the activation's type
  void* keys = nullptr;     // [chunk rows, heads * nope]
  void* values = nullptr;   // [chunk rows, heads * value]
};
// Rows of the chunk that belong to no piece become zeros.
void launch_gather_latents(const PrefillRun& run, cudaStream_t stream);

// Three forms: any width and type in plain loops; tensor cores from sm_80 on; Hopper's.
void launch_expanded_attention_any(const PrefillRun& run, cudaStream_t stream);
bool has_expanded_attention_mma(const PrefillRun& run);
void launch_expanded_attention_mma(const PrefillRun& run, cudaStream_t stream);
bool has_expanded_attention_sm90(const PrefillRun& run, const DeviceTraits& device);
void launch_expanded_attention_sm90(const PrefillRun& run, const DeviceTraits& device, cudaStream_t stream);

}  // namespace tessera::cuda
