#include "backend/cuda_layout/staging_layout.h"

#include <gtest/gtest.h>

#include <vector>

namespace tessera::cuda {
namespace {

HostMatrix matrix(WeightFormat format, std::int64_t out, std::int64_t in, std::int64_t offset = 0) {
  static constexpr char kBytes[1] = {};  // never read
  return {.format = format,
          .out = out,
          .in = in,
          .data = kBytes,
          .data_stride = 0,
          .scale = kBytes,
          .scale_stride = 0,
          .scale_row_offset = offset};
}

TEST(StagingLayout, HoldsValuesAndScalesOfEveryFormat) {
  EXPECT_EQ(staged(matrix(WeightFormat::kF32, 3, 5)).bytes, 256);
  EXPECT_EQ(staged(matrix(WeightFormat::kBF16, 3, 128)).bytes, 768);
  const StagedRows int4 = staged(matrix(WeightFormat::kInt4Group32, 4, 7168));
  EXPECT_EQ(int4.scale_at, 4 * 3584);
  EXPECT_EQ(int4.bytes, 4 * 3584 + 1792);
  const StagedRows fp8 = staged(matrix(WeightFormat::kFp8Block128, 130, 129, 127));
  EXPECT_EQ(fp8.scale_rows, 3);  // rows 127 to 256 of blocks of 128
  EXPECT_EQ(fp8.scale_row_bytes, 8);
  EXPECT_EQ(fp8.bytes, 130 * 129 - 130 * 129 % 256 + 256 + 256);
}

TEST(StagingLayout, FitsAsManyRowsAsThereIsRoomFor) {
  for (const WeightFormat format :
       {WeightFormat::kF32, WeightFormat::kBF16, WeightFormat::kFp8Block128, WeightFormat::kInt4Group32}) {
    for (const std::int64_t offset : {0, 5, 127}) {
      if (offset > 0 && format != WeightFormat::kFp8Block128) continue;
      const HostMatrix all = matrix(format, 1000, 4096, offset);
      for (const std::int64_t room : {0, 256, 4095, 4096, 4608, 100'000, 1'000'000}) {
        const std::int64_t rows = rows_that_fit(all, room);
        EXPECT_LE(staged(all.row_range(0, rows)).bytes, rows > 0 ? room : 512)
            << name_of(format) << ' ' << room;
        if (rows < all.out) {
          EXPECT_GT(staged(all.row_range(0, rows + 1)).bytes, room) << name_of(format) << ' ' << room;
        }
      }
      EXPECT_EQ(rows_that_fit(all, std::int64_t{1} << 40), all.out);
    }
  }
}

}  // namespace
}  // namespace tessera::cuda
