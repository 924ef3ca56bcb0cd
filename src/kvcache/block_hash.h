// The name of a full block's content: 128 bits that stand for its tokens and all tokens before them.
//
// Why no comparison of tokens follows a hit: the hash is SipHash-2-4 with 128 bits of output under a secret
// key that the process draws at start. Nobody without the key can look for collisions, and by chance two of
// 2^32 blocks collide with a probability of 2^-64. Comparing would cost 4 bytes a token and a chain of
// parents that may not be evicted.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tessera {

struct BlockHash {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
  friend auto operator<=>(const BlockHash&, const BlockHash&) = default;
};

struct HashKey {
  std::uint64_t low = 0;
  std::uint64_t high = 0;
};

// SipHash-2-4-128 (Aumasson and Bernstein) of bytes.
BlockHash siphash128(HashKey key, std::span<const std::byte> bytes);

// The parent of a sequence's first block. Sequences of different salts never share a block.
BlockHash root_hash(HashKey key, std::string_view salt);
BlockHash block_hash(HashKey key, BlockHash parent, std::span<const std::int32_t> tokens);

}  // namespace tessera
