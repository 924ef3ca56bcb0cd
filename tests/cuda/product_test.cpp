#include <array>

#include "cuda/device_fixture.h"

namespace tessera::test {
namespace {

using Products = OnGpu;
INSTANTIATE_TEST_SUITE_P(Cuda, Products, testing::Bool(),
                         [](const auto& exact) { return exact.param ? "f32" : "bf16"; });

constexpr WeightFormat kFormats[] = {WeightFormat::kF32, WeightFormat::kBF16, WeightFormat::kFp8Block128,
                                     WeightFormat::kInt4Group32};

// f32 weights are rounded to bf16 where activations are bf16.
OwnedMatrix matrix_for(Random& random, WeightFormat format, std::int64_t out, std::int64_t in, bool exact) {
  OwnedMatrix m = random_matrix(random, format, out, in);
  if (format == WeightFormat::kF32 && !exact) {
    auto* x = reinterpret_cast<float*>(m.data.data());
    for (std::int64_t i = 0; i < out * in; ++i) x[i] = static_cast<float>(BF16(x[i]));
  }
  return m;
}

std::int64_t padded_to_8(std::int64_t count) { return (count + 7) / 8 * 8; }

TEST_P(Products, EveryFormatShapeAndNumberOfRowsAgrees) {
  struct Shape {
    std::int64_t out, in;
  };
  for (const WeightFormat format : kFormats) {
    for (const Shape s : {Shape{1, 32}, {17, 64}, {64, 96}, {130, 256}, {576, 7168}, {2112, 512}}) {
      const OwnedMatrix m = matrix_for(random_, format, s.out, s.in, exact());
      const Weight here = gpu_->prepare({&m.view, 1});
      const Weight there = cpu_->prepare({&m.view, 1});
      for (const std::int64_t rows : {0, 1, 2, 7, 8, 9, 16, 17, 33, 64, 65, 130}) {
        // One output alone may be next to nothing: then all of them are measured together.
        const std::int64_t together = s.out > 1 ? s.out : std::max<std::int64_t>(rows, 1);
        if (s.in * s.out > 1'000'000 && rows > 17 && rows != 65) continue;  // the reference is slow
        std::vector<float> x = values(rows * s.in);
        std::vector<float> want(static_cast<std::size_t>(rows * s.out));
        cpu_->linear(rows_of(x, rows, s.in), there, rows_of(want, rows, s.out));
        const Tensor in = upload_rows(x, rows, s.in, s.in + 8);
        const Tensor wide = poisoned(DType::kF32, rows, s.out, s.out + 5);
        gpu_->linear(in, here, wide);
        EXPECT_EQ(far_row(download(wide), want, together, 2e-5), "")
            << name_of(format) << ' ' << s.out << " x " << s.in << ", rows " << rows;
        const Tensor narrow = result(rows, s.out);
        gpu_->linear(in, here, narrow);
        EXPECT_EQ(far_row(download(narrow), want, together, bound(4e-3, 2e-5)), "")
            << name_of(format) << ' ' << s.out << " x " << s.in << ", rows " << rows;
      }
    }
  }
}

// Tiles of the many-row forms that are full, that are not, and that hold one row; widths that no tile
// divides.
TEST_P(Products, ManyRowsAgreeInEveryForm) {
  struct Shape {
    std::int64_t out, in;
  };
  constexpr std::int64_t kMost = 700;
  for (const bool portable : {false, true}) {
    if (portable && exact()) continue;  // the plain form has no other
    gpu_ = make({.exact = exact(), .portable = portable});
    for (const WeightFormat format : kFormats) {
      const std::int64_t odd = format == WeightFormat::kInt4Group32 ? 544 : 520;
      for (const Shape s : {Shape{417, odd}, {640, 1536}, {4100, 256}}) {
        const OwnedMatrix m = matrix_for(random_, format, s.out, s.in, exact());
        const Weight here = gpu_->prepare({&m.view, 1});
        const Weight there = cpu_->prepare({&m.view, 1});
        std::vector<float> x = values(kMost * s.in);
        std::vector<float> all(static_cast<std::size_t>(kMost * s.out));
        cpu_->linear(rows_of(x, kMost, s.in), there, rows_of(all, kMost, s.out));
        const Tensor in = upload_rows(x, kMost, s.in, s.in + 8);
        for (const std::int64_t rows : {33, 64, 65, 96, 97, 127, 128, 129, 193, 257, 700}) {
          if ((portable || exact()) && rows != 65 && rows != 700) continue;
          const std::vector<float> want(all.begin(), all.begin() + rows * s.out);
          for (const std::int64_t stride : {s.out, s.out + 5, padded_to_8(s.out)}) {
            const Tensor wide = poisoned(DType::kF32, rows, s.out, stride);
            gpu_->linear(in.row_range(0, rows), here, wide);
            EXPECT_EQ(far_row(download(wide), want, s.out, 2e-5), "")
                << name_of(format) << ' ' << s.out << " x " << s.in << ", rows " << rows;
            const Tensor narrow = result(rows, s.out, stride);
            gpu_->linear(in.row_range(0, rows), here, narrow);
            const std::vector<float> got = download(narrow);
            EXPECT_EQ(far_row(got, want, s.out, bound(4e-3, 2e-5)), "")
                << name_of(format) << ' ' << s.out << " x " << s.in << ", rows " << rows << ", stride "
                << stride;
            const Tensor again = result(rows, s.out, stride);
            gpu_->linear(in.row_range(0, rows), here, again);
            EXPECT_EQ(download(again), got) << "two runs differ";
          }
        }
      }
    }
  }
}

// The many-row form on Hopper multiplies int4 in f16, whose range is small.
TEST_P(Products, Int4ScalesAndRowsOfAnySizeAgree) {
  constexpr std::int64_t kOut = 200, kIn = 256, kRows = 130;
  for (const int exponent : {-60, 0, 40}) {
    OwnedMatrix m = random_matrix(random_, WeightFormat::kInt4Group32, kOut, kIn);
    auto* scales = reinterpret_cast<BF16*>(m.scale.data());
    for (std::size_t i = 0; i < m.scale.size() / 2; ++i) {
      scales[i] =
          BF16(std::ldexp(static_cast<float>(scales[i]), exponent + static_cast<int>(random_.whole(-9, 9))));
    }
    const Weight here = gpu_->prepare({&m.view, 1});
    const Weight there = cpu_->prepare({&m.view, 1});
    std::vector<float> x = values(kRows * kIn);
    for (std::size_t i = 0; i < x.size(); ++i) {
      const int of_row = static_cast<int>(i / kIn % 3) * 60 - 60;
      x[i] = std::ldexp(x[i], of_row + static_cast<int>(random_.whole(-9, 9)));
    }
    for (std::size_t i = 0; i < kIn; ++i) x[5 * kIn + i] = 0;
    std::vector<float> want(kRows * kOut);
    cpu_->linear(rows_of(x, kRows, kIn), there, rows_of(want, kRows, kOut));
    const Tensor out = poisoned(DType::kF32, kRows, kOut);
    gpu_->linear(upload_rows(x, kRows, kIn), here, out);
    EXPECT_EQ(far_row(download(out), want, kOut, 2e-5), "") << "scales of 2^" << exponent;
  }
}

TEST_P(Products, GatedProductsAgree) {
  for (const WeightFormat format : kFormats) {
    for (const std::int64_t width : {20, 512}) {  // 20: no form of its own
      const OwnedMatrix m = matrix_for(random_, format, 2 * width, 256, exact());
      const Weight here = gpu_->prepare({&m.view, 1});
      const Weight there = cpu_->prepare({&m.view, 1});
      for (const std::int64_t rows : {0, 1, 9, 65, 700}) {
        std::vector<float> x = values(rows * 256, 0.3F);
        std::vector<float> between(static_cast<std::size_t>(rows * 2 * width));
        std::vector<float> want(static_cast<std::size_t>(rows * width));
        cpu_->gated_linear(rows_of(x, rows, 256), there, rows_of(between, rows, 2 * width),
                           rows_of(want, rows, width));
        const Tensor out = result(rows, width, width + 8);
        gpu_->gated_linear(upload_rows(x, rows, 256), here, result(rows, 2 * width), out);
        EXPECT_EQ(far_row(download(out), want, width, bound(1e-2, 2e-5)), "")
            << name_of(format) << ", width " << width << ", rows " << rows;
      }
    }
  }
}

TEST_P(Products, PartsThatStartInsideABlockOfScalesAreStacked) {
  for (const WeightFormat format : kFormats) {
    const OwnedMatrix a = matrix_for(random_, format, 300, 256, exact());
    const OwnedMatrix b = matrix_for(random_, format, 200, 256, exact());
    const std::array<HostMatrix, 2> parts = {a.view.row_range(40, 170), b.view.row_range(130, 33)};
    const Weight here = gpu_->prepare(parts);
    const Weight there = cpu_->prepare(parts);
    std::vector<float> x = values(3 * 256);
    std::vector<float> want(3 * 203);
    cpu_->linear(rows_of(x, 3, 256), there, rows_of(want, 3, 203));
    const Tensor out = poisoned(DType::kF32, 3, 203);
    gpu_->linear(upload_rows(x, 3, 256), here, out);
    EXPECT_EQ(far_row(download(out), want, 203, 2e-5), "") << name_of(format);
  }
}

TEST_P(Products, ColumnCutsKeepTheirScales) {
  for (const WeightFormat format : kFormats) {
    const OwnedMatrix m = matrix_for(random_, format, 96, 512, exact());
    const HostMatrix half = m.view.col_range(256, 256);
    const Weight here = gpu_->prepare({&half, 1});
    const Weight there = cpu_->prepare({&half, 1});
    std::vector<float> x = values(5 * 256);
    std::vector<float> want(5 * 96);
    cpu_->linear(rows_of(x, 5, 256), there, rows_of(want, 5, 96));
    const Tensor out = poisoned(DType::kF32, 5, 96);
    gpu_->linear(upload_rows(x, 5, 256), here, out);
    EXPECT_EQ(far_row(download(out), want, 96, 2e-5), "") << name_of(format);
  }
}

TEST_P(Products, EachHeadMeetsItsOwnMatrix) {
  for (const std::int64_t heads : {1, 4, 8, 12, 16, 64, 128}) {
    for (const std::int64_t rows : {1, 5, 33, 130, 300}) {
      const std::int64_t in = 128, out = 20, x_stride = 192, y_stride = 24;
      std::vector<float> w = values(heads * out * in, 0.1F);
      const WeightStack here = gpu_->prepare_stack_f32(WeightFormat::kF32, heads, out, in, w);
      const WeightStack there = cpu_->prepare_stack_f32(WeightFormat::kF32, heads, out, in, w);
      std::vector<float> x = values(rows * heads * x_stride);
      std::vector<float> want(static_cast<std::size_t>(rows * heads * y_stride), 0.0F);
      cpu_->linear_heads(rows_of(x, rows, heads * x_stride), x_stride, there,
                         rows_of(want, rows, heads * y_stride), y_stride);
      const std::vector<float> zeros(want.size(), 0.0F);
      const Tensor y = upload_rows(zeros, rows, heads * y_stride);
      gpu_->linear_heads(upload_rows(x, rows, heads * x_stride), x_stride, here, y, y_stride);
      EXPECT_EQ(far_row(download(y), want, y_stride, bound(4e-3, 1e-5)), "") << heads << " heads, " << rows;
    }
  }
}

TEST_P(Products, InvariantFormsGiveARowTheSameBitsInAnyBatch) {
  gpu_ = make({.exact = exact(), .batch_invariant = true});
  for (const WeightFormat format : kFormats) {
    const OwnedMatrix m = matrix_for(random_, format, 700, 512, exact());
    const Weight w = gpu_->prepare({&m.view, 1});
    const Tensor x = upload_rows(values(200 * 512), 200, 512);
    const Tensor together = poisoned(DType::kF32, 200, 700);
    gpu_->linear(x, w, together);
    const std::vector<float> want = download(together);
    const Tensor alone = poisoned(DType::kF32, 200, 700);
    for (std::int64_t first = 0; first < 200;) {
      const std::int64_t count = std::min<std::int64_t>(random_.whole(1, 40), 200 - first);
      gpu_->linear(x.row_range(first, count), w, alone.row_range(first, count));
      first += count;
    }
    EXPECT_EQ(download(alone), want) << name_of(format);
  }
}

}  // namespace
}  // namespace tessera::test
