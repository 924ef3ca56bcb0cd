// Weights through the ring of staging blocks: more of them than it holds, all sizes, memory that is gone
// right after the call.
#include <algorithm>
#include <vector>

#include "cuda/device_fixture.h"

namespace tessera::test {
namespace {

class LoadingOnGpu : public OnGpu {
 protected:
  void expect_same(const Weight& here, const Weight& there, const std::string& what) {
    std::vector<float> x = values(2 * here.in);
    const Tensor got = poisoned(DType::kF32, 2, here.out);
    gpu_->linear(upload_rows(x, 2, here.in), here, got);
    std::vector<float> want(static_cast<std::size_t>(2 * there.out));
    cpu_->linear(rows_of(x, 2, here.in), there, rows_of(want, 2, there.out));
    EXPECT_EQ(far_row(download(got), want, there.out, 2e-5), "") << what;
  }
};

TEST_P(LoadingOnGpu, AStackOfMoreThanTheRingHoldsArrivesWhole) {
  for (const WeightFormat format :
       {WeightFormat::kBF16, WeightFormat::kFp8Block128, WeightFormat::kInt4Group32}) {
    constexpr std::int64_t kOut = 1030, kIn = 1024, kRows = 2;  // fp8 blocks of 128 rows are cut anywhere
    std::vector<OwnedMatrix> some;
    for (int i = 0; i < 3; ++i) some.push_back(random_matrix(random_, format, kOut, kIn));
    const std::int64_t count = (std::int64_t{200} << 20) / some[0].view.bytes();
    const auto parts = [&](std::int64_t i) {
      const HostMatrix& view = some[static_cast<std::size_t>(i % 3)].view;
      return std::vector<HostMatrix>{view.row_range(0, 77), view.row_range(77, kOut - 77)};
    };
    const WeightStack here = gpu_->prepare_stack(count, parts);
    std::vector<float> x = values(kRows * kIn);
    const Tensor on_gpu = upload_rows(x, kRows, kIn);
    const Tensor got = poisoned(DType::kF32, kRows, count * kOut);
    gpu_->linear_heads(on_gpu, 0, here, got, kOut);
    const std::vector<float> all = download(got);
    for (std::int64_t i = 0; i < 3; ++i) {
      const Weight there = cpu_->prepare(parts(i));
      std::vector<float> want(static_cast<std::size_t>(kRows * kOut));
      cpu_->linear(rows_of(x, kRows, kIn), there, rows_of(want, kRows, kOut));
      for (std::int64_t k = i; k < count; k += 3) {
        std::vector<float> found;
        for (std::int64_t row = 0; row < kRows; ++row) {
          const auto first = all.begin() + (row * count + k) * kOut;
          found.insert(found.end(), first, first + kOut);
        }
        ASSERT_EQ(far_row(found, want, kOut, 2e-5), "")
            << name_of(format) << ", matrix " << k << " of " << count;
      }
    }
  }
}

TEST_P(LoadingOnGpu, HostMemoryMayGoWhenACallReturns) {
  const std::int64_t in = 512, out = 300;
  std::vector<Weight> here, there;
  for (int i = 0; i < 40; ++i) {
    OwnedMatrix m = random_matrix(random_, WeightFormat::kBF16, out, in);
    there.push_back(cpu_->prepare({&m.view, 1}));
    here.push_back(gpu_->prepare({&m.view, 1}));
    std::ranges::fill(m.data, decltype(m.data)::value_type(0xff));  // NaN
  }
  for (std::size_t i = 0; i < here.size(); ++i) expect_same(here[i], there[i], "weight " + std::to_string(i));
}

TEST_P(LoadingOnGpu, GoesOnAfterScratchHasBeenReserved) {
  for (int turn = 0; turn < 3; ++turn) {
    const OwnedMatrix m = random_matrix(random_, WeightFormat::kBF16, 1000, 1024);
    const Weight here = gpu_->prepare({&m.view, 1});
    (void)gpu_->reserve({.tokens = 8, .seqs = 8, .vocab = 100, .width = 1024});
    expect_same(here, cpu_->prepare({&m.view, 1}), "turn " + std::to_string(turn));
  }
}

TEST_P(LoadingOnGpu, VectorsAndTablesLargerThanABlockArriveWhole) {
  const std::vector<float> numbers = random_.normals(9'000'001);  // 36 MB
  const VectorWeight vector = gpu_->prepare_vector(numbers);
  std::vector<float> back(numbers.size());
  gpu_->copy_to_host(back.data(), vector.data, back.size() * sizeof(float));
  gpu_->synchronise();
  EXPECT_EQ(back, numbers);
}

INSTANTIATE_TEST_SUITE_P(, LoadingOnGpu, testing::Bool(),
                         [](const auto& param) { return param.param ? "f32" : "bf16"; });

}  // namespace
}  // namespace tessera::test
