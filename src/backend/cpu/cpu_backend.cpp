#include "backend/cpu/cpu_backend.h"

#include <sched.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <utility>

#include "backend/cpu/cached_attention.h"
#include "backend/cpu/expanded_attention.h"
#include "backend/cpu/expert_routing.h"
#include "backend/cpu/experts.h"
#include "backend/cpu/kv_rows.h"
#include "backend/cpu/linear.h"
#include "backend/cpu/logits_row.h"
#include "backend/cpu/merge.h"
#include "backend/cpu/packed_matrix.h"
#include "backend/cpu/panel_product.h"
#include "backend/cpu/prepare.h"
#include "backend/cpu/row_ops.h"
#include "backend/cpu/sampler.h"
#include "backend/cpu/thread_pool.h"
#include "base/check.h"

namespace tessera {

int usable_cores() {
  cpu_set_t cores;
  if (sched_getaffinity(0, sizeof(cores), &cores) == 0) return std::max(1, CPU_COUNT(&cores));
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

namespace {

void check_f32(const Tensor& tensor, std::int64_t rows, std::int64_t cols) {
  TS_CHECK(tensor.dtype == DType::kF32, name_of(tensor.dtype));
  TS_CHECK(tensor.rows == rows && tensor.cols == cols, tensor.rows, rows, tensor.cols, cols);
}

void check_batch(const AttentionBatch& batch, const Tensor& rows) {
  TS_CHECK(batch.tokens == rows.rows, batch.tokens, rows.rows);
}

// lse is [tokens, heads] f32, or absent.
void check_lse(const Tensor& lse, std::int64_t tokens, std::int64_t heads) {
  if (lse.data != nullptr) check_f32(lse, tokens, heads);
}

class CpuBackend final : public Backend {
 public:
  CpuBackend(int threads, std::function<void()> before_copy)
      : pool_(threads), before_copy_(std::move(before_copy)) {
    samplers_.resize(static_cast<std::size_t>(threads));
  }

  std::string name() const override {
    const std::string threads = std::to_string(pool_.size()) + (pool_.size() == 1 ? " thread" : " threads");
    return std::string("cpu (") + instruction_set() + ", " + threads + ")";
  }
  DType activation_dtype() const override { return DType::kF32; }

  Buffer allocate(std::size_t bytes) override {
    return count_.count(allocate_zeroed(bytes), static_cast<std::int64_t>(bytes), &DeviceMemory::buffers);
  }
  Weight prepare(std::span<const HostMatrix> row_parts) override {
    return count_weight(prepare_weight(pool_, row_parts));
  }
  WeightStack prepare_stack(std::int64_t count,
                            const std::function<std::vector<HostMatrix>(std::int64_t)>& parts) override {
    return count_weight(prepare_weight_stack(pool_, count, parts));
  }
  WeightStack prepare_stack_f32(WeightFormat format, std::int64_t count, std::int64_t out, std::int64_t in,
                                std::span<const float> values) override {
    return count_weight(prepare_stack_of_values(pool_, format, count, out, in, values));
  }
  VectorWeight prepare_vector(std::span<const float> values) override {
    return count_.count_storage(prepare_values(values), static_cast<std::int64_t>(values.size_bytes()),
                                &DeviceMemory::weights);
  }
  RopeTable prepare_rope(std::int64_t positions, std::span<const float> frequencies,
                         float multiplier) override {
    const std::int64_t bytes = 2 * positions * static_cast<std::int64_t>(frequencies.size_bytes());
    return count_.count_storage(prepare_rope_table(pool_, positions, frequencies, multiplier), bytes,
                                &DeviceMemory::rope_tables);
  }

  void copy_to_device(void* device, const void* host, std::size_t bytes) override {
    if (before_copy_) before_copy_();
    if (bytes > 0) std::memcpy(device, host, bytes);
  }
  void copy_to_host(void* host, const void* device, std::size_t bytes) override {
    if (before_copy_) before_copy_();
    if (bytes > 0) std::memcpy(host, device, bytes);
  }
  void synchronise() override {}

  void embed(const std::int32_t* ids, const Weight& table, std::int64_t first, const Tensor& out) override {
    check_f32(out, out.rows, table.in);
    const PackedMatrix matrix = packed(table);
    each_row(out.rows, table.in, [&](std::int64_t t) {
      const std::int64_t row = ids[t] - first;
      if (row >= 0 && row < table.out) {
        unpack_row(matrix, row, out.row<float>(t));
      } else {
        std::fill_n(out.row<float>(t), table.in, 0.0F);
      }
    });
  }

  void rms_norm(const Tensor& x, const VectorWeight& weight, float eps, const Tensor& out) override {
    check_f32(x, x.rows, weight.size);
    check_f32(out, x.rows, weight.size);
    each_row(x.rows, x.cols, [&](std::int64_t t) {
      rms_norm_row(x.row<float>(t), weight.data, x.cols, eps, out.row<float>(t));
    });
  }

  void add_rms_norm(const Tensor& residual, const Tensor& delta, const VectorWeight& weight, float eps,
                    const Tensor& out) override {
    check_f32(residual, residual.rows, weight.size);
    check_f32(delta, residual.rows, weight.size);
    check_f32(out, residual.rows, weight.size);
    each_row(residual.rows, residual.cols, [&](std::int64_t t) {
      add_rms_norm_row(residual.row<float>(t), delta.row<float>(t), weight.data, residual.cols, eps,
                       out.row<float>(t));
    });
  }

  void add(const Tensor& x, const Tensor& y, const Tensor& out) override {
    check_f32(x, x.rows, x.cols);
    check_f32(y, x.rows, x.cols);
    check_f32(out, x.rows, x.cols);
    each_row(x.rows, x.cols,
             [&](std::int64_t t) { add_row(x.row<float>(t), y.row<float>(t), x.cols, out.row<float>(t)); });
  }

  void linear(const Tensor& x, const Weight& weight, const Tensor& out) override {
    check_f32(x, x.rows, weight.in);
    check_f32(out, x.rows, weight.out);
    if (x.rows == 0) return;
    tessera::linear(pool_, packed(weight),
                    {.x = x.row<float>(0),
                     .x_stride = x.stride,
                     .y = out.row<float>(0),
                     .y_stride = out.stride,
                     .rows = x.rows});
  }

  void linear_heads(const Tensor& x, std::int64_t x_head_stride, const WeightStack& weight, const Tensor& out,
                    std::int64_t out_head_stride) override {
    check_f32(x, x.rows, x.cols);
    check_f32(out, x.rows, out.cols);
    TS_CHECK(x.cols >= (weight.count - 1) * x_head_stride + weight.in, x.cols, x_head_stride, weight.count,
             weight.in);
    TS_CHECK(out.cols >= (weight.count - 1) * out_head_stride + weight.out, out.cols, out_head_stride,
             weight.count, weight.out);
    if (x.rows == 0) return;
    const std::int64_t items = linear_items(packed(weight, 0), x.rows);
    const auto run = [&](ItemRange range, int) {
      for (std::int64_t i = range.first; i < range.last; ++i) {
        const std::int64_t head = i / items;
        run_linear_item(packed(weight, head),
                        {.x = x.row<float>(0) + head * x_head_stride,
                         .x_stride = x.stride,
                         .y = out.row<float>(0) + head * out_head_stride,
                         .y_stride = out.stride,
                         .rows = x.rows},
                        i % items);
      }
    };
    split_if_worth(weight.count * items, weight.count * weight.in * weight.out * x.rows, run);
  }

  void silu_mul(const Tensor& gate_up, const Tensor& out) override {
    check_f32(gate_up, gate_up.rows, 2 * out.cols);
    check_f32(out, gate_up.rows, out.cols);
    each_row(out.rows, out.cols, [&](std::int64_t t) {
      const float* gate = gate_up.row<float>(t);
      silu_mul_row(gate, gate + out.cols, out.cols, out.row<float>(t));
    });
  }

  void gather_rows(const Tensor& x, const std::int32_t* rows, const Tensor& out) override {
    TS_CHECK(x.dtype == out.dtype && x.cols == out.cols, name_of(x.dtype), name_of(out.dtype), x.cols,
             out.cols);
    for (std::int64_t i = 0; i < out.rows; ++i) {
      TS_CHECK(rows[i] >= 0 && rows[i] < x.rows, i, rows[i], x.rows);
      copy_row(x, rows[i], out, i);
    }
  }

  void copy(const Tensor& x, const Tensor& out) override {
    TS_CHECK(x.dtype == out.dtype && x.rows == out.rows && x.cols == out.cols, x.rows, out.rows, x.cols,
             out.cols);
    for (std::int64_t i = 0; i < out.rows; ++i) copy_row(x, i, out, i);
  }

  void rope(const Tensor& x, std::int64_t heads, std::int64_t head_stride, const std::int32_t* positions,
            const RopeTable& table, RopePairs pairs) override {
    check_f32(x, x.rows, x.cols);
    TS_CHECK(heads == 0 || x.cols >= (heads - 1) * head_stride + 2 * table.pairs, x.cols, heads, head_stride,
             table.pairs);
    each_row(x.rows, heads * 2 * table.pairs, [&](std::int64_t t) {
      TS_CHECK(positions[t] >= 0 && positions[t] < table.positions, t, positions[t], table.positions);
      const float* cos = table.cos + positions[t] * table.pairs;
      const float* sin = table.sin + positions[t] * table.pairs;
      for (std::int64_t h = 0; h < heads; ++h) {
        float* head = x.row<float>(t) + h * head_stride;
        if (pairs == RopePairs::kInterleaved) {
          rotate_interleaved(head, cos, sin, table.pairs);
        } else {
          rotate_halves(head, cos, sin, table.pairs);
        }
      }
    });
  }

  void write_kv_mla(const Tensor& latent, const Tensor& rope_key, const AttentionBatch& batch,
                    const KvLayer& kv) override {
    check_f32(latent, batch.tokens, kv.shape.latent);
    check_f32(rope_key, batch.tokens, kv.shape.rope);
    each_row(batch.tokens, kv.shape.values(), [&](std::int64_t t) {
      const std::int64_t slot = batch.slots[t];
      if (slot < 0) return;
      if (kv.format == KvFormat::kFp8Grouped) {
        write_grouped_row(kv, slot, latent.row<float>(t), rope_key.row<float>(t));
        return;
      }
      write_row_values(kv, slot, 0, kv.shape.latent, latent.row<float>(t));
      write_row_values(kv, slot, kv.shape.latent, kv.shape.rope, rope_key.row<float>(t));
    });
  }

  void mla_decode(const Tensor& q, std::int64_t heads, float scale, const AttentionBatch& batch,
                  const KvLayer& kv, const Tensor& out, const Tensor& lse) override {
    const std::int64_t latent = kv.shape.latent;
    check_batch(batch, q);
    check_f32(q, batch.tokens, heads * (latent + kv.shape.rope));
    check_f32(out, batch.tokens, heads * latent);
    check_lse(lse, batch.tokens, heads);
    cached_attention(pool_, cached_, mla_heads(heads, latent, kv.shape.rope, scale), q, batch, kv, out, lse);
  }

  void mla_prefill(const Tensor& q, std::int64_t heads, float scale, const AttentionBatch& batch,
                   const KvLayer& kv, const WeightStack& k_up, const WeightStack& v_up, const Tensor& out,
                   const Tensor& lse) override {
    const ExpandedShape shape{.heads = heads,
                              .nope = k_up.out,
                              .rope = kv.shape.rope,
                              .latent = kv.shape.latent,
                              .value = v_up.out};
    TS_CHECK(k_up.count == heads && v_up.count == heads && k_up.in == shape.latent && v_up.in == shape.latent,
             k_up.count, v_up.count, heads, k_up.in, v_up.in, shape.latent);
    check_f32(q, batch.tokens, heads * (shape.nope + shape.rope));
    check_f32(out, batch.tokens, heads * shape.value);
    check_lse(lse, batch.tokens, heads);
    expanded_attention(pool_, expanded_, shape, scale, q, batch, kv, k_up, v_up, out, lse);
  }

  void merge_partials(const Parts& outs, const Parts& lses, std::int64_t heads, const Tensor& out,
                      const Tensor& lse) override {
    check_f32(outs.first, out.rows, out.cols);
    check_f32(lses.first, out.rows, heads);
    check_f32(out, out.rows, out.cols);
    check_lse(lse, out.rows, heads);
    TS_CHECK(outs.count == lses.count && out.cols % heads == 0, outs.count, lses.count, out.cols, heads);
    each_row(out.rows, outs.count * out.cols,
             [&](std::int64_t t) { merge_row(outs, lses, heads, t, out, lse); });
  }
  void weigh_partial(const Parts& lses, std::int64_t own, std::int64_t heads, const Tensor& x) override {
    check_f32(lses.first, x.rows, heads);
    check_f32(x, x.rows, x.cols);
    each_row(x.rows, x.cols, [&](std::int64_t t) { weigh_row(lses, own, heads, t, x); });
  }
  void copy_blocks(const KvLayer& kv, const std::int32_t* blocks, std::int64_t count, void* out) override {
    const std::int64_t bytes = kv.block_size * kv.row_bytes;
    each_row(count, bytes / 4, [&](std::int64_t i) {
      TS_CHECK(blocks[i] >= 0 && blocks[i] < kv.blocks, i, blocks[i], kv.blocks);
      std::memcpy(static_cast<std::byte*>(out) + i * bytes,
                  static_cast<const std::byte*>(kv.data) + blocks[i] * bytes,
                  static_cast<std::size_t>(bytes));
    });
  }

  void write_kv_gqa(const Tensor& keys, const Tensor& values, const AttentionBatch& batch,
                    const KvLayer& kv) override {
    const std::int64_t width = std::int64_t{kv.shape.kv_heads} * kv.shape.head_dim;
    check_f32(keys, batch.tokens, width);
    check_f32(values, batch.tokens, width);
    each_row(batch.tokens, 2 * width, [&](std::int64_t t) {
      if (batch.slots[t] < 0) return;
      write_row_values(kv, batch.slots[t], 0, width, keys.row<float>(t));
      write_row_values(kv, batch.slots[t], width, width, values.row<float>(t));
    });
  }

  void gqa_attention(const Tensor& q, std::int64_t heads, float scale, const AttentionBatch& batch,
                     const KvLayer& kv, const Tensor& out, const Tensor& lse) override {
    check_f32(q, batch.tokens, heads * kv.shape.head_dim);
    check_f32(out, batch.tokens, heads * kv.shape.head_dim);
    check_lse(lse, batch.tokens, heads);
    TS_CHECK(kv.shape.kv_heads > 0 && heads % kv.shape.kv_heads == 0, heads, kv.shape.kv_heads);
    const CachedHeads shape{.heads = heads,
                            .kv_heads = kv.shape.kv_heads,
                            .key_dim = kv.shape.head_dim,
                            .value_dim = kv.shape.head_dim,
                            .scale = scale};
    cached_attention(pool_, cached_, shape, q, batch, kv, out, lse);
  }

  void route_experts(const Tensor& logits, const VectorWeight& bias, const RoutingRule& rule,
                     const Tensor& ids, const Tensor& weights) override {
    check_f32(logits, logits.rows, bias.size);
    check_f32(weights, logits.rows, rule.top_k);
    TS_CHECK(ids.dtype == DType::kI32 && ids.rows == logits.rows && ids.cols == rule.top_k,
             name_of(ids.dtype), ids.rows, logits.rows, ids.cols, rule.top_k);
    TS_CHECK(bias.size <= kMostExperts && rule.groups > 0 && bias.size % rule.groups == 0 &&
                 rule.top_k <= bias.size,
             bias.size, kMostExperts, rule.groups, rule.top_k);
    const auto experts = static_cast<std::size_t>(bias.size);
    const auto top_k = static_cast<std::size_t>(rule.top_k);
    each_row(logits.rows, bias.size * rule.top_k, [&](std::int64_t t) {
      route_token({logits.row<float>(t), experts}, {bias.data, experts}, rule,
                  {ids.row<std::int32_t>(t), top_k}, {weights.row<float>(t), top_k});
    });
  }

  void moe(const Tensor& x, const Tensor& ids, const Tensor& weights, std::int64_t first_expert,
           const WeightStack& gate_up, const WeightStack& down, const Tensor& out) override {
    check_f32(x, x.rows, gate_up.in);
    check_f32(out, x.rows, down.out);
    check_f32(weights, x.rows, ids.cols);
    TS_CHECK(ids.dtype == DType::kI32 && ids.rows == x.rows, name_of(ids.dtype), ids.rows, x.rows);
    TS_CHECK(gate_up.count == down.count && gate_up.out == 2 * down.in, gate_up.count, down.count,
             gate_up.out, down.in);
    run_experts(pool_, experts_, x, ids, weights, first_expert, gate_up, down, out);
  }

  void sample(const Tensor& logits, std::span<const SamplingRow> rows,
              std::span<SampledToken> results) override {
    verify(logits, rows, {}, results);
  }

  // No drafts at all are as many rows without one.
  void verify(const Tensor& logits, std::span<const SamplingRow> rows, std::span<const DraftDraw> drafts,
              std::span<SampledToken> results) override {
    check_f32(logits, static_cast<std::int64_t>(rows.size()), logits.cols);
    TS_CHECK(results.size() == rows.size(), results.size(), rows.size());
    TS_CHECK(drafts.empty() || drafts.size() == rows.size(), drafts.size(), rows.size());
    pool_.split(logits.rows, [&](ItemRange range, int thread) {
      for (std::int64_t r = range.first; r < range.last; ++r) {
        const auto i = static_cast<std::size_t>(r);
        verify_row({logits.row<float>(r), static_cast<std::size_t>(logits.cols)}, rows[i],
                   drafts.empty() ? DraftDraw{} : drafts[i], samplers_[static_cast<std::size_t>(thread)],
                   results[i]);
      }
    });
  }

  void argmax_shard(const Tensor& logits, std::int32_t first_token, BestLogit* best) override {
    check_f32(logits, logits.rows, logits.cols);
    each_row(logits.rows, logits.cols, [&](std::int64_t r) {
      const float* row = logits.row<float>(r);
      const RowPeak top = row_peak(row, logits.cols);
      if (top.has_nan) {
        best[r] = {.value = std::numeric_limits<float>::quiet_NaN(), .token = -1};
      } else if (top.peak == -std::numeric_limits<float>::infinity()) {
        best[r] = {.value = top.peak, .token = -1};
      } else {
        const auto column = std::find(row, row + logits.cols, top.peak) - row;
        best[r] = {.value = top.peak, .token = first_token + static_cast<std::int32_t>(column)};
      }
    });
  }

  void merge_argmax(const BestLogit* shards, std::int64_t ranks, std::int64_t rows,
                    const std::int32_t* id_map, std::int32_t* tokens) override {
    for (std::int64_t r = 0; r < rows; ++r) {
      const std::int32_t token = merged_best(shards, ranks, rows, r).token;
      tokens[r] = id_map != nullptr && token >= 0 ? id_map[token] : token;
    }
  }

  void logprobs(const Tensor& logits, std::span<const std::int32_t> targets, std::int32_t top,
                std::span<SampledToken> results) override {
    check_f32(logits, static_cast<std::int64_t>(targets.size()), logits.cols);
    TS_CHECK(results.size() == targets.size(), results.size(), targets.size());
    pool_.split(logits.rows, [&](ItemRange range, int) {
      for (std::int64_t r = range.first; r < range.last; ++r) {
        const auto i = static_cast<std::size_t>(r);
        row_logprobs({logits.row<float>(r), static_cast<std::size_t>(logits.cols)}, targets[i], top,
                     results[i]);
      }
    });
  }

  std::size_t reserve(const Limits& limits) override {
    const int threads = pool_.size();
    if (limits.tokens > 0 && limits.heads > 0 && limits.head_dim > 0) {
      // Which form of attention will run is not known: the widest of each.
      reserve_cached(cached_, threads, limits.tokens, mla_heads(limits.heads, limits.head_dim, 0, 1));
      reserve_cached(cached_, threads, limits.tokens,
                     {.heads = limits.heads,
                      .kv_heads = limits.heads,
                      .key_dim = limits.head_dim,
                      .value_dim = limits.head_dim});
      reserve_expanded(expanded_, threads, limits.tokens,
                       {.heads = limits.heads,
                        .nope = limits.head_dim,
                        .latent = limits.head_dim,
                        .value = limits.head_dim});
    }
    if (limits.top_k > 0) {
      const std::int64_t gate_up = limits.gate_up > 0 ? limits.gate_up : limits.width;
      reserve_experts(experts_, threads, limits.tokens * limits.top_k, kMostExperts, gate_up);
    }
    if (limits.vocab > 0) {
      for (Scratch& sampler : samplers_) sampler.at_least(sampler_scratch_bytes(limits.vocab));
    }
    return scratch_bytes();
  }
  DeviceMemory held() const override {
    DeviceMemory memory = count_.held();
    memory.scratch = static_cast<std::int64_t>(scratch_bytes());
    return memory;
  }

 private:
  template <class W>
  W count_weight(W weight) {
    const std::int64_t bytes = weight.bytes;
    return count_.count_storage(std::move(weight), bytes, &DeviceMemory::weights);
  }
  static CachedHeads mla_heads(std::int64_t heads, std::int64_t latent, std::int64_t rope, float scale) {
    return {.heads = heads,
            .kv_heads = 1,
            .key_dim = latent + rope,
            .value_dim = latent,
            .value_in_key = true,
            .scale = scale};
  }

  static void copy_row(const Tensor& from, std::int64_t row, const Tensor& to, std::int64_t to_row) {
    const std::int64_t size = bytes_of(from.dtype);
    std::memcpy(static_cast<char*>(to.data) + to_row * to.stride * size,
                static_cast<const char*>(from.data) + row * from.stride * size,
                static_cast<std::size_t>(from.cols * size));
  }

  template <class Body>
  void split_if_worth(std::int64_t items, std::int64_t work, const Body& body) {
    if (work < kWorthSplitting) {
      body(ItemRange{0, items}, 0);
    } else {
      pool_.split(items, body);
    }
  }

  template <class Body>
  void each_row(std::int64_t rows, std::int64_t width, const Body& body) {
    split_if_worth(rows, rows * width, [&](ItemRange range, int) {
      for (std::int64_t r = range.first; r < range.last; ++r) body(r);
    });
  }

  std::size_t scratch_bytes() const {
    std::size_t sum = cached_.items.capacity() + cached_.partials.capacity() + experts_.order.capacity() +
                      experts_.hidden.capacity();
    for (const auto* threads : {&cached_.threads, &expanded_.threads, &experts_.threads, &samplers_}) {
      for (const Scratch& scratch : *threads) sum += scratch.capacity();
    }
    return sum;
  }

  ThreadPool pool_;
  const std::function<void()> before_copy_;  // may be empty
  BufferCount count_;
  CachedScratch cached_;
  ExpandedScratch expanded_;
  ExpertScratch experts_;
  std::vector<Scratch> samplers_;  // [threads]
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options) {
  TS_CHECK(options.threads >= 0, options.threads);
  return std::make_unique<CpuBackend>(options.threads > 0 ? options.threads : usable_cores(),
                                      options.before_copy);
}

}  // namespace tessera
