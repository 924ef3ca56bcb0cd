// How equal two configurations promise to be, and why: a pure function of what differs between them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "tensor/kv_format.h"

namespace tessera {

enum class ParityLevel : std::uint8_t {
  kBitEqual,    // every bit of every logit
  kTokenEqual,  // greedy tokens, save where two tokens were all but equally likely
  kBounded,     // the mean KL divergence of the next token stays under a bound
};
std::string_view name_of(ParityLevel level);  // "bit-equal", "token-equal", "bounded"
std::optional<ParityLevel> parse_parity_level(std::string_view name);

// Of a configuration, what can change a result.
struct ParitySetting {
  int ranks = 1;
  int context_ranks = 1;
  std::int32_t replicate_up_to = 0;
  std::string exchange;  // of partial attention
  bool expert_parallel = false;
  KvFormat kv_format = KvFormat::kF32;
  std::int32_t block_size = 64;
  std::int32_t max_num_batched_tokens = 0;  // the size of chunks
  std::int32_t max_num_seqs = 0;
  bool prefix_caching = true;
  bool batch_invariant = false;
  bool speculates = false;
  bool sums_follow_batch = false;  // of a device whose results may depend on who shares a step
};
std::string describe(const ParitySetting& setting);  // "T=4 D=2 kv=fp8 chunk=128", with what is unusual

struct ParityPromise {
  ParityLevel level = ParityLevel::kBitEqual;
  double mean_kl = 0;  // kBounded: nats a token
  std::string reason;
};

// Bounds of the mean KL divergence, in nats a row of logits; 0 for f32. Between rows of this format and f32
// rows (docs/explanation/design.md), and between two configurations that both use this format, where a sum's
// last bit now and then moves a rounded row by one step (docs/explanation/parity.md).
double kl_bound_to_f32(KvFormat format);
double kl_bound_within(KvFormat format);

ParityPromise promise_of(const ParitySetting& a, const ParitySetting& b);

}  // namespace tessera
