// A back-end that notes what the parts of a step cost: time, bytes that have to be moved, FLOP. Each call is
// waited for while it measures, so the parts of a device that queues its work come out a little slower than
// in a step that is not watched.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bench/step/forwarding_backend.h"
#include "checkpoint/parameters.h"

namespace tessera::bench {

enum class StepPart : std::uint8_t {
  kAttentionProducts,  // projections, absorption included
  kCache,              // attention over the cached rows, and writing the new ones
  kDenseMlp,
  kRouter,
  kSharedExpert,
  kRoutedExperts,
  kHead,
  kRest,  // embedding, norms, rotation, activations, sums, the choice of the token
};
inline constexpr std::size_t kStepParts = 8;
std::string_view name_of(StepPart part);

struct PartCost {
  double us = 0;
  double bytes = 0;  // weights, cached rows and activations, each read or written once
  double flops = 0;
  int calls = 0;
};
using StepCosts = std::array<PartCost, kStepParts>;

// What the query tokens of the step see in each layer.
struct CacheView {
  std::int64_t rows = 0;   // of all sequences
  std::int64_t pairs = 0;  // query token x row
};

class StepMeter final : public ForwardingBackend {
 public:
  explicit StepMeter(std::unique_ptr<Backend> inner) : ForwardingBackend(std::move(inner)) {}

  // For LoadOptions::on_weight: what has just been prepared is of this class.
  void add_weight(ModuleClass module_class);

  void start(const CacheView& cache);
  StepCosts stop();  // since start()

  Weight prepare(std::span<const HostMatrix> row_parts) override;
  WeightStack prepare_stack(std::int64_t count,
                            const std::function<std::vector<HostMatrix>(std::int64_t)>& parts) override;
  WeightStack prepare_stack_f32(WeightFormat format, std::int64_t count, std::int64_t out, std::int64_t in,
                                std::span<const float> values) override;

  // In order while it measures.
  void aside(std::int64_t rows) override {
    if (!is_measuring_) inner_->aside(rows);
  }
  void back() override {
    if (!is_measuring_) inner_->back();
  }
  void join() override {
    if (!is_measuring_) inner_->join();
  }

  void embed(const std::int32_t* ids, const Weight& table, std::int64_t first, const Tensor& out) override;
  void rms_norm(const Tensor& x, const VectorWeight& weight, float eps, const Tensor& out) override;
  void add_rms_norm(const Tensor& residual, const Tensor& delta, const VectorWeight& weight, float eps,
                    const Tensor& out) override;
  void add(const Tensor& x, const Tensor& y, const Tensor& out) override;
  void linear(const Tensor& x, const Weight& weight, const Tensor& out) override;
  void linear_heads(const Tensor& x, std::int64_t x_head_stride, const WeightStack& weight, const Tensor& out,
                    std::int64_t out_head_stride) override;
  void gated_linear(const Tensor& x, const Weight& weight, const Tensor& scratch, const Tensor& out) override;
  void silu_mul(const Tensor& gate_up, const Tensor& out) override;
  void gather_rows(const Tensor& x, const std::int32_t* rows, const Tensor& out) override;
  void copy(const Tensor& x, const Tensor& out) override;
  void rope(const Tensor& x, std::int64_t heads, std::int64_t head_stride, const std::int32_t* positions,
            const RopeTable& table, RopePairs pairs) override;
  void write_kv_mla(const Tensor& latent, const Tensor& rope_key, const AttentionBatch& batch,
                    const KvLayer& kv) override;
  void store_mla(const MlaRows& rows, const VectorWeight& latent_norm, float eps, const RopeTable& table,
                 const AttentionBatch& batch, const KvLayer& kv) override;
  void mla_decode(const Tensor& q, std::int64_t heads, float scale, const AttentionBatch& batch,
                  const KvLayer& kv, const Tensor& out, const Tensor& lse) override;
  void write_kv_gqa(const Tensor& keys, const Tensor& values, const AttentionBatch& batch,
                    const KvLayer& kv) override;
  void gqa_attention(const Tensor& q, std::int64_t heads, float scale, const AttentionBatch& batch,
                     const KvLayer& kv, const Tensor& out, const Tensor& lse) override;
  void route_experts(const Tensor& logits, const VectorWeight& bias, const RoutingRule& rule,
                     const Tensor& ids, const Tensor& weights) override;
  void moe(const Tensor& x, const Tensor& ids, const Tensor& weights, std::int64_t first_expert,
           const WeightStack& gate_up, const WeightStack& down, const Tensor& out) override;
  void argmax_shard(const Tensor& logits, std::int32_t first_token, BestLogit* best) override;
  void merge_argmax(const BestLogit* shards, std::int64_t ranks, std::int64_t rows,
                    const std::int32_t* id_map, std::int32_t* tokens) override;

 private:
  template <class Call>
  void timed(StepPart part, double bytes, double flops, const Call& call);
  StepPart part_of(const void* weight) const;
  double touched_experts(const Tensor& ids, std::int64_t first, std::int64_t count);

  std::unordered_map<const void*, StepPart> parts_;  // by a weight's data
  std::vector<const void*> unnamed_;                 // prepared, not yet told of
  bool is_measuring_ = false;
  CacheView cache_;
  StepCosts costs_;
};

}  // namespace tessera::bench
