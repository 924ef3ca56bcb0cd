#include "stack/object/background_hasher.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace tessera::stack {
namespace {

TEST(BackgroundHasher, GivesTheDigestOfWhateverPieces) {
  std::mt19937 random(1);
  std::string bytes(9'000'001, '\0');
  std::generate(bytes.begin(), bytes.end(), [&] { return static_cast<char>(random()); });
  for (const std::size_t size : {0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1, 9'000'001}) {
    const std::string_view whole = std::string_view(bytes).substr(0, size);
    for (const std::size_t piece : {4097, 1 << 20, 5'000'000}) {
      BackgroundHasher hasher;
      for (std::size_t at = 0; at < size; at += piece) hasher.add(whole.substr(at, piece));
      EXPECT_EQ("sha256:" + hasher.hex(), sha256_digest(whole)) << size << " in pieces of " << piece;
    }
  }
}

TEST(BackgroundHasher, MayBeLeftInTheMiddle) {
  BackgroundHasher hasher;
  for (int i = 0; i < 5; ++i) hasher.add(std::string(1 << 20, 'x'));
}

}  // namespace
}  // namespace tessera::stack
