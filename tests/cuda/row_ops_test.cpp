#include <cmath>

#include "cuda/device_fixture.h"

namespace tessera::test {
namespace {

using RowOps = OnGpu;
INSTANTIATE_TEST_SUITE_P(Cuda, RowOps, testing::Bool(),
                         [](const auto& exact) { return exact.param ? "f32" : "bf16"; });

constexpr std::int64_t kRowCounts[] = {0, 1, 2, 65, 130};

TEST_P(RowOps, EmbeddingTakesRowsOfEveryFormatAndZerosOutsideTheShard) {
  for (const WeightFormat format :
       {WeightFormat::kF32, WeightFormat::kBF16, WeightFormat::kFp8Block128, WeightFormat::kInt4Group32}) {
    const OwnedMatrix matrix = random_matrix(random_, format, 50, 96);
    const Weight here = gpu_->prepare({&matrix.view, 1});
    const Weight there = cpu_->prepare({&matrix.view, 1});
    std::vector<std::int32_t> ids = {100, 149, 99, 150, 120, 0, -1, 2000000000};
    const auto rows = static_cast<std::int64_t>(ids.size());
    std::vector<float> want(ids.size() * 96);
    cpu_->embed(ids.data(), there, 100, rows_of(want, rows, 96));
    const Tensor out = result(rows, 96, 104);
    gpu_->embed(upload(ids), here, 100, out);
    EXPECT_EQ(far_row(download(out), want, 96, bound(3e-3, 1e-6)), "") << name_of(format);
  }
}

TEST_P(RowOps, NormsAgree) {
  for (const std::int64_t rows : kRowCounts) {
    for (const std::int64_t cols : {1, 7, 128, 512, 1536, 7168}) {
      std::vector<float> x = values(rows * cols);
      std::vector<float> delta = values(rows * cols);
      const std::vector<float> w = values(cols);
      const VectorWeight here = gpu_->prepare_vector(w);
      const VectorWeight there = cpu_->prepare_vector(w);
      std::vector<float> want(x.size());
      cpu_->rms_norm(rows_of(x, rows, cols), there, 1e-6F, rows_of(want, rows, cols));
      const Tensor residual = upload_rows(x, rows, cols, cols + 3);
      const Tensor out = result(rows, cols, cols + 1);
      gpu_->rms_norm(residual, here, 1e-6F, out);
      EXPECT_EQ(far_row(download(out), want, cols, bound(4e-3, 2e-6)), "") << rows << " x " << cols;

      gpu_->add_rms_norm(residual, upload_rows(delta, rows, cols), here, 1e-6F, out);
      std::vector<float> sums = download(residual);  // rounded as the device keeps them
      for (std::size_t i = 0; i < sums.size(); ++i) {
        const float sum = x[i] + delta[i];
        ASSERT_EQ(sums[i], exact() ? sum : static_cast<float>(BF16(sum))) << i;
      }
      cpu_->rms_norm(rows_of(sums, rows, cols), there, 1e-6F, rows_of(want, rows, cols));
      EXPECT_EQ(far_row(download(out), want, cols, bound(4e-3, 2e-6)), "") << rows << " x " << cols;
    }
  }
}

TEST_P(RowOps, NormInPlaceIsTheSame) {
  const std::vector<float> x = values(3 * 512);
  const VectorWeight w = gpu_->prepare_vector(values(512));
  const Tensor a = upload_rows(x, 3, 512, 576);
  const Tensor b = result(3, 512);
  gpu_->rms_norm(a, w, 1e-6F, b);
  gpu_->rms_norm(a, w, 1e-6F, a);
  EXPECT_EQ(download(a), download(b));
}

TEST_P(RowOps, SumsAndGatedActivationsAgree) {
  for (const std::int64_t rows : kRowCounts) {
    const std::int64_t cols = 300;
    std::vector<float> x = values(rows * 2 * cols, 4);
    std::vector<float> want(static_cast<std::size_t>(rows * cols));
    cpu_->silu_mul(rows_of(x, rows, 2 * cols), rows_of(want, rows, cols));
    const Tensor gate_up = upload_rows(x, rows, 2 * cols);
    const Tensor out = result(rows, cols);
    gpu_->silu_mul(gate_up, out);
    EXPECT_EQ(far_row(download(out), want, cols, bound(4e-3, 2e-6)), "") << rows;
    const Tensor both = gate_up.col_range(0, cols);
    gpu_->add(both, gate_up.col_range(cols, cols), both);
    const std::vector<float> sum = download(both);
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t c = 0; c < cols; ++c) {
        const float s = x[static_cast<std::size_t>(r * 2 * cols + c)] +
                        x[static_cast<std::size_t>(r * 2 * cols + cols + c)];
        ASSERT_EQ(sum[static_cast<std::size_t>(r * cols + c)], exact() ? s : static_cast<float>(BF16(s)));
      }
    }
  }
}

TEST_P(RowOps, CopiesAndGathersMoveEveryBitAndNothingElse) {
  for (const std::int64_t cols : {1, 2, 3, 8, 64, 97}) {
    for (const std::int64_t stride : {cols, cols + 1, cols + 8}) {
      const std::vector<float> x = values(7 * cols);
      const Tensor from = upload_rows(x, 7, cols, stride);
      const Tensor to = result(7, cols, stride + 3);
      gpu_->copy(from, to);
      EXPECT_EQ(download(to), x);
      const std::vector<std::int32_t> rows = {6, 0, 0, 3};
      const Tensor some = result(4, cols);
      gpu_->gather_rows(from, upload(rows), some);
      const std::vector<float> got = download(some);
      for (std::size_t i = 0; i < rows.size(); ++i) {
        for (std::int64_t c = 0; c < cols; ++c) {
          ASSERT_EQ(got[i * static_cast<std::size_t>(cols) + static_cast<std::size_t>(c)],
                    x[static_cast<std::size_t>(rows[i] * cols + c)]);
        }
      }
    }
  }
}

TEST_P(RowOps, RotationsAgreeInBothPairings) {
  const std::int64_t heads = 5, stride = 192, pairs = 32;
  const std::vector<float> frequencies = random_.normals(pairs, 0.3F);
  const RopeTable here = gpu_->prepare_rope(3000, frequencies, 1.25F);
  const RopeTable there = cpu_->prepare_rope(3000, frequencies, 1.25F);
  std::vector<std::int32_t> positions = {0, 1, 2999, 17, 64};
  for (const RopePairs pairing : {RopePairs::kInterleaved, RopePairs::kHalves}) {
    std::vector<float> x = values(5 * heads * stride);
    const Tensor t = upload_rows(x, 5, heads * stride);
    cpu_->rope(rows_of(x, 5, heads * stride), heads, stride, positions.data(), there, pairing);
    gpu_->rope(t, heads, stride, upload(positions), here, pairing);
    EXPECT_EQ(far_row(download(t), x, stride, bound(3e-3, 1e-6)), "");
  }
}

}  // namespace
}  // namespace tessera::test
