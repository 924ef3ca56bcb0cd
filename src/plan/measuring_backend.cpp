#include "plan/measuring_backend.h"

#include <utility>
#include <vector>

#include "base/check.h"

namespace tessera {
namespace {

class MeasuringBackend final : public Backend {
 public:
  explicit MeasuringBackend(DeviceModel device) : device_(std::move(device)) {}

  std::string name() const override { return "a plan for " + device_.name; }
  DType activation_dtype() const override { return device_.activation; }

  Buffer allocate(std::size_t bytes) override {
    return count_.count(nowhere(bytes), static_cast<std::int64_t>(bytes), &DeviceMemory::buffers);
  }
  Weight prepare(std::span<const HostMatrix> row_parts) override {
    Weight weight;
    weight.format = row_parts.front().format;
    weight.in = row_parts.front().in;
    for (const HostMatrix& part : row_parts) {
      TS_CHECK(part.format == weight.format && part.in == weight.in, name_of(part.format), part.in);
      weight.out += part.out;
    }
    weight.bytes = device_.stack_bytes(weight.format, 1, weight.out, weight.in);
    return counted(std::move(weight));
  }
  WeightStack prepare_stack(std::int64_t count,
                            const std::function<std::vector<HostMatrix>(std::int64_t)>& parts) override {
    WeightStack stack;
    stack.count = count;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::vector<HostMatrix> rows = parts(i);
      std::int64_t out = 0;
      for (const HostMatrix& part : rows) out += part.out;
      if (i == 0) {
        stack.format = rows.front().format;
        stack.out = out;
        stack.in = rows.front().in;
      }
      TS_CHECK(out == stack.out && rows.front().in == stack.in && rows.front().format == stack.format, i,
               out);
    }
    return sized(std::move(stack));
  }
  WeightStack prepare_stack_f32(WeightFormat format, std::int64_t count, std::int64_t out, std::int64_t in,
                                std::span<const float>) override {
    WeightStack stack;
    stack.format = format;
    stack.count = count;
    stack.out = out;
    stack.in = in;
    return sized(std::move(stack));
  }
  VectorWeight prepare_vector(std::span<const float> values) override {
    VectorWeight vector{.size = static_cast<std::int64_t>(values.size()),
                        .storage = nowhere(values.size_bytes())};
    return count_.count_storage(std::move(vector), static_cast<std::int64_t>(values.size_bytes()),
                                &DeviceMemory::weights);
  }
  RopeTable prepare_rope(std::int64_t positions, std::span<const float> frequencies, float) override {
    const auto pairs = static_cast<std::int64_t>(frequencies.size());
    const std::int64_t bytes = 2 * positions * pairs * 4;
    RopeTable table{
        .positions = positions, .pairs = pairs, .storage = nowhere(static_cast<std::size_t>(bytes))};
    return count_.count_storage(std::move(table), bytes, &DeviceMemory::rope_tables);
  }
  std::size_t reserve(const Limits& limits) override {
    reserved_.push_back(limits);
    scratch_ = device_.reserve_bytes(reserved_);
    return scratch_;
  }
  DeviceMemory held() const override {
    DeviceMemory memory = count_.held();
    memory.scratch = static_cast<std::int64_t>(scratch_);
    return memory;
  }
  void copy_to_device(void*, const void*, std::size_t) override {}  // tables that are made at start
  void copy_to_host(void*, const void*, std::size_t) override { no_work(); }
  void synchronise() override {}

  void embed(const std::int32_t*, const Weight&, std::int64_t, const Tensor&) override { no_work(); }
  void rms_norm(const Tensor&, const VectorWeight&, float, const Tensor&) override { no_work(); }
  void add_rms_norm(const Tensor&, const Tensor&, const VectorWeight&, float, const Tensor&) override {
    no_work();
  }
  void add(const Tensor&, const Tensor&, const Tensor&) override { no_work(); }
  void linear(const Tensor&, const Weight&, const Tensor&) override { no_work(); }
  void linear_heads(const Tensor&, std::int64_t, const WeightStack&, const Tensor&, std::int64_t) override {
    no_work();
  }
  void silu_mul(const Tensor&, const Tensor&) override { no_work(); }
  void gather_rows(const Tensor&, const std::int32_t*, const Tensor&) override { no_work(); }
  void copy(const Tensor&, const Tensor&) override { no_work(); }
  void rope(const Tensor&, std::int64_t, std::int64_t, const std::int32_t*, const RopeTable&,
            RopePairs) override {
    no_work();
  }
  void write_kv_mla(const Tensor&, const Tensor&, const AttentionBatch&, const KvLayer&) override {
    no_work();
  }
  void mla_decode(const Tensor&, std::int64_t, float, const AttentionBatch&, const KvLayer&, const Tensor&,
                  const Tensor&) override {
    no_work();
  }
  void mla_prefill(const Tensor&, std::int64_t, float, const AttentionBatch&, const KvLayer&,
                   const WeightStack&, const WeightStack&, const Tensor&, const Tensor&) override {
    no_work();
  }
  void write_kv_gqa(const Tensor&, const Tensor&, const AttentionBatch&, const KvLayer&) override {
    no_work();
  }
  void gqa_attention(const Tensor&, std::int64_t, float, const AttentionBatch&, const KvLayer&, const Tensor&,
                     const Tensor&) override {
    no_work();
  }
  void merge_partials(const Parts&, const Parts&, std::int64_t, const Tensor&, const Tensor&) override {
    no_work();
  }
  void weigh_partial(const Parts&, std::int64_t, std::int64_t, const Tensor&) override { no_work(); }
  void copy_blocks(const KvLayer&, const std::int32_t*, std::int64_t, void*) override { no_work(); }
  void route_experts(const Tensor&, const VectorWeight&, const RoutingRule&, const Tensor&,
                     const Tensor&) override {
    no_work();
  }
  void moe(const Tensor&, const Tensor&, const Tensor&, std::int64_t, const WeightStack&, const WeightStack&,
           const Tensor&) override {
    no_work();
  }
  void sample(const Tensor&, std::span<const SamplingRow>, std::span<SampledToken>) override { no_work(); }
  void logprobs(const Tensor&, std::span<const std::int32_t>, std::int32_t,
                std::span<SampledToken>) override {
    no_work();
  }

 private:
  [[noreturn]] static void no_work() {
    TS_CHECK(false && "a plan computes nothing");
    std::abort();
  }
  // An address that nobody may follow, but that can be added to.
  Buffer nowhere(std::size_t bytes) {
    void* const address = reinterpret_cast<void*>(next_);
    next_ += (bytes + 255) / 256 * 256;
    return {address, [](void*) {}};
  }
  WeightStack sized(WeightStack stack) {
    stack.bytes = device_.stack_bytes(stack.format, stack.count, stack.out, stack.in);
    return counted(std::move(stack));
  }
  template <class W>
  W counted(W weight) {
    const std::int64_t bytes = weight.bytes;
    weight.storage = nowhere(static_cast<std::size_t>(bytes));
    return count_.count_storage(std::move(weight), bytes, &DeviceMemory::weights);
  }

  const DeviceModel device_;
  BufferCount count_;
  std::vector<Limits> reserved_;
  std::size_t scratch_ = 0;
  std::uintptr_t next_ = std::uintptr_t{1} << 40;
};

}  // namespace

std::unique_ptr<Backend> make_measuring_backend(DeviceModel device) {
  return std::make_unique<MeasuringBackend>(std::move(device));
}

}  // namespace tessera
