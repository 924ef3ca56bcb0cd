#include "cuda/device_fixture.h"

namespace tessera::test {
namespace {

using Experts = OnGpu;
INSTANTIATE_TEST_SUITE_P(Cuda, Experts, testing::Bool(),
                         [](const auto& exact) { return exact.param ? "f32" : "bf16"; });

TEST_P(Experts, ChoicesAreTheCpusAndWeightsAgree) {
  struct Case {
    std::int64_t experts;
    RoutingRule rule;
  };
  for (const Case& c : {Case{16, {.top_k = 4, .scaling = 2.5F}}, Case{384, {.top_k = 8, .scaling = 2.827F}},
                        Case{256, {.top_k = 8, .groups = 8, .top_groups = 4, .scaling = 2.5F}},
                        Case{64, {.top_k = 6, .normalise = false}}, Case{1, {.top_k = 1}}}) {
    for (const std::int64_t tokens : {0, 1, 130}) {
      std::vector<float> logits = random_.normals(tokens * c.experts);
      for (std::size_t i = 0; i + 9 < logits.size(); i += 7) logits[i + 9] = logits[i];  // ties
      const std::vector<float> bias = random_.normals(c.experts, 0.05F);
      std::vector<std::int32_t> ids(static_cast<std::size_t>(tokens * c.rule.top_k));
      std::vector<float> weights(ids.size());
      cpu_->route_experts(rows_of(logits, tokens, c.experts), cpu_->prepare_vector(bias), c.rule,
                          rows_of(ids, tokens, c.rule.top_k), rows_of(weights, tokens, c.rule.top_k));
      const Tensor on_gpu = Tensor::dense(upload(logits), DType::kF32, tokens, c.experts);
      const Tensor got_ids = poisoned(DType::kI32, tokens, c.rule.top_k);
      const Tensor got_weights = poisoned(DType::kF32, tokens, c.rule.top_k);
      gpu_->route_experts(on_gpu, gpu_->prepare_vector(bias), c.rule, got_ids, got_weights);
      EXPECT_EQ(download_ints(got_ids), ids) << c.experts;
      EXPECT_EQ(far_row(download(got_weights), weights, c.rule.top_k, 1e-6), "") << c.experts;
    }
  }
}

struct Layer {
  std::vector<OwnedMatrix> gate, up, down;
  WeightStack gate_up, down_stack;
};

Layer make_layer(Backend& backend, const std::vector<OwnedMatrix>& gate, const std::vector<OwnedMatrix>& up,
                 const std::vector<OwnedMatrix>& down) {
  Layer layer;
  const auto count = static_cast<std::int64_t>(gate.size());
  const auto at = [](std::int64_t e) { return static_cast<std::size_t>(e); };
  layer.gate_up = backend.prepare_stack(count, [&](std::int64_t e) {
    return std::vector<HostMatrix>{gate[at(e)].view, up[at(e)].view};
  });
  layer.down_stack =
      backend.prepare_stack(count, [&](std::int64_t e) { return std::vector<HostMatrix>{down[at(e)].view}; });
  return layer;
}

TEST_P(Experts, MixturesOfEveryFormatAgree) {
  struct Sizes {
    std::int64_t width, hidden;
  };
  const std::unique_ptr<Backend> portable = make({.exact = exact(), .portable = true});
  for (const WeightFormat format :
       {WeightFormat::kBF16, WeightFormat::kFp8Block128, WeightFormat::kInt4Group32}) {
    for (const Sizes s : {Sizes{32, 256}, {256, 256}, {416, 544}}) {
      const std::int64_t experts = 6, top_k = 3;
      std::vector<OwnedMatrix> gate, up, down;
      for (std::int64_t e = 0; e < experts; ++e) {
        gate.push_back(random_matrix(random_, format, s.width, s.hidden));
        up.push_back(random_matrix(random_, format, s.width, s.hidden));
        down.push_back(random_matrix(random_, format, s.hidden, s.width));
      }
      const Layer here = make_layer(*gpu_, gate, up, down);
      const Layer there = make_layer(*cpu_, gate, up, down);
      for (const std::int64_t tokens : {1, 2, 3, 4, 8, 9, 33, 130, 400, 700}) {
        std::vector<float> x = values(tokens * s.hidden);
        std::vector<std::int32_t> ids;
        std::vector<float> weights;
        for (std::int64_t t = 0; t < tokens; ++t) {
          // Of ten; six are here: 2 to 7. From token 400 on one of them takes all, so that others have few.
          const auto first = static_cast<std::int32_t>(t < 400 ? random_.whole(0, 9) : 4);
          for (std::int32_t k = 0; k < top_k; ++k) {
            ids.push_back((first + (t < 400 ? 3 : 5) * k) % 10);
            weights.push_back(0.2F + std::fabs(random_.normal(0.3F)));
          }
        }
        std::vector<float> want(x.size());
        cpu_->moe(rows_of(x, tokens, s.hidden), rows_of(ids, tokens, top_k), rows_of(weights, tokens, top_k),
                  2, there.gate_up, there.down_stack, rows_of(want, tokens, s.hidden));
        const Tensor in = upload_rows(x, tokens, s.hidden);
        const Tensor id = Tensor::dense(upload(ids), DType::kI32, tokens, top_k);
        const Tensor share = Tensor::dense(upload(weights), DType::kF32, tokens, top_k);
        std::vector<float> first;
        for (Backend* backend : {gpu_.get(), gpu_.get(), portable.get()}) {
          const Tensor out = result(tokens, s.hidden, s.hidden + 8);
          gpu_->synchronise();
          backend->moe(in, id, share, 2, here.gate_up, here.down_stack, out);
          backend->synchronise();
          const std::vector<float> got = download(out);
          EXPECT_EQ(far_row(got, want, s.hidden, bound(1e-2, 2e-5)), "")
              << name_of(format) << ", width " << s.width << ", tokens " << tokens
              << (backend == portable.get() ? ", portable" : "");
          if (backend == gpu_.get() && !first.empty()) {
            EXPECT_EQ(got, first) << "two runs differ";
          }
          first = got;
        }
      }
    }
  }
}

TEST_P(Experts, InvariantMixturesGiveATokenTheSameBitsInAnyBatch) {
  gpu_ = make({.exact = exact(), .batch_invariant = true});
  const std::int64_t experts = 8, hidden = 256, width = 64, top_k = 2, tokens = 300;
  std::vector<OwnedMatrix> gate, up, down;
  for (std::int64_t e = 0; e < experts; ++e) {
    gate.push_back(random_matrix(random_, WeightFormat::kInt4Group32, width, hidden));
    up.push_back(random_matrix(random_, WeightFormat::kInt4Group32, width, hidden));
    down.push_back(random_matrix(random_, WeightFormat::kInt4Group32, hidden, width));
  }
  const Layer layer = make_layer(*gpu_, gate, up, down);
  std::vector<std::int32_t> ids;
  std::vector<float> weights;
  for (std::int64_t t = 0; t < tokens; ++t) {
    ids.push_back(static_cast<std::int32_t>(t % 8));
    ids.push_back(static_cast<std::int32_t>((t + 1 + t % 5) % 8));
    weights.insert(weights.end(), {0.7F, 0.4F});
  }
  const Tensor x = upload_rows(values(tokens * hidden), tokens, hidden);
  const Tensor id = Tensor::dense(upload(ids), DType::kI32, tokens, top_k);
  const Tensor weight = Tensor::dense(upload(weights), DType::kF32, tokens, top_k);
  const Tensor together = result(tokens, hidden);
  gpu_->moe(x, id, weight, 0, layer.gate_up, layer.down_stack, together);
  const std::vector<float> want = download(together);
  const Tensor alone = result(tokens, hidden);
  for (std::int64_t first = 0; first < tokens;) {
    const std::int64_t count = std::min<std::int64_t>(random_.whole(1, 70), tokens - first);
    gpu_->moe(x.row_range(first, count), id.row_range(first, count), weight.row_range(first, count), 0,
              layer.gate_up, layer.down_stack, alone.row_range(first, count));
    first += count;
  }
  EXPECT_EQ(download(alone), want);
}

}  // namespace
}  // namespace tessera::test
