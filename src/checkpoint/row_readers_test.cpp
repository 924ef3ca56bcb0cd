#include "checkpoint/row_readers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

namespace tessera {
namespace {

std::vector<std::byte> random_bytes(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

struct Case {
  std::int64_t rows, bytes, stride;
};

TEST(RowReaders, GatherRowsWhateverTheirWidthAndDistance) {
  constexpr std::int64_t kMiB = std::int64_t{1} << 20;
  RowReaders readers(3);
  for (const Case& c : {Case{1, 1, 1}, Case{1, 3 * kMiB + 5, 0}, Case{3 * kMiB, 1, 1}, Case{700, 1500, 4096},
                        Case{5, kMiB, kMiB}, Case{3, kMiB + 1, 2 * kMiB}, Case{0, 16, 16}, Case{16, 0, 16}}) {
    const auto size = static_cast<std::size_t>(std::max<std::int64_t>(0, c.rows - 1) * c.stride + c.bytes);
    const std::vector<std::byte> from = random_bytes(size, 1);
    const std::byte untouched{0xa5};
    std::vector<std::byte> to(static_cast<std::size_t>(c.rows * c.bytes) + 1, untouched);
    RowReaders::Batch batch;
    readers.read(
        {.to = to.data(), .from = from.data(), .from_stride = c.stride, .bytes = c.bytes, .rows = c.rows},
        batch);
    readers.wait(batch);
    EXPECT_TRUE(readers.is_done(batch));
    for (std::int64_t row = 0; row < c.rows; ++row) {
      ASSERT_EQ(std::memcmp(to.data() + row * c.bytes, from.data() + row * c.stride,
                            static_cast<std::size_t>(c.bytes)),
                0)
          << "row " << row << " of " << c.rows << " x " << c.bytes;
    }
    EXPECT_EQ(to.back(), untouched) << c.rows << " x " << c.bytes;
  }
}

TEST(RowReaders, BatchesEndApart) {
  RowReaders readers(2);
  std::vector<RowReaders::Batch> batches(50);
  const std::vector<std::byte> from = random_bytes(std::size_t{1} << 16, 2);
  std::vector<std::vector<std::byte>> to(batches.size(), std::vector<std::byte>(from.size()));
  for (std::size_t i = 0; i < batches.size(); ++i) {
    for (std::int64_t part = 0; part < 4; ++part) {
      readers.read(
          {.to = to[i].data() + part * 16384, .from = from.data() + part * 16384, .bytes = 16384, .rows = 1},
          batches[i]);
    }
  }
  for (std::size_t i = batches.size(); i-- > 0;) {
    readers.wait(batches[i]);
    EXPECT_EQ(to[i], from) << i;
  }
}

TEST(RowReaders, EndWhenAllIsDone) {
  const std::vector<std::byte> from = random_bytes(std::size_t{4} << 20, 3);
  std::vector<std::byte> to(from.size());
  RowReaders::Batch batch;
  {
    RowReaders readers(1);
    readers.read({.to = to.data(), .from = from.data(), .bytes = 4 << 20, .rows = 1}, batch);
  }
  EXPECT_EQ(to, from);
}

}  // namespace
}  // namespace tessera
