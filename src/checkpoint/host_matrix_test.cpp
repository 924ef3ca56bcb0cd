#include "checkpoint/host_matrix.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace tessera {
namespace {

using ::testing::ElementsAre;

// One int4 row of 32 inputs whose first word is `word`, the others all code 8 (zero).
std::vector<float> int4_row(std::uint32_t word, float scale) {
  const std::uint32_t words[4] = {word, 0x88888888u, 0x88888888u, 0x88888888u};
  const BF16 scales[1] = {BF16(scale)};
  const HostMatrix m{.format = WeightFormat::kInt4Group32,
                     .out = 1,
                     .in = 32,
                     .data = words,
                     .data_stride = 16,
                     .scale = scales,
                     .scale_stride = 2};
  std::vector<float> row(32);
  m.dequantise_row(0, row.data());
  return row;
}
std::vector<float> first_eight(std::vector<float> row) {
  row.resize(8);
  return row;
}

// The published test vectors of pack-quantized: q = -8..-1, q = 0..7, and a mixture.
TEST(HostMatrix, Int4NibblesAreOffsetBinaryLowestFirst) {
  EXPECT_THAT(first_eight(int4_row(0x76543210u, 1)), ElementsAre(-8, -7, -6, -5, -4, -3, -2, -1));
  EXPECT_THAT(first_eight(int4_row(0xFEDCBA98u, 1)), ElementsAre(0, 1, 2, 3, 4, 5, 6, 7));
  EXPECT_THAT(first_eight(int4_row(0x5B1978F0u, 0.5F)),
              ElementsAre(-4, 3.5F, 0, -0.5F, 0.5F, -3.5F, 1.5F, -1.5F));
}

TEST(HostMatrix, Fp8ScaleIsMultipliedAndTheLastBlockMayBeRagged) {
  // 130 x 129: four blocks, each with a scale of its own; every code is 1.0.
  std::vector<F8E4M3> data(130 * 129, F8E4M3(1.0F));
  const float scales[4] = {2, 3, 5, 7};
  const HostMatrix m{.format = WeightFormat::kFp8Block128,
                     .out = 130,
                     .in = 129,
                     .data = data.data(),
                     .data_stride = 129,
                     .scale = scales,
                     .scale_stride = 8};
  std::vector<float> row(129);
  m.dequantise_row(127, row.data());
  EXPECT_EQ(row[127], 2);
  EXPECT_EQ(row[128], 3);
  m.dequantise_row(128, row.data());
  EXPECT_EQ(row[127], 5);
  EXPECT_EQ(row[128], 7);
  EXPECT_EQ(m.bytes(), 130 * 129 + 16);
}

struct Stored {
  std::vector<std::byte> data;
  std::vector<std::byte> scale;
  HostMatrix matrix;
};

// Random but finite contents of every format.
Stored random_matrix(WeightFormat format, std::int64_t out, std::int64_t in, unsigned seed) {
  std::mt19937 random(seed);
  Stored stored;
  HostMatrix& m = stored.matrix;
  m.format = format;
  m.out = out;
  m.in = in;
  auto fill_floats = [&](std::vector<std::byte>& bytes, std::int64_t count, bool bf16) {
    bytes.resize(static_cast<std::size_t>(count * (bf16 ? 2 : 4)));
    for (std::int64_t i = 0; i < count; ++i) {
      const float value = static_cast<float>(random() % 2001) / 1000.0F - 1.0F;
      if (bf16) {
        reinterpret_cast<BF16*>(bytes.data())[i] = BF16(value);
      } else {
        reinterpret_cast<float*>(bytes.data())[i] = value;
      }
    }
  };
  switch (format) {
    case WeightFormat::kF32:
    case WeightFormat::kBF16:
      m.data_stride = in * (format == WeightFormat::kF32 ? 4 : 2);
      fill_floats(stored.data, out * in, format == WeightFormat::kBF16);
      break;
    case WeightFormat::kFp8Block128:
      m.data_stride = in;
      for (std::int64_t i = 0; i < out * in; ++i) {
        stored.data.push_back(static_cast<std::byte>(F8E4M3(static_cast<float>(random() % 100) - 50).bits));
      }
      m.scale_stride = (in + 127) / 128 * 4;
      fill_floats(stored.scale, (out + 127) / 128 * ((in + 127) / 128), false);
      break;
    case WeightFormat::kInt4Group32:
      m.data_stride = in / 2;
      for (std::int64_t i = 0; i < out * in / 2; ++i) stored.data.push_back(static_cast<std::byte>(random()));
      m.scale_stride = in / 32 * 2;
      fill_floats(stored.scale, out * in / 32, true);
      break;
  }
  m.data = stored.data.data();
  m.scale = stored.scale.empty() ? nullptr : stored.scale.data();
  return stored;
}

class EveryFormat : public ::testing::TestWithParam<WeightFormat> {};

// A shard of a shard holds the very values of the whole.
TEST_P(EveryFormat, ViewsOfViewsShowTheSameValues) {
  const std::int64_t out = 600;
  const std::int64_t in = 512;
  const Stored stored = random_matrix(GetParam(), out, in, 7);
  std::vector<float> whole(static_cast<std::size_t>(in));
  std::mt19937 random(11);
  for (int trial = 0; trial < 200; ++trial) {
    HostMatrix view = stored.matrix;
    std::int64_t row0 = 0;
    std::int64_t col0 = 0;
    for (int depth = 0; depth < 3; ++depth) {
      const std::int64_t first = random() % view.out;
      const std::int64_t count = 1 + random() % (view.out - first);
      view = view.row_range(first, count);
      row0 += first;
      std::int64_t left = random() % view.in;
      while (!view.can_cut_columns(left)) --left;
      std::int64_t right = left + 1 + random() % (view.in - left);
      while (!view.can_cut_columns(right)) ++right;
      view = view.col_range(left, right - left);
      col0 += left;
    }
    std::vector<float> part(static_cast<std::size_t>(view.in));
    const std::int64_t row = random() % view.out;
    view.dequantise_row(row, part.data());
    stored.matrix.dequantise_row(row0 + row, whole.data());
    for (std::int64_t i = 0; i < view.in; ++i) {
      ASSERT_EQ(part[static_cast<std::size_t>(i)], whole[static_cast<std::size_t>(col0 + i)])
          << "trial " << trial << " row " << row0 + row << " column " << col0 + i;
    }
  }
}

TEST_P(EveryFormat, EmptyRangesAreAllowedAndHoldNothing) {
  const Stored stored = random_matrix(GetParam(), 256, 256, 3);
  EXPECT_EQ(stored.matrix.row_range(256, 0).out, 0);
  EXPECT_EQ(stored.matrix.col_range(256, 0).in, 0);
  EXPECT_EQ(stored.matrix.row_range(0, 256).bytes(), stored.matrix.bytes());
}

INSTANTIATE_TEST_SUITE_P(Formats, EveryFormat,
                         ::testing::Values(WeightFormat::kF32, WeightFormat::kBF16,
                                           WeightFormat::kFp8Block128, WeightFormat::kInt4Group32));

TEST(HostMatrixDeathTest, CutsInsideAGroupAbort) {
  const Stored int4 = random_matrix(WeightFormat::kInt4Group32, 4, 64, 1);
  EXPECT_FALSE(int4.matrix.can_cut_columns(16));
  EXPECT_TRUE(int4.matrix.can_cut_columns(32));
  EXPECT_DEATH((void)int4.matrix.col_range(0, 16), "can_cut_columns");
  EXPECT_DEATH((void)int4.matrix.row_range(3, 2), "first \\+ count <= out");
  const Stored fp8 = random_matrix(WeightFormat::kFp8Block128, 4, 256, 1);
  EXPECT_FALSE(fp8.matrix.can_cut_columns(64));
}

}  // namespace
}  // namespace tessera
