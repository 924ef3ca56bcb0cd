// Pieces that every model family shares: a reader that turns checkpoint modules into device weights, fused
// projections, the gated MLP, and the limits that a back-end must reserve scratch for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "checkpoint/checkpoint.h"
#include "model/model.h"
#include "tensor/arena.h"

namespace tessera {

// Several projections of one input, written side by side: out = [W0 x | W1 x | ...]. One product where the
// parts share a format, else one each.
class Projection {
 public:
  void add_part(Weight weight) {
    out_ += weight.out;
    parts_.push_back(std::move(weight));
  }
  void apply(Backend& backend, const Tensor& x, const Tensor& out) const {
    std::int64_t first = 0;
    for (const Weight& part : parts_) {
      backend.linear(x, part, out.col_range(first, part.out));
      first += part.out;
    }
  }
  std::int64_t out() const { return out_; }
  std::int64_t bytes() const {
    std::int64_t sum = 0;
    for (const Weight& part : parts_) sum += part.bytes;
    return sum;
  }

 private:
  std::vector<Weight> parts_;
  std::int64_t out_ = 0;
};

// down(silu(gate x) * up x)
struct GatedMlp {
  Projection gate_up;  // [2 * width, hidden]
  Projection down;     // [hidden, width]

  void apply(Backend& backend, const Tensor& x, const Tensor& gate_up_out, const Tensor& activated,
             const Tensor& out) const {
    gate_up.apply(backend, x, gate_up_out);
    backend.silu_mul(gate_up_out, activated);
    down.apply(backend, activated, out);
  }
};

// Reads weights through the checkpoint and reports the file bytes that it has read.
class WeightReader {
 public:
  WeightReader(const Checkpoint& checkpoint, Backend& backend, const LoadOptions& options)
      : checkpoint_(checkpoint), backend_(backend), options_(options) {}

  // The modules' matrices stacked by rows.
  Projection projection(const std::vector<std::string>& modules);
  Weight weight(const std::string& module);
  VectorWeight vector(const std::string& name);
  GatedMlp gated_mlp(const std::string& prefix);  // prefix + {gate,up,down}_proj
  WeightStack stack(std::int64_t count, const std::function<std::vector<HostMatrix>(std::int64_t)>& parts);
  WeightStack stack_f32(WeightFormat format, std::int64_t count, std::int64_t out, std::int64_t in,
                        std::span<const float> values);
  HostMatrix host(const std::string& module) { return checkpoint_.matrix(module); }

  std::size_t device_bytes() const { return device_bytes_; }  // of everything read so far

 private:
  void account(std::int64_t file_bytes, std::int64_t device_bytes);

  const Checkpoint& checkpoint_;
  Backend& backend_;
  const LoadOptions& options_;
  std::size_t device_bytes_ = 0;
};

// A Buffer and the arena over it. `plan` takes everything that a step needs; it runs twice, first to count.
template <class Plan>
Buffer fill_arena(Backend& backend, std::size_t& bytes, const Plan& plan) {
  Arena counting;
  plan(counting);
  bytes = counting.peak();
  Buffer storage = backend.allocate(bytes);
  Arena real(storage.get(), bytes);
  plan(real);
  return storage;
}

}  // namespace tessera
