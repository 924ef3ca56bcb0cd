#include "backend/cuda/cuda_backend.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/argmax.h"
#include "backend/cuda/attention.h"
#include "backend/cuda/attention_runner.h"
#include "backend/cuda/cuda_card.h"
#include "backend/cuda/device.h"
#include "backend/cuda/experts.h"
#include "backend/cuda/growing_scratch.h"
#include "backend/cuda/overlap.h"
#include "backend/cuda/partial_attention.h"
#include "backend/cuda/products.h"
#include "backend/cuda/row_ops.h"
#include "backend/cuda/sampler.h"
#include "backend/cuda/stream_wait.h"
#include "backend/cuda/weight_store.h"
#include "backend/cuda_layout/cuda_scratch.h"
#include "base/check.h"

namespace tessera {
namespace cuda {
namespace {

Stream make_stream_on(int device) {
  TS_CUDA(cudaSetDevice(device));
  return make_stream();
}

void check_shape(const Tensor& tensor, std::int64_t rows, std::int64_t cols) {
  TS_CHECK(tensor.rows == rows && tensor.cols == cols, tensor.rows, rows, tensor.cols, cols);
}
void check_f32(const Tensor& tensor, std::int64_t rows, std::int64_t cols) {
  TS_CHECK(tensor.dtype == DType::kF32, name_of(tensor.dtype));
  check_shape(tensor, rows, cols);
}

class GraphRecording final : public Recording {
 public:
  GraphRecording(GraphExec graph, cudaStream_t stream, StreamWait& wait, AttentionRunner& attention)
      : graph_(std::move(graph)), stream_(stream), wait_(wait), attention_(attention) {}
  void replay() override {
    wait_.replayed();
    attention_.forget_plan();  // the recording makes its own, in the same workspace
    TS_CUDA(cudaGraphLaunch(graph_.get(), stream_));
  }

 private:
  GraphExec graph_;
  cudaStream_t stream_;
  StreamWait& wait_;
  AttentionRunner& attention_;
};

class CudaBackend final : public Backend {
 public:
  CudaBackend(const CudaOptions& options, const std::string& card)
      : options_(options),
        stream_(make_stream_on(options.device)),
        side_(make_stream_on(options.device)),
        forked_(make_event()),
        joined_(make_event()),
        traits_(traits_of(options.device)),
        hopper_(traits_.capability == 90 && !options.portable
                    ? std::optional<ManyDevice>(many_device(traits_.multiprocessors))
                    : std::nullopt),
        name_("cuda:" + std::to_string(options.device) + " (" + card +
              (options.exact ? ", f32)" : ", bf16)")),
        wait_(options.device, stream_.get(), options.patience),
        weights_(stream_.get(), {.keep_f32 = options.exact, .readers = options.load_threads}),
        attention_(
            stream_.get(), wait_, traits_,
            {.batch_invariant = options.batch_invariant, .portable = options.portable, .hopper = hopper()}),
        sampler_(stream_.get(), wait_) {}

  DeviceStream& device_stream() { return wait_; }

  std::string name() const override { return name_; }
  DType activation_dtype() const override { return options_.exact ? DType::kF32 : DType::kBF16; }

  Buffer allocate(std::size_t bytes) override {
    enter();
    return count_.count(allocate_zeroed(bytes), static_cast<std::int64_t>(bytes), &DeviceMemory::buffers);
  }
  Weight prepare(std::span<const HostMatrix> row_parts) override {
    enter();
    return count_weight(weights_.matrix(row_parts));
  }
  WeightStack prepare_stack(std::int64_t count,
                            const std::function<std::vector<HostMatrix>(std::int64_t)>& parts) override {
    enter();
    return count_weight(weights_.stack(count, parts));
  }
  WeightStack prepare_stack_f32(WeightFormat format, std::int64_t count, std::int64_t out, std::int64_t in,
                                std::span<const float> values) override {
    enter();
    return count_weight(weights_.stack_of_values(format, count, out, in, values));
  }
  VectorWeight prepare_vector(std::span<const float> values) override {
    VectorWeight vector;
    vector.size = static_cast<std::int64_t>(values.size());
    enter();
    vector.storage = count_.count(weights_.vector(values), static_cast<std::int64_t>(values.size_bytes()),
                                  &DeviceMemory::weights);
    vector.data = static_cast<const float*>(vector.storage.get());
    return vector;
  }
  RopeTable prepare_rope(std::int64_t positions, std::span<const float> frequencies,
                         float multiplier) override {
    const auto pairs = static_cast<std::int64_t>(frequencies.size());
    const auto size = static_cast<std::size_t>(positions * pairs);
    std::vector<float> values(2 * size);
    for (std::size_t i = 0; i < size; ++i) {
      // The angle is rounded to f32, as the models were trained; its cosine and sine are exact.
      const float angle = static_cast<float>(i / frequencies.size()) * frequencies[i % frequencies.size()];
      values[i] = static_cast<float>(std::cos(static_cast<double>(angle))) * multiplier;
      values[size + i] = static_cast<float>(std::sin(static_cast<double>(angle))) * multiplier;
    }
    RopeTable table;
    table.positions = positions;
    table.pairs = pairs;
    enter();
    table.storage =
        count_.count(weights_.vector(values), static_cast<std::int64_t>(values.size() * sizeof(float)),
                     &DeviceMemory::rope_tables);
    table.cos = static_cast<const float*>(table.storage.get());
    table.sin = table.cos + size;
    return table;
  }

  void copy_to_device(void* device, const void* host, std::size_t bytes) override {
    if (bytes == 0) return;
    enter();
    attention_.forget_plan();
    TS_CUDA(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream_.get()));
  }
  void copy_to_host(void* host, const void* device, std::size_t bytes) override {
    if (bytes == 0) return;
    enter();
    TS_CUDA(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream_.get()));
  }
  void synchronise() override {
    enter();
    wait_.wait();
  }

  std::unique_ptr<Recording> record(const std::function<void()>& work) override {
    enter();
    attention_.forget_plan();
    TS_CUDA(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal));
    work();
    attention_.forget_plan();
    cudaGraph_t captured = nullptr;
    TS_CUDA(cudaStreamEndCapture(stream_.get(), &captured));
    const Graph graph(captured);
    cudaGraphExec_t executable = nullptr;
    TS_CUDA(cudaGraphInstantiate(&executable, graph.get(), 0));
    return std::make_unique<GraphRecording>(GraphExec(executable), stream_.get(), wait_, attention_);
  }

  void aside(std::int64_t rows) override {
    if (rows > kMostRowsAside) return;
    enter();
    TS_CUDA(cudaEventRecord(forked_.get(), stream_.get()));
    TS_CUDA(cudaStreamWaitEvent(side_.get(), forked_.get(), 0));
    std::swap(stream_, side_);
    is_forked_ = true;
    starts_late() = true;
  }
  void back() override {
    if (!is_forked_) return;
    TS_CUDA(cudaEventRecord(joined_.get(), stream_.get()));
    std::swap(stream_, side_);
    starts_late() = false;
  }
  void join() override {
    if (!is_forked_) return;
    is_forked_ = false;
    TS_CUDA(cudaStreamWaitEvent(stream_.get(), joined_.get(), 0));
    starts_late() = true;
  }

  void embed(const std::int32_t* ids, const Weight& table, std::int64_t first, const Tensor& out) override {
    check_activation(out, out.rows, table.in);
    enter();
    launch_embed(ids, tiled(table), first, out, stream_.get());
  }
  void rms_norm(const Tensor& x, const VectorWeight& weight, float eps, const Tensor& out) override {
    check_activation(x, x.rows, weight.size);
    check_activation(out, x.rows, weight.size);
    enter();
    launch_rms_norm(x, {}, weight.data, eps, out, stream_.get());
  }
  void add_rms_norm(const Tensor& residual, const Tensor& delta, const VectorWeight& weight, float eps,
                    const Tensor& out) override {
    check_activation(residual, residual.rows, weight.size);
    check_activation(delta, residual.rows, weight.size);
    check_activation(out, residual.rows, weight.size);
    enter();
    launch_rms_norm(residual, delta, weight.data, eps, out, stream_.get());
  }
  void add(const Tensor& x, const Tensor& y, const Tensor& out) override {
    check_activation(x, out.rows, out.cols);
    check_activation(y, out.rows, out.cols);
    check_activation(out, out.rows, out.cols);
    enter();
    launch_add(x, y, out, stream_.get());
  }
  void linear(const Tensor& x, const Weight& weight, const Tensor& out) override {
    check_activation(x, x.rows, weight.in);
    check_result(out, x.rows, weight.out);
    enter();
    run_linear_heads(x, 0, tiled(weight), out, 0, choice(), stream_.get());
  }
  void linear_heads(const Tensor& x, std::int64_t x_head_stride, const WeightStack& weight, const Tensor& out,
                    std::int64_t out_head_stride) override {
    check_activation(x, x.rows, x.cols);
    check_result(out, x.rows, out.cols);
    TS_CHECK(x.cols >= (weight.count - 1) * x_head_stride + weight.in, x.cols, x_head_stride, weight.count,
             weight.in);
    TS_CHECK(out.cols >= (weight.count - 1) * out_head_stride + weight.out, out.cols, out_head_stride,
             weight.count, weight.out);
    enter();
    run_linear_heads(x, x_head_stride, tiled(weight), out, out_head_stride, choice(), stream_.get());
  }
  void gated_linear(const Tensor& x, const Weight& weight, const Tensor& scratch,
                    const Tensor& out) override {
    check_activation(x, x.rows, weight.in);
    check_activation(out, x.rows, weight.out / 2);
    enter();
    if (!run_gated_linear(x, tiled(weight), out, choice(), stream_.get()))
      Backend::gated_linear(x, weight, scratch, out);
  }
  void silu_mul(const Tensor& gate_up, const Tensor& out) override {
    check_activation(gate_up, out.rows, 2 * out.cols);
    check_activation(out, out.rows, out.cols);
    enter();
    launch_silu_mul(gate_up, out, stream_.get());
  }
  void gather_rows(const Tensor& x, const std::int32_t* rows, const Tensor& out) override {
    TS_CHECK(x.dtype == out.dtype && x.cols == out.cols, name_of(x.dtype), name_of(out.dtype), x.cols,
             out.cols);
    enter();
    launch_copy_rows(x, rows, out, stream_.get());
  }
  void copy(const Tensor& x, const Tensor& out) override {
    TS_CHECK(x.dtype == out.dtype, name_of(x.dtype), name_of(out.dtype));
    check_shape(x, out.rows, out.cols);
    enter();
    launch_copy_rows(x, nullptr, out, stream_.get());
  }

  void rope(const Tensor& x, std::int64_t heads, std::int64_t head_stride, const std::int32_t* positions,
            const RopeTable& table, RopePairs pairs) override {
    check_activation(x, x.rows, x.cols);
    TS_CHECK(heads == 0 || x.cols >= (heads - 1) * head_stride + 2 * table.pairs, x.cols, heads, head_stride,
             table.pairs);
    enter();
    launch_rope(x, heads, head_stride, positions, table, pairs, stream_.get());
  }
  void write_kv_mla(const Tensor& latent, const Tensor& rope_key, const AttentionBatch& batch,
                    const KvLayer& kv) override {
    check_activation(latent, batch.tokens, kv.shape.latent);
    check_activation(rope_key, batch.tokens, kv.shape.rope);
    enter();
    launch_write_kv(latent, rope_key, batch, kv, stream_.get());
  }
  void store_mla(const MlaRows& rows, const VectorWeight& latent_norm, float eps, const RopeTable& table,
                 const AttentionBatch& batch, const KvLayer& kv) override {
    check_activation(rows.latent, batch.tokens, kv.shape.latent);
    check_activation(rows.rope_key, batch.tokens, kv.shape.rope);
    check_activation(rows.q_rope, batch.tokens * rows.heads, 2 * table.pairs);
    check_activation(rows.q_rotated, batch.tokens * rows.heads, 2 * table.pairs);
    TS_CHECK(kv.shape.rope == 2 * table.pairs && latent_norm.size == kv.shape.latent, kv.shape.rope,
             table.pairs, latent_norm.size, kv.shape.latent);
    enter();
    launch_store_mla(rows, latent_norm, eps, table, batch, kv, stream_.get());
  }
  void mla_decode(const Tensor& q, std::int64_t heads, float scale, const AttentionBatch& batch,
                  const KvLayer& kv, const Tensor& out, const Tensor& lse) override {
    check_activation(q, batch.tokens, heads * (kv.shape.latent + kv.shape.rope));
    check_activation(out, batch.tokens, heads * kv.shape.latent);
    check_lse(lse, batch.tokens, heads);
    enter();
    attention_.mla_decode(q, heads, scale, batch, kv, out, lse);
  }
  void mla_prefill(const Tensor& q, std::int64_t heads, float scale, const AttentionBatch& batch,
                   const KvLayer& kv, const WeightStack& k_up, const WeightStack& v_up, const Tensor& out,
                   const Tensor& lse) override {
    TS_CHECK(k_up.count == heads && v_up.count == heads && k_up.in == kv.shape.latent &&
                 v_up.in == kv.shape.latent,
             k_up.count, v_up.count, heads, k_up.in, v_up.in, kv.shape.latent);
    check_activation(q, batch.tokens, heads * (k_up.out + kv.shape.rope));
    check_activation(out, batch.tokens, heads * v_up.out);
    check_lse(lse, batch.tokens, heads);
    enter();
    attention_.mla_prefill(q, heads, scale, batch, kv, k_up, v_up, out, lse);
  }
  void write_kv_gqa(const Tensor& keys, const Tensor& values, const AttentionBatch& batch,
                    const KvLayer& kv) override {
    const std::int64_t width = std::int64_t{kv.shape.kv_heads} * kv.shape.head_dim;
    check_activation(keys, batch.tokens, width);
    check_activation(values, batch.tokens, width);
    TS_CHECK(kv.format != KvFormat::kFp8Grouped, name_of(kv.format));
    enter();
    launch_write_kv(keys, values, batch, kv, stream_.get());
  }
  void gqa_attention(const Tensor& q, std::int64_t heads, float scale, const AttentionBatch& batch,
                     const KvLayer& kv, const Tensor& out, const Tensor& lse) override {
    check_activation(q, batch.tokens, heads * kv.shape.head_dim);
    check_activation(out, batch.tokens, heads * kv.shape.head_dim);
    check_lse(lse, batch.tokens, heads);
    TS_CHECK(kv.shape.kv_heads > 0 && heads % kv.shape.kv_heads == 0, heads, kv.shape.kv_heads);
    enter();
    launch_cached_attention({.heads = heads,
                             .kv_heads = kv.shape.kv_heads,
                             .key_dim = kv.shape.head_dim,
                             .value_dim = kv.shape.head_dim,
                             .value_first = kv.shape.kv_heads * kv.shape.head_dim,
                             .scale = scale},
                            q, batch, kv, out, lse, stream_.get());
  }

  void merge_partials(const Parts& outs, const Parts& lses, std::int64_t heads, const Tensor& out,
                      const Tensor& lse) override {
    check_activation(outs.first, out.rows, out.cols);
    check_f32(lses.first, out.rows, heads);
    check_activation(out, out.rows, out.cols);
    check_lse(lse, out.rows, heads);
    TS_CHECK(outs.count == lses.count && out.cols % heads == 0, outs.count, lses.count, out.cols, heads);
    enter();
    launch_merge_partials(outs, lses, heads, out, lse, stream_.get());
  }
  void weigh_partial(const Parts& lses, std::int64_t own, std::int64_t heads, const Tensor& x) override {
    check_f32(lses.first, x.rows, heads);
    check_activation(x, x.rows, x.cols);
    enter();
    launch_weigh_partial(lses, own, heads, x, stream_.get());
  }
  void copy_blocks(const KvLayer& kv, const std::int32_t* blocks, std::int64_t count, void* out) override {
    enter();
    launch_copy_blocks(kv, blocks, count, out, stream_.get());
  }

  void route_experts(const Tensor& logits, const VectorWeight& bias, const RoutingRule& rule,
                     const Tensor& ids, const Tensor& weights) override {
    check_f32(logits, logits.rows, bias.size);
    check_f32(weights, logits.rows, rule.top_k);
    TS_CHECK(ids.dtype == DType::kI32, name_of(ids.dtype));
    check_shape(ids, logits.rows, rule.top_k);
    enter();
    launch_route_experts(logits, bias.data, rule, ids, weights, stream_.get());
  }
  void moe(const Tensor& x, const Tensor& ids, const Tensor& weights, std::int64_t first_expert,
           const WeightStack& gate_up, const WeightStack& down, const Tensor& out) override {
    check_activation(x, x.rows, gate_up.in);
    check_activation(out, x.rows, down.out);
    check_f32(weights, x.rows, ids.cols);
    TS_CHECK(ids.dtype == DType::kI32 && ids.rows == x.rows, name_of(ids.dtype), ids.rows, x.rows);
    TS_CHECK(gate_up.count == down.count && gate_up.out == 2 * down.in && gate_up.count <= kMostExperts,
             gate_up.count, down.count, gate_up.out, down.in);
    if (x.rows == 0) return;
    enter();
    const ExpertLimits limits{.tokens = x.rows, .top_k = ids.cols, .width = down.in, .hidden = down.out};
    const std::size_t bytes = expert_layout(limits, x.dtype).bytes;
    run_experts({.x = x,
                 .ids = ids,
                 .weights = weights,
                 .first_expert = first_expert,
                 .gate_up = tiled(gate_up),
                 .down = tiled(down),
                 .out = out},
                experts_.at_least(bytes), bytes,
                {.batch_invariant = options_.batch_invariant, .hopper = hopper()}, stream_.get());
  }

  void sample(const Tensor& logits, std::span<const SamplingRow> rows,
              std::span<SampledToken> results) override {
    verify(logits, rows, {}, results);
  }
  void verify(const Tensor& logits, std::span<const SamplingRow> rows, std::span<const DraftDraw> drafts,
              std::span<SampledToken> results) override {
    check_f32(logits, static_cast<std::int64_t>(rows.size()), logits.cols);
    TS_CHECK(results.size() == rows.size(), results.size(), rows.size());
    TS_CHECK(drafts.empty() || drafts.size() == rows.size(), drafts.size(), rows.size());
    enter();
    sampler_.sample(logits, rows, drafts, results);
  }
  void logprobs(const Tensor& logits, std::span<const std::int32_t> targets, std::int32_t top,
                std::span<SampledToken> results) override {
    check_f32(logits, static_cast<std::int64_t>(targets.size()), logits.cols);
    TS_CHECK(results.size() == targets.size(), results.size(), targets.size());
    enter();
    sampler_.score(logits, targets, top, results);
  }

  void argmax_shard(const Tensor& logits, std::int32_t first_token, BestLogit* best) override {
    check_f32(logits, logits.rows, logits.cols);
    if (logits.rows == 0) return;
    enter();
    launch_argmax(logits, first_token, best, argmax_.at_least(kArgmaxScratchBytes), stream_.get());
  }
  void merge_argmax(const BestLogit* shards, std::int64_t ranks, std::int64_t rows,
                    const std::int32_t* id_map, std::int32_t* tokens) override {
    if (rows == 0) return;
    enter();
    launch_merge_argmax(shards, ranks, rows, id_map, tokens, stream_.get());
  }

  std::size_t reserve(const Limits& limits) override {
    enter();
    weights_.loading_is_over();
    const CudaScratch scratch = cuda_scratch(
        {&limits, 1},
        {.device = traits_, .activation = activation_dtype(), .batch_invariant = options_.batch_invariant});
    if (limits.heads > 0) attention_.reserve(scratch.attention, limits);
    experts_.at_least(scratch.experts);
    if (limits.vocab > 0) {
      sampler_.reserve(limits.vocab, limits.kv_tokens);
      argmax_.at_least(scratch.argmax);
    }
    return scratch_bytes();
  }
  DeviceMemory held() const override {
    DeviceMemory memory = count_.held();
    memory.scratch = static_cast<std::int64_t>(scratch_bytes());
    return memory;
  }

 private:
  // Threads other than the one that made the back-end may drive it.
  void enter() const { TS_CUDA(cudaSetDevice(options_.device)); }
  std::size_t scratch_bytes() const {
    return attention_.scratch_bytes() + experts_.capacity() + argmax_.capacity() + sampler_.scratch_bytes();
  }
  template <class W>
  W count_weight(W weight) {
    const std::int64_t bytes = weight.bytes;
    return count_.count_storage(std::move(weight), bytes, &DeviceMemory::weights);
  }
  const ManyDevice* hopper() const { return hopper_ ? &*hopper_ : nullptr; }
  ProductChoice choice() {
    return {.multiprocessors = traits_.multiprocessors,
            .batch_invariant = options_.batch_invariant,
            .hopper = hopper(),
            .order = &experts_};
  }
  void check_activation(const Tensor& tensor, std::int64_t rows, std::int64_t cols) const {
    TS_CHECK(tensor.dtype == activation_dtype(), name_of(tensor.dtype), name_of(activation_dtype()));
    check_shape(tensor, rows, cols);
  }
  void check_result(const Tensor& tensor, std::int64_t rows, std::int64_t cols) const {
    TS_CHECK(tensor.dtype == activation_dtype() || tensor.dtype == DType::kF32, name_of(tensor.dtype));
    check_shape(tensor, rows, cols);
  }
  static void check_lse(const Tensor& lse, std::int64_t tokens, std::int64_t heads) {
    if (lse.data != nullptr) check_f32(lse, tokens, heads);
  }

  // Rows whose products use no scratch, so that two may run at a time.
  static constexpr std::int64_t kMostRowsAside = 16;

  CudaOptions options_;
  Stream stream_;
  Stream side_;  // between aside() and back() the two have changed places
  Event forked_;
  Event joined_;
  bool is_forked_ = false;
  DeviceTraits traits_;
  std::optional<ManyDevice> hopper_;  // where its products are used
  std::string name_;
  BufferCount count_;
  StreamWait wait_;
  WeightStore weights_;
  AttentionRunner attention_;
  GrowingScratch experts_;
  GrowingScratch argmax_;
  Sampler sampler_;
};

}  // namespace
}  // namespace cuda

Result<std::unique_ptr<Backend>> make_cuda_backend(const CudaOptions& options) {
  TS_TRY(const CudaCard card, cuda_card(options.device));
  try {
    return std::unique_ptr<Backend>(std::make_unique<cuda::CudaBackend>(options, card.name));
  } catch (const cuda::DeviceError& error) {
    return Error{ErrorKind::kUnavailable, "cuda:" + std::to_string(options.device), error.what()};
  }
}

DeviceStream& cuda_stream_of(Backend& backend) {
  auto* const cuda_backend = dynamic_cast<cuda::CudaBackend*>(&backend);
  TS_CHECK(cuda_backend != nullptr, backend.name());
  return cuda_backend->device_stream();
}

}  // namespace tessera
