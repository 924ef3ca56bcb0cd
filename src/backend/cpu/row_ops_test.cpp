#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/test_data.h"

namespace tessera {
namespace {

using test::Random;
using test::rows_of;

constexpr std::int64_t kWidths[] = {1, 7, 16, 33, 64, 576, 1001};
constexpr std::int64_t kRowCounts[] = {0, 1, 2, 17, 130};

TEST(RmsNorm, AgreesWithF64AtEveryWidth) {
  Random random(1);
  const auto backend = make_cpu_backend({.threads = 2});
  for (const std::int64_t width : kWidths) {
    const std::vector<float> weight = random.normals(width);
    const VectorWeight prepared = backend->prepare_vector(weight);
    for (const std::int64_t rows : kRowCounts) {
      std::vector<float> x = random.normals(rows * width, 3);
      std::vector<float> out(x.size());
      backend->rms_norm(rows_of(x, rows, width), prepared, 1e-5F, rows_of(out, rows, width));
      std::vector<double> want;
      for (std::int64_t r = 0; r < rows; ++r) {
        const float* row = x.data() + r * width;
        double square = 0;
        for (std::int64_t i = 0; i < width; ++i)
          square += static_cast<double>(row[i]) * static_cast<double>(row[i]);
        const double factor = 1 / std::sqrt(square / static_cast<double>(width) + 1e-5);
        for (std::int64_t i = 0; i < width; ++i) {
          want.push_back(static_cast<double>(row[i]) * factor *
                         static_cast<double>(weight[static_cast<std::size_t>(i)]));
        }
      }
      EXPECT_EQ(test::first_difference(out, want, width, 1e-6), "") << width;
    }
  }
}

TEST(RmsNorm, EpsilonCountsInsideTheRoot) {
  const auto backend = make_cpu_backend({.threads = 1});
  const VectorWeight weight = backend->prepare_vector(std::vector<float>{1, 1});
  std::vector<float> x = {3e-3F, 4e-3F};
  std::vector<float> out(2);
  backend->rms_norm(rows_of(x, 1, 2), weight, 1e-5F, rows_of(out, 1, 2));
  EXPECT_NEAR(out[0], 3e-3 / std::sqrt(12.5e-6 + 1e-5), 1e-6);
}

TEST(AddRmsNorm, EqualsAddThenNormBitForBit) {
  Random random(2);
  const auto backend = make_cpu_backend({.threads = 2});
  const std::int64_t width = 577, rows = 130;
  const VectorWeight weight = backend->prepare_vector(random.normals(width));
  std::vector<float> residual = random.normals(rows * width);
  std::vector<float> delta = random.normals(rows * width);
  std::vector<float> sum(residual.size()), normed(residual.size()), out(residual.size());
  backend->add(rows_of(residual, rows, width), rows_of(delta, rows, width), rows_of(sum, rows, width));
  backend->rms_norm(rows_of(sum, rows, width), weight, 1e-6F, rows_of(normed, rows, width));
  backend->add_rms_norm(rows_of(residual, rows, width), rows_of(delta, rows, width), weight, 1e-6F,
                        rows_of(out, rows, width));
  EXPECT_EQ(test::first_bit_difference(residual.data(), sum.data(), rows * width), "");
  EXPECT_EQ(test::first_bit_difference(out.data(), normed.data(), rows * width), "");
}

TEST(SiluMul, AgreesWithF64AlsoFarOut) {
  Random random(3);
  const auto backend = make_cpu_backend({.threads = 2});
  for (const std::int64_t width : kWidths) {
    const std::int64_t rows = 5;
    std::vector<float> gate_up = random.normals(rows * 2 * width, 4);
    for (std::size_t i = 0; i < gate_up.size(); i += 11) gate_up[i] *= 40;  // exp overflows on one side
    std::vector<float> out(static_cast<std::size_t>(rows * width));
    backend->silu_mul(rows_of(gate_up, rows, 2 * width), rows_of(out, rows, width));
    std::vector<double> want;
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t i = 0; i < width; ++i) {
        const double gate = static_cast<double>(gate_up[static_cast<std::size_t>(r * 2 * width + i)]);
        const double up = static_cast<double>(gate_up[static_cast<std::size_t>(r * 2 * width + width + i)]);
        want.push_back(gate / (1 + std::exp(-gate)) * up);
      }
    }
    EXPECT_EQ(test::first_difference(out, want, width, 1e-6), "") << width;
  }
}

TEST(SiluMul, KeepsNaN) {
  const auto backend = make_cpu_backend({.threads = 1});
  std::vector<float> gate_up(64, 1.0F);
  gate_up[3] = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> out(32);
  backend->silu_mul(rows_of(gate_up, 1, 64), rows_of(out, 1, 32));
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(std::isnan(out[i]), i == 3);
}

// YaRN frequencies of Kimi-K2.5 (base 50000, factor 64, ramp 8 to 20).
std::vector<float> kimi_frequencies() {
  std::vector<float> f;
  for (int i = 0; i < 32; ++i) {
    const double e = std::pow(50000.0, -2.0 * i / 64);
    const double ramp = std::clamp((i - 8) / 12.0, 0.0, 1.0);
    f.push_back(static_cast<float>(e * (1 - ramp) + e / 64 * ramp));
  }
  return f;
}

TEST(Rope, MatchesTheGoldenRotationOfInterleavedPairs) {
  const auto backend = make_cpu_backend({.threads = 1});
  const RopeTable table = backend->prepare_rope(1001, kimi_frequencies(), 1.0F);
  const std::vector<std::pair<std::int32_t, std::vector<double>>> golden = {
      {1,
       {-0.0178537, 0.0300324, -0.0054339, 0.0779358, 0.0225932, 0.1199255, 0.0579192, 0.1556703, 0.9531244,
        0.9687506, 0.9843746, 1.0000004}},
      {1000,
       {-0.0170528, 0.0304943, -0.0487559, -0.0610440, 0.1090520, 0.0547743, 0.0984649, -0.1337631, 0.9525295,
        0.9693355, 0.9839367, 1.0004313}}};
  for (const auto& [position, want] : golden) {
    std::vector<float> x(64);
    for (std::size_t j = 0; j < 64; ++j) x[j] = static_cast<float>(j + 1) / 64;
    backend->rope(rows_of(x, 1, 64), 1, 64, &position, table, RopePairs::kInterleaved);
    for (std::size_t i = 0; i < 12; ++i) {
      // The golden angles are f64; rounding position x frequency to f32 moves an angle of 700 rad by up to
      // 3e-5.
      EXPECT_NEAR(x[i < 8 ? i : i + 52], want[i], position == 1 ? 2e-7 : 2e-5) << position << ' ' << i;
    }
  }
}

TEST(Rope, RoundsTheAngleToF32AndTakesItsSineAccurately) {
  const auto backend = make_cpu_backend({.threads = 2});
  const std::vector<float> frequencies = kimi_frequencies();
  const RopeTable table = backend->prepare_rope(200001, frequencies, 0.5F);
  for (const std::int32_t position : {0, 1, 131071, 200000}) {
    for (std::size_t i = 0; i < 32; ++i) {
      const float angle = static_cast<float>(position) * frequencies[i];
      const auto at = static_cast<std::size_t>(position) * 32 + i;
      EXPECT_EQ(table.cos[at], static_cast<float>(std::cos(static_cast<double>(angle))) * 0.5F);
      EXPECT_EQ(table.sin[at], static_cast<float>(std::sin(static_cast<double>(angle))) * 0.5F);
    }
  }
}

TEST(Rope, TouchesOnlyTheFirstDimsOfEachHead) {
  Random random(4);
  const auto backend = make_cpu_backend({.threads = 2});
  const RopeTable table = backend->prepare_rope(100, std::vector<float>{1.0F, 0.3F, 0.01F}, 1.0F);
  const std::int64_t rows = 9, heads = 3, stride = 10;
  for (const RopePairs pairs : {RopePairs::kInterleaved, RopePairs::kHalves}) {
    const std::vector<float> before = random.normals(rows * 40);
    std::vector<float> x = before;
    std::vector<std::int32_t> positions;
    for (std::int64_t r = 0; r < rows; ++r)
      positions.push_back(static_cast<std::int32_t>(random.whole(0, 99)));
    // Heads begin at column 4.
    backend->rope(rows_of(x, rows, 40).col_range(4, 36), heads, stride, positions.data(), table, pairs);
    std::vector<double> want(before.begin(), before.end());
    for (std::int64_t r = 0; r < rows; ++r) {
      for (std::int64_t h = 0; h < heads; ++h) {
        for (std::int64_t i = 0; i < 3; ++i) {
          const auto base = static_cast<std::size_t>(r * 40 + 4 + h * stride);
          const std::size_t a = base + static_cast<std::size_t>(pairs == RopePairs::kInterleaved ? 2 * i : i);
          const std::size_t b =
              base + static_cast<std::size_t>(pairs == RopePairs::kInterleaved ? 2 * i + 1 : i + 3);
          const float frequency = i == 0 ? 1.0F : i == 1 ? 0.3F : 0.01F;
          const double angle =
              static_cast<double>(static_cast<float>(positions[static_cast<std::size_t>(r)]) * frequency);
          want[a] = static_cast<double>(before[a]) * std::cos(angle) -
                    static_cast<double>(before[b]) * std::sin(angle);
          want[b] = static_cast<double>(before[a]) * std::sin(angle) +
                    static_cast<double>(before[b]) * std::cos(angle);
        }
      }
    }
    EXPECT_EQ(test::first_difference(x, want, 40, 1e-6), "");
  }
}

TEST(GatherAndCopy, MoveRowsBetweenStrides) {
  const auto backend = make_cpu_backend({.threads = 1});
  std::vector<float> x = {1, 2, 3, 4, 5, 6, 7, 8, 9};
  std::vector<float> out(8, 0.0F);
  const std::int32_t rows[] = {2, 0, 2, 1};
  backend->gather_rows(rows_of(x, 3, 3).col_range(1, 2), rows, rows_of(out, 4, 2));
  EXPECT_EQ(out, (std::vector<float>{8, 9, 2, 3, 8, 9, 5, 6}));
  std::vector<std::int32_t> ids = {1, 2, 3, 4};
  std::vector<std::int32_t> copied(2);
  backend->copy(rows_of(ids, 2, 2).col_range(1, 1), rows_of(copied, 2, 1));
  EXPECT_EQ(copied, (std::vector<std::int32_t>{2, 4}));
}

}  // namespace
}  // namespace tessera
