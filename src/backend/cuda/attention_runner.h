// Attention as the back-end runs it: picks the form, cuts batches to what a launch can take, owns the
// scratch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "backend/backend.h"
#include "backend/cuda/attention.h"
#include "backend/cuda/growing_scratch.h"
#include "backend/cuda/mla_decode.h"
#include "backend/cuda/mla_prefill.h"
#include "backend/cuda/product_many_sm90.h"
#include "backend/cuda/stream_wait.h"

namespace tessera::cuda {

class AttentionRunner {
 public:
  struct Choice {
    bool batch_invariant = false;
    bool portable = false;
    const ManyDevice* hopper = nullptr;  // where its products are used; outlives the runner
  };
  AttentionRunner(cudaStream_t stream, StreamWait& wait, const DeviceTraits& traits, const Choice& choice)
      : stream_(stream),
        wait_(wait),
        traits_(traits),
        batch_invariant_(choice.batch_invariant),
        portable_(choice.portable),
        hopper_(choice.hopper) {}

  void mla_decode(const Tensor& q, std::int64_t heads, float scale, const AttentionBatch& batch,
                  const KvLayer& kv, const Tensor& out, const Tensor& lse);
  void mla_prefill(const Tensor& q, std::int64_t heads, float scale, const AttentionBatch& batch,
                   const KvLayer& kv, const WeightStack& k_up, const WeightStack& v_up, const Tensor& out,
                   const Tensor& lse);
  // Lengths on the device may have changed, or what was planned has not run: the next decode plans anew.
  void forget_plan() { planned_ = {}; }
  void reserve(const AttentionScratch& scratch, const Backend::Limits& limits);
  std::size_t scratch_bytes() const {
    return workspace_.capacity() + tables_.capacity() + lse_.capacity() + chunk_.capacity() +
           plan_.capacity();
  }

 private:
  MlaDecodeShape decode_shape(const AttentionBatch& batch, std::int64_t heads, KvFormat format) const;
  void decode_uniform(const MlaDecodeShape& shape, const MlaDecodeWork& work);
  PrefillPlan plan(const AttentionBatch& batch, std::int32_t chunk_rows);
  struct PlanOnDevice {
    const PrefillPiece* pieces;
    const PrefillTile* tiles;
    std::int32_t* counters;  // one a round
  };
  PlanOnDevice upload(const PrefillPlan& plan);
  std::byte* pinned(std::size_t bytes);
  // Where log-sum-exps go when the caller does not want them.
  Tensor lse_or_scratch(const Tensor& lse, std::int64_t tokens, std::int64_t heads);

  // What the plan in the workspace was made from. All layers of a step share it.
  struct Planned {
    MlaDecodeShape shape;
    const std::int32_t* query_rows = nullptr;
    const void* workspace = nullptr;
    bool operator==(const Planned&) const = default;
  };

  cudaStream_t stream_;
  StreamWait& wait_;
  DeviceTraits traits_;
  bool batch_invariant_;
  bool portable_;
  const ManyDevice* hopper_;
  Planned planned_;
  GrowingScratch workspace_;  // of mla_decode
  GrowingScratch tables_;     // block tables, one row a token
  GrowingScratch lse_;
  GrowingScratch chunk_;  // expanded latents, keys and values
  GrowingScratch plan_;   // of mla_prefill
  PinnedBytes pinned_;
  std::size_t pinned_bytes_ = 0;
};

}  // namespace tessera::cuda
