#include "kvcache/block_hash.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <string>
#include <vector>

namespace tessera {
namespace {

constexpr HashKey kKey{.low = 0x0706050403020100U, .high = 0x0f0e0d0c0b0a0908U};

std::string hex(const BlockHash& hash) {
  std::array<unsigned char, 16> bytes{};
  std::memcpy(bytes.data(), &hash.low, 8);
  std::memcpy(bytes.data() + 8, &hash.high, 8);
  std::string text;
  for (const unsigned char b : bytes) {
    text += "0123456789abcdef"[b >> 4U];
    text += "0123456789abcdef"[b & 15U];
  }
  return text;
}

// The published vectors of SipHash-2-4-128: key 00..0f, input 00, 01, 02 ... of growing length.
TEST(BlockHash, AgreesWithThePublishedVectors) {
  EXPECT_EQ(hex(siphash128(kKey, {})), "a3817f04ba25a8e66df67214c7550293");
  const std::byte zero{0};
  EXPECT_EQ(hex(siphash128(kKey, {&zero, 1})), "da87c1d86b99af44347659119b22fc45");
}

TEST(BlockHash, DependsOnEveryTokenTheParentTheSaltAndTheKey) {
  const std::vector<std::int32_t> tokens{1, 2, 3, 4, 5};
  const BlockHash root = root_hash(kKey, "");
  const BlockHash base = block_hash(kKey, root, tokens);
  EXPECT_EQ(base, block_hash(kKey, root, tokens));
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    auto changed = tokens;
    changed[i] ^= 1 << 20;
    EXPECT_NE(base, block_hash(kKey, root, changed)) << i;
  }
  EXPECT_NE(base, block_hash(kKey, root_hash(kKey, "tenant"), tokens));
  EXPECT_NE(base, block_hash(kKey, base, tokens));
  EXPECT_NE(base, block_hash({.low = 1, .high = kKey.high}, root, tokens));
}

}  // namespace
}  // namespace tessera
