#include <gtest/gtest.h>

#include <limits>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/test_data.h"

namespace tessera {
namespace {

using test::Random;
using test::rows_of;

constexpr WeightFormat kFormats[] = {WeightFormat::kF32, WeightFormat::kBF16, WeightFormat::kFp8Block128,
                                     WeightFormat::kInt4Group32};

// A sum of 4,096 products near 1/64 in f32, in sums of 128: an error of some 1e-6.
constexpr double kTolerance = 1e-5;

std::vector<double> product(const std::vector<double>& w, std::int64_t out, std::int64_t in,
                            const std::vector<float>& x, std::int64_t rows) {
  std::vector<double> y(static_cast<std::size_t>(rows * out));
  for (std::int64_t r = 0; r < rows; ++r) {
    for (std::int64_t o = 0; o < out; ++o) {
      double sum = 0;
      for (std::int64_t k = 0; k < in; ++k) {
        sum += w[static_cast<std::size_t>(o * in + k)] *
               static_cast<double>(x[static_cast<std::size_t>(r * in + k)]);
      }
      y[static_cast<std::size_t>(r * out + o)] = sum;
    }
  }
  return y;
}

TEST(Linear, AgreesWithF64ForEveryFormatAndRowCount) {
  Random random(1);
  const auto backend = make_cpu_backend({.threads = 2});
  for (const WeightFormat format : kFormats) {
    const bool odd = format != WeightFormat::kInt4Group32;
    for (const std::int64_t in : {std::int64_t{32}, std::int64_t{odd ? 129 : 160}, std::int64_t{512}}) {
      for (const std::int64_t out : {1, 31, 32, 33, 130, 257}) {
        const test::OwnedMatrix matrix = test::random_matrix(random, format, out, in);
        const Weight weight = backend->prepare({&matrix.view, 1});
        const std::vector<double> values = test::values_of(matrix.view);
        for (const std::int64_t rows : {0, 1, 2, 3, 4, 5, 12, 17, 130, 251}) {
          std::vector<float> x = random.normals(rows * in);
          std::vector<float> y(static_cast<std::size_t>(rows * out), std::numeric_limits<float>::quiet_NaN());
          backend->linear(rows_of(x, rows, in), weight, rows_of(y, rows, out));
          EXPECT_EQ(test::first_difference(y, product(values, out, in, x, rows), out, kTolerance), "")
              << name_of(format) << " in " << in << " out " << out << " rows " << rows;
        }
      }
    }
  }
}

TEST(Linear, GivesARowTheSameBitsInAnyCompanyAndOnAnyNumberOfThreads) {
  Random random(2);
  const std::int64_t in = 416;
  const std::int64_t out = 300;
  const auto one = make_cpu_backend({.threads = 1});
  const auto three = make_cpu_backend({.threads = 3});
  for (const WeightFormat format : kFormats) {
    const test::OwnedMatrix matrix = test::random_matrix(random, format, out, in);
    const Weight weight_one = one->prepare({&matrix.view, 1});
    const Weight weight_three = three->prepare({&matrix.view, 1});
    const std::int64_t all = 300;
    std::vector<float> x = random.normals(all * in);
    std::vector<float> alone(static_cast<std::size_t>(all * out));
    for (std::int64_t r = 0; r < all; ++r) {
      one->linear(rows_of(x, all, in).row_range(r, 1), weight_one, rows_of(alone, all, out).row_range(r, 1));
    }
    for (const std::int64_t rows : {2, 3, 4, 5, 13, 240, 300}) {
      const std::int64_t first = random.whole(0, all - rows);
      std::vector<float> y(static_cast<std::size_t>(rows * out));
      three->linear(rows_of(x, all, in).row_range(first, rows), weight_three, rows_of(y, rows, out));
      EXPECT_EQ(test::first_bit_difference(y.data(), alone.data() + first * out, rows * out), "")
          << name_of(format) << " rows " << rows;
    }
  }
}

TEST(Linear, KeepsARowsNaNToItself) {
  Random random(3);
  const auto backend = make_cpu_backend({.threads = 2});
  for (const WeightFormat format : kFormats) {
    const test::OwnedMatrix matrix = test::random_matrix(random, format, 64, 64);
    const Weight weight = backend->prepare({&matrix.view, 1});
    for (const std::int64_t rows : {2, 30}) {
      std::vector<float> x = random.normals(rows * 64);
      x[64] = std::numeric_limits<float>::quiet_NaN();  // row 1
      std::vector<float> y(static_cast<std::size_t>(rows * 64));
      backend->linear(rows_of(x, rows, 64), weight, rows_of(y, rows, 64));
      for (std::int64_t i = 0; i < rows * 64; ++i) {
        EXPECT_EQ(std::isnan(y[static_cast<std::size_t>(i)]), i / 64 == 1) << name_of(format) << " at " << i;
      }
    }
  }
}

TEST(Linear, ANaNWeightCodeMakesItsOutputNaN) {
  Random random(4);
  const auto backend = make_cpu_backend({.threads = 1});
  test::OwnedMatrix matrix = test::random_matrix(random, WeightFormat::kFp8Block128, 40, 256);
  matrix.data[7 * 256 + 200] = std::byte{0xff};
  const Weight weight = backend->prepare({&matrix.view, 1});
  std::vector<float> x = random.normals(256);
  std::vector<float> y(40);
  backend->linear(rows_of(x, 1, 256), weight, rows_of(y, 1, 40));
  for (std::size_t o = 0; o < 40; ++o) EXPECT_EQ(std::isnan(y[o]), o == 7) << o;
}

TEST(Linear, StacksRowPartsAndHonoursStridesAndShardedScaleRows) {
  Random random(5);
  const auto backend = make_cpu_backend({.threads = 2});
  for (const WeightFormat format : kFormats) {
    const test::OwnedMatrix whole = test::random_matrix(random, format, 300, 384);
    // Rows 70 to 219 and 10 to 30, columns 128 to 383: cuts inside a panel and inside a block of 128 rows.
    const HostMatrix parts[] = {whole.view.row_range(70, 150).col_range(128, 256),
                                whole.view.row_range(10, 21).col_range(128, 256)};
    const Weight weight = backend->prepare(parts);
    ASSERT_EQ(weight.out, 171);
    std::vector<double> values = test::values_of(parts[0]);
    const std::vector<double> second = test::values_of(parts[1]);
    values.insert(values.end(), second.begin(), second.end());
    const std::int64_t rows = 3;
    std::vector<float> x = random.normals(rows * 256);
    std::vector<float> wide(static_cast<std::size_t>(rows * 200), 7.0F);
    backend->linear(rows_of(x, rows, 256), weight, rows_of(wide, rows, 200).col_range(5, 171));
    std::vector<float> y;
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto row = wide.begin() + r * 200;
      y.insert(y.end(), row + 5, row + 176);
      EXPECT_EQ(row[4], 7.0F);
      EXPECT_EQ(row[176], 7.0F);
    }
    EXPECT_EQ(test::first_difference(y, product(values, 171, 256, x, rows), 171, kTolerance), "")
        << name_of(format);
  }
}

TEST(LinearHeads, MultipliesEachHeadWithItsOwnMatrix) {
  Random random(6);
  const auto backend = make_cpu_backend({.threads = 2});
  const std::int64_t heads = 3, in = 40, out = 72, x_stride = 50, out_stride = 80;
  for (const WeightFormat format : {WeightFormat::kF32, WeightFormat::kBF16}) {
    std::vector<float> values = random.normals(heads * out * in, 0.2F);
    const WeightStack stack = backend->prepare_stack_f32(format, heads, out, in, values);
    for (const std::int64_t rows : {1, 4, 33}) {
      std::vector<float> x = random.normals(rows * heads * x_stride);
      std::vector<float> y(static_cast<std::size_t>(rows * heads * out_stride), 3.0F);
      backend->linear_heads(rows_of(x, rows, heads * x_stride), x_stride, stack,
                            rows_of(y, rows, heads * out_stride), out_stride);
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t h = 0; h < heads; ++h) {
          for (std::int64_t o = 0; o < out_stride; ++o) {
            double want = 0;
            for (std::int64_t k = 0; o < out && k < in; ++k) {
              float w = values[static_cast<std::size_t>((h * out + o) * in + k)];
              if (format == WeightFormat::kBF16) w = static_cast<float>(BF16(w));
              want += static_cast<double>(w) *
                      x[static_cast<std::size_t>(r * heads * x_stride + h * x_stride + k)];
            }
            const float found = y[static_cast<std::size_t>(r * heads * out_stride + h * out_stride + o)];
            ASSERT_NEAR(found, o < out ? want : 3.0, 1e-5) << r << ' ' << h << ' ' << o;
          }
        }
      }
    }
  }
}

TEST(Embed, TakesRowsOfAShardAndZeroesTheRest) {
  Random random(7);
  const auto backend = make_cpu_backend({.threads = 2});
  for (const WeightFormat format : kFormats) {
    const test::OwnedMatrix matrix = test::random_matrix(random, format, 70, 96);
    const Weight table = backend->prepare({&matrix.view, 1});
    const std::vector<std::int32_t> ids = {100, 169, 99, 170, 133, -1, 100};
    std::vector<float> out(ids.size() * 96, 5.0F);
    backend->embed(ids.data(), table, 100, rows_of(out, static_cast<std::int64_t>(ids.size()), 96));
    std::vector<float> want(96);
    for (std::size_t t = 0; t < ids.size(); ++t) {
      std::fill(want.begin(), want.end(), 0.0F);
      if (ids[t] >= 100 && ids[t] < 170) matrix.view.dequantise_row(ids[t] - 100, want.data());
      EXPECT_EQ(test::first_bit_difference(out.data() + t * 96, want.data(), 96), "") << name_of(format) << t;
    }
  }
}

}  // namespace
}  // namespace tessera
