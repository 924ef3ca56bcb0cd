// The random number of one draw: a function of the request's seed and of how many tokens it has drawn, and of
// nothing else. Shared by all devices, so that a seeded request does not depend on where or beside whom it
// runs.
#pragma once

#include <cstdint>

namespace tessera {

// Finaliser of splitmix64 (Steele, Lea, Flood 2014): a bijection that passes the usual statistical batteries.
constexpr std::uint64_t mix_bits(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// What a number is drawn for. Speculative sampling needs up to three independent ones for a token.
enum class DrawFor : std::uint64_t {
  kToken = 0,   // the token itself, or what replaces a rejected draft
  kDraft = 1,   // the draft model's token
  kAccept = 2,  // whether the draft stands
};

// Uniform in [0, 1), 53 bits.
constexpr double uniform_draw(std::uint64_t seed, std::uint64_t draw, DrawFor purpose = DrawFor::kToken) {
  constexpr std::uint64_t kGolden = 0x9e3779b97f4a7c15ULL;
  constexpr std::uint64_t kPurpose = 0xd1b54a32d192ed03ULL;  // odd: distinct purposes move the seed apart
  const std::uint64_t moved = seed ^ (static_cast<std::uint64_t>(purpose) * kPurpose);
  const std::uint64_t bits = mix_bits(mix_bits(moved + kGolden) + (draw + 1) * kGolden);
  return static_cast<double>(bits >> 11) * 0x1p-53;
}

}  // namespace tessera
