// The kernels of every instruction set that this machine has, not only of the best: results agree between
// them, and each keeps a row's bits whatever the batch.
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/test_data.h"
#include "hwy/targets.h"

namespace tessera {
namespace {

using test::Batch;
using test::Cache;
using test::Random;
using test::rows_of;

constexpr WeightFormat kFormats[] = {WeightFormat::kF32, WeightFormat::kBF16, WeightFormat::kFp8Block128,
                                     WeightFormat::kInt4Group32};

// All results of a fixed little workload, one after the other.
std::vector<float> run_everything(std::int64_t rows_at_once) {
  Random random(1);
  const auto backend = make_cpu_backend({.threads = 2});
  std::vector<float> all;
  const std::int64_t rows = 14;
  const auto in_pieces = [&](const auto& call) {
    for (std::int64_t r = 0; r < rows; r += rows_at_once) call(r, std::min(rows_at_once, rows - r));
  };

  for (const WeightFormat format : kFormats) {
    const std::int64_t out = 75, in = 288;
    const test::OwnedMatrix matrix = test::random_matrix(random, format, out, in);
    const Weight weight = backend->prepare({&matrix.view, 1});
    std::vector<float> x = random.normals(rows * in), y(static_cast<std::size_t>(rows * out));
    in_pieces([&](std::int64_t r, std::int64_t n) {
      backend->linear(rows_of(x, rows, in).row_range(r, n), weight, rows_of(y, rows, out).row_range(r, n));
    });
    all.insert(all.end(), y.begin(), y.end());
  }

  const VectorWeight norm = backend->prepare_vector(random.normals(77));
  std::vector<float> x = random.normals(rows * 77), y(x.size()), z(static_cast<std::size_t>(rows * 38));
  in_pieces([&](std::int64_t r, std::int64_t n) {
    backend->rms_norm(rows_of(x, rows, 77).row_range(r, n), norm, 1e-6F,
                      rows_of(y, rows, 77).row_range(r, n));
    backend->silu_mul(rows_of(y, rows, 77).row_range(r, n).col_range(0, 76),
                      rows_of(z, rows, 38).row_range(r, n));
  });
  all.insert(all.end(), y.begin(), y.end());
  all.insert(all.end(), z.begin(), z.end());

  const std::vector<std::int32_t> lengths = {400};
  for (const KvFormat format : {KvFormat::kF32, KvFormat::kBF16, KvFormat::kFp8, KvFormat::kFp8Grouped}) {
    const std::int64_t heads = 3, latent = 128, rope = 10, nope = 20;
    Cache cache(random, format, KvRowShape::mla(latent, rope), 16, lengths);
    std::vector<float> latents = random.normals(400 * latent), keys = random.normals(400 * rope);
    const Batch fill(cache, lengths, lengths);
    backend->write_kv_mla(rows_of(latents, 400, latent), rows_of(keys, 400, rope), fill.view, cache.layer);
    const WeightStack up = backend->prepare_stack_f32(WeightFormat::kBF16, heads, nope, latent,
                                                      random.normals(heads * nope * latent, 0.1F));
    std::vector<float> q = random.normals(rows * heads * (latent + rope));
    std::vector<float> decoded(static_cast<std::size_t>(rows * heads * latent));
    std::vector<float> prefilled(static_cast<std::size_t>(rows * heads * nope));
    in_pieces([&](std::int64_t r, std::int64_t n) {
      const Batch batch(cache, {static_cast<std::int32_t>(400 - rows + r + n)},
                        {static_cast<std::int32_t>(n)});
      backend->mla_decode(rows_of(q, rows, heads * (latent + rope)).row_range(r, n), heads, 0.1F, batch.view,
                          cache.layer, rows_of(decoded, rows, heads * latent).row_range(r, n), {});
      backend->mla_prefill(
          rows_of(q, rows, heads * (latent + rope)).row_range(r, n).col_range(0, heads * (nope + rope)),
          heads, 0.1F, batch.view, cache.layer, up, up,
          rows_of(prefilled, rows, heads * nope).row_range(r, n), {});
    });
    all.insert(all.end(), decoded.begin(), decoded.end());
    all.insert(all.end(), prefilled.begin(), prefilled.end());
  }

  std::vector<float> logits = random.normals(rows * 5000, 2);
  std::vector<SamplingRow> sampling(static_cast<std::size_t>(rows),
                                    {.top_k = 100, .top_p = 0.9F, .logprobs = 3});
  std::vector<SampledToken> results(sampling.size());
  for (std::size_t i = 0; i < sampling.size(); ++i) sampling[i].seed = i;
  in_pieces([&](std::int64_t r, std::int64_t n) {
    const auto first = static_cast<std::size_t>(r), count = static_cast<std::size_t>(n);
    backend->sample(rows_of(logits, rows, 5000).row_range(r, n), std::span(sampling).subspan(first, count),
                    std::span(results).subspan(first, count));
  });
  for (const SampledToken& result : results) {
    all.push_back(static_cast<float>(result.token));
    all.push_back(result.logprob);
    all.push_back(static_cast<float>(result.top[2].token));
  }
  return all;
}

TEST(InstructionSets, AgreeWithEachOtherAndKeepARowsBits) {
  const std::vector<float> best = run_everything(14);
  int tried = 0;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    const std::string name = make_cpu_backend({.threads = 1})->name();
    const std::vector<float> found = run_everything(14);
    EXPECT_EQ(test::first_difference(found, best, 1, 2e-5), "") << name;
    for (const std::int64_t rows_at_once : {1, 3, 5}) {
      const std::vector<float> pieces = run_everything(rows_at_once);
      EXPECT_EQ(
          test::first_bit_difference(pieces.data(), found.data(), static_cast<std::int64_t>(found.size())),
          "")
          << name << ", " << rows_at_once << " rows at once";
    }
    ++tried;
    hwy::SetSupportedTargetsForTest(0);
  }
  EXPECT_GE(tried, 2);
}

}  // namespace
}  // namespace tessera
