#include "verify/promise.h"

#include <algorithm>

namespace tessera {
namespace {

// Twice the most that was measured with tessera-tiny and the built-in prompts over T = 1 to 8 and every D
// (docs/explanation/parity.md).
constexpr double kWithinBF16 = 4e-5;
constexpr double kWithinFp8 = 3.4e-4;
constexpr double kWithinFp8Grouped = 3e-4;

// Where activations are bf16 and sums follow the batch: twice the most that was measured with the same on an
// H200, over chunks of 64 and 2,048, every kind of draft, and the CPU (docs/explanation/parity.md).
constexpr double kFollowingBF16 = 8e-3;
constexpr double kFollowingFp8 = 1.1e-2;
constexpr double kFollowingFp8Grouped = 5e-3;

double kl_bound_following(KvFormat format) {
  switch (format) {
    case KvFormat::kF32:
    case KvFormat::kBF16:
      return kFollowingBF16;
    case KvFormat::kFp8:
      return kFollowingFp8;
    case KvFormat::kFp8Grouped:
      return kFollowingFp8Grouped;
  }
  return 0;
}

}  // namespace

std::string_view name_of(ParityLevel level) {
  switch (level) {
    case ParityLevel::kBitEqual:
      return "bit-equal";
    case ParityLevel::kTokenEqual:
      return "token-equal";
    case ParityLevel::kBounded:
      return "bounded";
  }
  return "?";
}

std::optional<ParityLevel> parse_parity_level(std::string_view name) {
  for (const ParityLevel level : {ParityLevel::kBitEqual, ParityLevel::kTokenEqual, ParityLevel::kBounded}) {
    if (name == name_of(level)) return level;
  }
  return std::nullopt;
}

std::string describe(const ParitySetting& s) {
  std::string text = "T=" + std::to_string(s.ranks) + " D=" + std::to_string(s.context_ranks) +
                     " kv=" + std::string(name_of(s.kv_format)) +
                     " chunk=" + std::to_string(s.max_num_batched_tokens);
  if (s.context_ranks > 1 && s.replicate_up_to > 0) text += " elastic=" + std::to_string(s.replicate_up_to);
  if (s.expert_parallel) text += " whole experts";
  if (s.batch_invariant) text += " batch-invariant";
  if (!s.prefix_caching) text += " no prefix cache";
  if (s.speculates) text += " speculating";
  return text;
}

double kl_bound_to_f32(KvFormat format) {
  switch (format) {
    case KvFormat::kF32:
      return 0;
    case KvFormat::kBF16:
      return 8e-5;
    case KvFormat::kFp8:
      return 1.3e-2;
    case KvFormat::kFp8Grouped:
      return 2.1e-3;
  }
  return 0;
}

double kl_bound_within(KvFormat format) {
  switch (format) {
    case KvFormat::kF32:
      return 0;
    case KvFormat::kBF16:
      return kWithinBF16;
    case KvFormat::kFp8:
      return kWithinFp8;
    case KvFormat::kFp8Grouped:
      return kWithinFp8Grouped;
  }
  return 0;
}

ParityPromise promise_of(const ParitySetting& a, const ParitySetting& b) {
  const bool same_sums = a.ranks == b.ranks && a.context_ranks == b.context_ranks &&
                         a.replicate_up_to == b.replicate_up_to && a.exchange == b.exchange &&
                         a.expert_parallel == b.expert_parallel;
  const bool same_steps = a.max_num_batched_tokens == b.max_num_batched_tokens &&
                          a.block_size == b.block_size && a.max_num_seqs == b.max_num_seqs &&
                          a.prefix_caching == b.prefix_caching;
  if (a.sums_follow_batch || b.sums_follow_batch) {
    const bool is_same = same_sums && same_steps && a.kv_format == b.kv_format &&
                         a.sums_follow_batch == b.sums_follow_batch && a.speculates == b.speculates;
    if (!is_same) {
      return {ParityLevel::kBounded,
              std::max(kl_bound_following(a.kv_format), kl_bound_following(b.kv_format)),
              "on this device sums follow the batch"};
    }
  }
  if (a.kv_format != b.kv_format) {
    return {ParityLevel::kBounded, std::max(kl_bound_to_f32(a.kv_format), kl_bound_to_f32(b.kv_format)),
            "rows of the cache are rounded differently"};
  }
  if (same_sums && a.batch_invariant == b.batch_invariant) {
    if (same_steps) return {ParityLevel::kBitEqual, 0, "the configurations do the same sums"};
    if (a.batch_invariant && a.context_ranks == 1)
      return {ParityLevel::kBitEqual, 0, "--batch-invariant fixes every sum, however prompts are cut"};
  }
  const std::string why = same_sums ? "prompts are cut, or attention is computed, in another way"
                                    : "sums run over other ranks in another order";
  if (a.kv_format != KvFormat::kF32) {
    return {ParityLevel::kBounded, kl_bound_within(a.kv_format),
            why + ", and rows of the cache are rounded after it"};
  }
  return {ParityLevel::kTokenEqual, 0, why};
}

}  // namespace tessera
