#include "kvcache/block_hash.h"

#include <bit>
#include <cstring>

namespace tessera {
namespace {

class SipState {
 public:
  explicit SipState(HashKey key)
      : v0_(key.low ^ 0x736f6d6570736575U),
        v1_(key.high ^ 0x646f72616e646f6dU ^ 0xeeU),  // 0xee: the variant with 128 bits of output
        v2_(key.low ^ 0x6c7967656e657261U),
        v3_(key.high ^ 0x7465646279746573U) {}

  void add(std::uint64_t word) {
    v3_ ^= word;
    round();
    round();
    v0_ ^= word;
  }

  void add(std::span<const std::byte> bytes) {
    const std::size_t whole = bytes.size() / 8 * 8;
    for (std::size_t i = 0; i < whole; i += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + i, 8);  // little-endian machines only, as everywhere here
      add(word);
    }
    tail_ = 0;
    if (whole < bytes.size()) std::memcpy(&tail_, bytes.data() + whole, bytes.size() - whole);
  }

  // length: of everything added, in bytes.
  BlockHash finish(std::size_t length) {
    add(tail_ | static_cast<std::uint64_t>(length) << 56U);
    BlockHash hash;
    v2_ ^= 0xeeU;
    for (int i = 0; i < 4; ++i) round();
    hash.low = v0_ ^ v1_ ^ v2_ ^ v3_;
    v1_ ^= 0xddU;
    for (int i = 0; i < 4; ++i) round();
    hash.high = v0_ ^ v1_ ^ v2_ ^ v3_;
    return hash;
  }

 private:
  void round() {
    v0_ += v1_;
    v2_ += v3_;
    v1_ = std::rotl(v1_, 13) ^ v0_;
    v3_ = std::rotl(v3_, 16) ^ v2_;
    v0_ = std::rotl(v0_, 32);
    v2_ += v1_;
    v0_ += v3_;
    v1_ = std::rotl(v1_, 17) ^ v2_;
    v3_ = std::rotl(v3_, 21) ^ v0_;
    v2_ = std::rotl(v2_, 32);
  }

  std::uint64_t v0_, v1_, v2_, v3_;
  std::uint64_t tail_ = 0;
};

}  // namespace

BlockHash siphash128(HashKey key, std::span<const std::byte> bytes) {
  SipState state(key);
  state.add(bytes);
  return state.finish(bytes.size());
}

BlockHash root_hash(HashKey key, std::string_view salt) {
  return siphash128(key, std::as_bytes(std::span(salt)));
}

BlockHash block_hash(HashKey key, BlockHash parent, std::span<const std::int32_t> tokens) {
  SipState state(key);
  state.add(parent.low);
  state.add(parent.high);
  const auto bytes = std::as_bytes(tokens);
  state.add(bytes);
  return state.finish(16 + bytes.size());
}

}  // namespace tessera
