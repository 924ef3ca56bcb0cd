// Pieces that every model family shares: a reader that turns checkpoint modules into device weights, fused
// projections, the gated MLP, and the limits that a back-end must reserve scratch for.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "backend/backend.h"
#include "checkpoint/checkpoint.h"
#include "model/model.h"
#include "model/shard.h"
#include "model/vocabulary_head.h"
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
  const Weight* only_part() const { return parts_.size() == 1 ? parts_.data() : nullptr; }
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
    if (const Weight* one = gate_up.only_part()) {
      backend.gated_linear(x, *one, gate_up_out, activated);
    } else {
      gate_up.apply(backend, x, gate_up_out);
      backend.silu_mul(gate_up_out, activated);
    }
    down.apply(backend, activated, out);
  }
};

// Reads weights through the checkpoint, each rank its own share, and counts what it has read. Cuts are made
// on the HostMatrix, before any byte of it is touched.
class WeightReader {
 public:
  WeightReader(const Checkpoint& checkpoint, Backend& backend, const LoadOptions& options)
      : checkpoint_(checkpoint), backend_(backend), options_(options) {}

  HostMatrix host(const std::string& module) {
    reading_ = checkpoint_.module_class(module);
    return checkpoint_.matrix(module);
  }

  Projection projection(const std::vector<HostMatrix>& parts);  // stacked by rows
  Weight weight(const HostMatrix& matrix);
  VectorWeight vector(const std::string& name);
  // prefix + {gate,up,down}_proj, of which this rank has the middle dimensions in `width`.
  GatedMlp gated_mlp(const std::string& prefix, const Share& width);
  WeightStack stack(std::int64_t count, const std::function<std::vector<HostMatrix>(std::int64_t)>& parts);
  WeightStack stack_f32(WeightFormat format, std::int64_t count, std::int64_t out, std::int64_t in,
                        std::span<const float> values);

  std::size_t device_bytes() const { return device_bytes_; }  // of everything read so far

 private:
  void account(std::int64_t file_bytes, std::int64_t device_bytes);

  const Checkpoint& checkpoint_;
  Backend& backend_;
  const LoadOptions& options_;
  std::size_t device_bytes_ = 0;
  ModuleClass reading_ = ModuleClass::kEmbedding;  // of what host() was asked for last
};

// Embedding and head split by rows of the vocabulary.
class VocabularyShards {
 public:
  void read(WeightReader& reader, const ModelConfig& config, const Shard& shard, std::int64_t logit_rows);
  void plan(Arena& arena, DType dtype) { head_.plan(arena, dtype); }

  void embed(Backend& backend, const Shard& shard, const std::int32_t* ids, const Tensor& out) const;
  const VocabularyHead& head() const { return head_; }

 private:
  Share share_;         // this rank's rows of the vocabulary
  Weight embedding_;    // [share, hidden]
  Weight head_weight_;  // [share, hidden]; empty when tied to the embedding
  VocabularyHead head_;
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
