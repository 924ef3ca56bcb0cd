#include "bench/step/step_meter.h"

#include <algorithm>
#include <chrono>

namespace tessera::bench {
namespace {

double bytes_in(const Tensor& x) { return static_cast<double>(x.rows * x.cols * bytes_of(x.dtype)); }
double real(std::int64_t value) { return static_cast<double>(value); }

StepPart part_of_class(ModuleClass module_class) {
  switch (module_class) {
    case ModuleClass::kEmbedding:  // where the head is tied to it
    case ModuleClass::kHead:
      return StepPart::kHead;
    case ModuleClass::kAttention:
      return StepPart::kAttentionProducts;
    case ModuleClass::kDenseMlp:
      return StepPart::kDenseMlp;
    case ModuleClass::kRouter:
      return StepPart::kRouter;
    case ModuleClass::kSharedExpert:
      return StepPart::kSharedExpert;
    case ModuleClass::kRoutedExpert:
      return StepPart::kRoutedExperts;
    case ModuleClass::kNorm:
    case ModuleClass::kFusion:
    case ModuleClass::kTokenMap:
      return StepPart::kRest;
  }
  return StepPart::kRest;
}

}  // namespace

std::string_view name_of(StepPart part) {
  constexpr std::array<std::string_view, kStepParts> kNames = {
      "attention products", "attention over the cache", "dense MLP", "router",
      "shared experts",     "routed experts",           "head",      "the rest"};
  return kNames[static_cast<std::size_t>(part)];
}

void StepMeter::add_weight(ModuleClass module_class) {
  for (const void* data : unnamed_) parts_[data] = part_of_class(module_class);
  unnamed_.clear();
}

void StepMeter::start(const CacheView& cache) {
  synchronise();
  costs_ = {};
  cache_ = cache;
  is_measuring_ = true;
}

StepCosts StepMeter::stop() {
  is_measuring_ = false;
  return costs_;
}

template <class Call>
void StepMeter::timed(StepPart part, double bytes, double flops, const Call& call) {
  if (!is_measuring_) return call();
  const auto began = std::chrono::steady_clock::now();
  call();
  synchronise();
  PartCost& cost = costs_[static_cast<std::size_t>(part)];
  cost.us += std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began).count();
  ++cost.calls;
  cost.bytes += bytes;
  cost.flops += flops;
}

StepPart StepMeter::part_of(const void* weight) const {
  const auto found = parts_.find(weight);
  return found == parts_.end() ? StepPart::kRest : found->second;
}

Weight StepMeter::prepare(std::span<const HostMatrix> row_parts) {
  Weight weight = inner_->prepare(row_parts);
  unnamed_.push_back(weight.data);
  return weight;
}
WeightStack StepMeter::prepare_stack(std::int64_t count,
                                     const std::function<std::vector<HostMatrix>(std::int64_t)>& parts) {
  WeightStack stack = inner_->prepare_stack(count, parts);
  unnamed_.push_back(stack.data);
  return stack;
}
WeightStack StepMeter::prepare_stack_f32(WeightFormat format, std::int64_t count, std::int64_t out,
                                         std::int64_t in, std::span<const float> values) {
  WeightStack stack = inner_->prepare_stack_f32(format, count, out, in, values);
  unnamed_.push_back(stack.data);
  return stack;
}

void StepMeter::embed(const std::int32_t* ids, const Weight& table, std::int64_t first, const Tensor& out) {
  timed(StepPart::kRest, 2 * bytes_in(out), 0, [&] { inner_->embed(ids, table, first, out); });
}
void StepMeter::rms_norm(const Tensor& x, const VectorWeight& weight, float eps, const Tensor& out) {
  timed(StepPart::kRest, bytes_in(x) + bytes_in(out), 0, [&] { inner_->rms_norm(x, weight, eps, out); });
}
void StepMeter::add_rms_norm(const Tensor& residual, const Tensor& delta, const VectorWeight& weight,
                             float eps, const Tensor& out) {
  timed(StepPart::kRest, 2 * bytes_in(residual) + bytes_in(delta) + bytes_in(out), 0,
        [&] { inner_->add_rms_norm(residual, delta, weight, eps, out); });
}
void StepMeter::add(const Tensor& x, const Tensor& y, const Tensor& out) {
  timed(StepPart::kRest, bytes_in(x) + bytes_in(y) + bytes_in(out), 0, [&] { inner_->add(x, y, out); });
}
void StepMeter::linear(const Tensor& x, const Weight& weight, const Tensor& out) {
  timed(part_of(weight.data), real(weight.bytes) + bytes_in(x) + bytes_in(out),
        2 * real(x.rows * weight.in * weight.out), [&] { inner_->linear(x, weight, out); });
}
void StepMeter::linear_heads(const Tensor& x, std::int64_t x_head_stride, const WeightStack& weight,
                             const Tensor& out, std::int64_t out_head_stride) {
  const double activations = real(x.rows * weight.count * (weight.in + weight.out) * bytes_of(x.dtype));
  timed(part_of(weight.data), real(weight.bytes) + activations,
        2 * real(x.rows * weight.count * weight.in * weight.out),
        [&] { inner_->linear_heads(x, x_head_stride, weight, out, out_head_stride); });
}
void StepMeter::gated_linear(const Tensor& x, const Weight& weight, const Tensor& scratch,
                             const Tensor& out) {
  timed(part_of(weight.data), real(weight.bytes) + bytes_in(x) + bytes_in(out),
        2 * real(x.rows * weight.in * weight.out), [&] { inner_->gated_linear(x, weight, scratch, out); });
}
void StepMeter::silu_mul(const Tensor& gate_up, const Tensor& out) {
  timed(StepPart::kRest, bytes_in(gate_up) + bytes_in(out), 0, [&] { inner_->silu_mul(gate_up, out); });
}
void StepMeter::gather_rows(const Tensor& x, const std::int32_t* rows, const Tensor& out) {
  timed(StepPart::kRest, 2 * bytes_in(out), 0, [&] { inner_->gather_rows(x, rows, out); });
}
void StepMeter::copy(const Tensor& x, const Tensor& out) {
  timed(StepPart::kRest, 2 * bytes_in(out), 0, [&] { inner_->copy(x, out); });
}
void StepMeter::rope(const Tensor& x, std::int64_t heads, std::int64_t head_stride,
                     const std::int32_t* positions, const RopeTable& table, RopePairs pairs) {
  timed(StepPart::kRest, 2 * real(x.rows * heads * 2 * table.pairs * bytes_of(x.dtype)), 0,
        [&] { inner_->rope(x, heads, head_stride, positions, table, pairs); });
}

void StepMeter::write_kv_mla(const Tensor& latent, const Tensor& rope_key, const AttentionBatch& batch,
                             const KvLayer& kv) {
  timed(StepPart::kCache, bytes_in(latent) + bytes_in(rope_key) + real(batch.tokens * kv.row_bytes), 0,
        [&] { inner_->write_kv_mla(latent, rope_key, batch, kv); });
}
void StepMeter::write_kv_gqa(const Tensor& keys, const Tensor& values, const AttentionBatch& batch,
                             const KvLayer& kv) {
  timed(StepPart::kCache, bytes_in(keys) + bytes_in(values) + real(batch.tokens * kv.row_bytes), 0,
        [&] { inner_->write_kv_gqa(keys, values, batch, kv); });
}
void StepMeter::store_mla(const MlaRows& rows, const VectorWeight& latent_norm, float eps,
                          const RopeTable& table, const AttentionBatch& batch, const KvLayer& kv) {
  timed(StepPart::kCache,
        2 * bytes_in(rows.latent) + 2 * bytes_in(rows.rope_key) + 2 * bytes_in(rows.q_rope) +
            real(batch.tokens * kv.row_bytes),
        0, [&] { inner_->store_mla(rows, latent_norm, eps, table, batch, kv); });
}
void StepMeter::mla_decode(const Tensor& q, std::int64_t heads, float scale, const AttentionBatch& batch,
                           const KvLayer& kv, const Tensor& out, const Tensor& lse) {
  timed(StepPart::kCache, real(cache_.rows * kv.row_bytes) + bytes_in(q) + bytes_in(out),
        2 * real(cache_.pairs * heads * (2 * kv.shape.latent + kv.shape.rope)),
        [&] { inner_->mla_decode(q, heads, scale, batch, kv, out, lse); });
}
void StepMeter::gqa_attention(const Tensor& q, std::int64_t heads, float scale, const AttentionBatch& batch,
                              const KvLayer& kv, const Tensor& out, const Tensor& lse) {
  timed(StepPart::kCache, real(cache_.rows * kv.row_bytes) + bytes_in(q) + bytes_in(out),
        4 * real(cache_.pairs * heads * kv.shape.head_dim),
        [&] { inner_->gqa_attention(q, heads, scale, batch, kv, out, lse); });
}

void StepMeter::route_experts(const Tensor& logits, const VectorWeight& bias, const RoutingRule& rule,
                              const Tensor& ids, const Tensor& weights) {
  timed(StepPart::kRouter, bytes_in(logits) + bytes_in(ids) + bytes_in(weights), 0,
        [&] { inner_->route_experts(logits, bias, rule, ids, weights); });
}

double StepMeter::touched_experts(const Tensor& ids, std::int64_t first, std::int64_t count) {
  std::vector<std::int32_t> chosen(static_cast<std::size_t>(ids.size()));
  copy_to_host(chosen.data(), ids.data, chosen.size() * sizeof(std::int32_t));
  synchronise();
  std::vector<bool> seen(static_cast<std::size_t>(count));
  for (const std::int32_t id : chosen) {
    if (id >= first && id < first + count) seen[static_cast<std::size_t>(id - first)] = true;
  }
  return real(std::ranges::count(seen, true));
}

void StepMeter::moe(const Tensor& x, const Tensor& ids, const Tensor& weights, std::int64_t first_expert,
                    const WeightStack& gate_up, const WeightStack& down, const Tensor& out) {
  const double touched = is_measuring_ ? touched_experts(ids, first_expert, gate_up.count) : 0;
  const double expert = real(gate_up.bytes + down.bytes) / real(gate_up.count);
  timed(StepPart::kRoutedExperts, touched * expert + bytes_in(x) + bytes_in(out),
        6 * real(ids.size() * down.in * x.cols),
        [&] { inner_->moe(x, ids, weights, first_expert, gate_up, down, out); });
}

void StepMeter::argmax_shard(const Tensor& logits, std::int32_t first_token, BestLogit* best) {
  timed(StepPart::kRest, bytes_in(logits), 0, [&] { inner_->argmax_shard(logits, first_token, best); });
}
void StepMeter::merge_argmax(const BestLogit* shards, std::int64_t ranks, std::int64_t rows,
                             const std::int32_t* id_map, std::int32_t* tokens) {
  timed(StepPart::kRest, real(ranks * rows) * sizeof(BestLogit), 0,
        [&] { inner_->merge_argmax(shards, ranks, rows, id_map, tokens); });
}

}  // namespace tessera::bench
