// A back-end that hands every call on to another one: what benchmarks put around a real back-end to change or
// to watch single calls of it.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "backend/backend.h"

namespace tessera::bench {

class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  std::string name() const override { return inner_->name(); }
  DType activation_dtype() const override { return inner_->activation_dtype(); }

  Buffer allocate(std::size_t bytes) override { return inner_->allocate(bytes); }
  Weight prepare(std::span<const HostMatrix> row_parts) override { return inner_->prepare(row_parts); }
  WeightStack prepare_stack(std::int64_t count,
                            const std::function<std::vector<HostMatrix>(std::int64_t)>& parts) override {
    return inner_->prepare_stack(count, parts);
  }
  WeightStack prepare_stack_f32(WeightFormat format, std::int64_t count, std::int64_t out, std::int64_t in,
                                std::span<const float> values) override {
    return inner_->prepare_stack_f32(format, count, out, in, values);
  }
  VectorWeight prepare_vector(std::span<const float> values) override {
    return inner_->prepare_vector(values);
  }
  RopeTable prepare_rope(std::int64_t positions, std::span<const float> frequencies,
                         float multiplier) override {
    return inner_->prepare_rope(positions, frequencies, multiplier);
  }
  void copy_to_device(void* device, const void* host, std::size_t bytes) override {
    inner_->copy_to_device(device, host, bytes);
  }
  void copy_to_host(void* host, const void* device, std::size_t bytes) override {
    inner_->copy_to_host(host, device, bytes);
  }
  void synchronise() override { inner_->synchronise(); }
  std::unique_ptr<Recording> record(const std::function<void()>& work) override {
    return inner_->record(work);
  }

  void aside(std::int64_t rows) override { inner_->aside(rows); }
  void back() override { inner_->back(); }
  void join() override { inner_->join(); }

  void embed(const std::int32_t* ids, const Weight& table, std::int64_t first, const Tensor& out) override {
    inner_->embed(ids, table, first, out);
  }
  void rms_norm(const Tensor& x, const VectorWeight& weight, float eps, const Tensor& out) override {
    inner_->rms_norm(x, weight, eps, out);
  }
  void add_rms_norm(const Tensor& residual, const Tensor& delta, const VectorWeight& weight, float eps,
                    const Tensor& out) override {
    inner_->add_rms_norm(residual, delta, weight, eps, out);
  }
  void add(const Tensor& x, const Tensor& y, const Tensor& out) override { inner_->add(x, y, out); }
  void linear(const Tensor& x, const Weight& weight, const Tensor& out) override {
    inner_->linear(x, weight, out);
  }
  void linear_heads(const Tensor& x, std::int64_t x_head_stride, const WeightStack& weight, const Tensor& out,
                    std::int64_t out_head_stride) override {
    inner_->linear_heads(x, x_head_stride, weight, out, out_head_stride);
  }
  void gated_linear(const Tensor& x, const Weight& weight, const Tensor& scratch,
                    const Tensor& out) override {
    inner_->gated_linear(x, weight, scratch, out);
  }
  void silu_mul(const Tensor& gate_up, const Tensor& out) override { inner_->silu_mul(gate_up, out); }
  void gather_rows(const Tensor& x, const std::int32_t* rows, const Tensor& out) override {
    inner_->gather_rows(x, rows, out);
  }
  void copy(const Tensor& x, const Tensor& out) override { inner_->copy(x, out); }

  void rope(const Tensor& x, std::int64_t heads, std::int64_t head_stride, const std::int32_t* positions,
            const RopeTable& table, RopePairs pairs) override {
    inner_->rope(x, heads, head_stride, positions, table, pairs);
  }
  void write_kv_mla(const Tensor& latent, const Tensor& rope_key, const AttentionBatch& batch,
                    const KvLayer& kv) override {
    inner_->write_kv_mla(latent, rope_key, batch, kv);
  }
  void store_mla(const MlaRows& rows, const VectorWeight& latent_norm, float eps, const RopeTable& table,
                 const AttentionBatch& batch, const KvLayer& kv) override {
    inner_->store_mla(rows, latent_norm, eps, table, batch, kv);
  }
  void mla_decode(const Tensor& q, std::int64_t heads, float scale, const AttentionBatch& batch,
                  const KvLayer& kv, const Tensor& out, const Tensor& lse) override {
    inner_->mla_decode(q, heads, scale, batch, kv, out, lse);
  }
  void mla_prefill(const Tensor& q, std::int64_t heads, float scale, const AttentionBatch& batch,
                   const KvLayer& kv, const WeightStack& k_up, const WeightStack& v_up, const Tensor& out,
                   const Tensor& lse) override {
    inner_->mla_prefill(q, heads, scale, batch, kv, k_up, v_up, out, lse);
  }
  void write_kv_gqa(const Tensor& keys, const Tensor& values, const AttentionBatch& batch,
                    const KvLayer& kv) override {
    inner_->write_kv_gqa(keys, values, batch, kv);
  }
  void gqa_attention(const Tensor& q, std::int64_t heads, float scale, const AttentionBatch& batch,
                     const KvLayer& kv, const Tensor& out, const Tensor& lse) override {
    inner_->gqa_attention(q, heads, scale, batch, kv, out, lse);
  }
  void split_columns(const Tensor& x, const Parts& parts) override { inner_->split_columns(x, parts); }
  void join_columns(const Parts& parts, const Tensor& x) override { inner_->join_columns(parts, x); }
  void merge_partials(const Parts& outs, const Parts& lses, std::int64_t heads, const Tensor& out,
                      const Tensor& lse) override {
    inner_->merge_partials(outs, lses, heads, out, lse);
  }
  void weigh_partial(const Parts& lses, std::int64_t own, std::int64_t heads, const Tensor& x) override {
    inner_->weigh_partial(lses, own, heads, x);
  }
  void copy_blocks(const KvLayer& kv, const std::int32_t* blocks, std::int64_t count, void* out) override {
    inner_->copy_blocks(kv, blocks, count, out);
  }

  void route_experts(const Tensor& logits, const VectorWeight& bias, const RoutingRule& rule,
                     const Tensor& ids, const Tensor& weights) override {
    inner_->route_experts(logits, bias, rule, ids, weights);
  }
  void moe(const Tensor& x, const Tensor& ids, const Tensor& weights, std::int64_t first_expert,
           const WeightStack& gate_up, const WeightStack& down, const Tensor& out) override {
    inner_->moe(x, ids, weights, first_expert, gate_up, down, out);
  }

  void sample(const Tensor& logits, std::span<const SamplingRow> rows,
              std::span<SampledToken> results) override {
    inner_->sample(logits, rows, results);
  }
  void verify(const Tensor& logits, std::span<const SamplingRow> rows, std::span<const DraftDraw> drafts,
              std::span<SampledToken> results) override {
    inner_->verify(logits, rows, drafts, results);
  }
  void logprobs(const Tensor& logits, std::span<const std::int32_t> targets, std::int32_t top,
                std::span<SampledToken> results) override {
    inner_->logprobs(logits, targets, top, results);
  }
  void argmax_shard(const Tensor& logits, std::int32_t first_token, BestLogit* best) override {
    inner_->argmax_shard(logits, first_token, best);
  }
  void merge_argmax(const BestLogit* shards, std::int64_t ranks, std::int64_t rows,
                    const std::int32_t* id_map, std::int32_t* tokens) override {
    inner_->merge_argmax(shards, ranks, rows, id_map, tokens);
  }

  std::size_t reserve(const Limits& limits) override { return inner_->reserve(limits); }
  DeviceMemory held() const override { return inner_->held(); }

 protected:
  std::unique_ptr<Backend> inner_;
};

}  // namespace tessera::bench
