#include "verify/promise.h"

#include <algorithm>

namespace tessera {
namespace {

// Means of the KL divergence, nats a row of logits; each is twice the most that was measured with
// tessera-tiny and the built-in prompts (docs/explanation/parity.md).
struct KlBounds {
  double to_f32;     // from f32 rows
  double within;     // T = 1 to 8 and every D, against one rank
  double following;  // on a GPU whose sums follow the batch: other chunks, drafts on and off, and the CPU
};
KlBounds bounds_of(KvFormat format) {
  switch (format) {
    case KvFormat::kF32:
      return {.to_f32 = 0, .within = 0, .following = 8e-3};
    case KvFormat::kBF16:
      return {.to_f32 = 8e-5, .within = 4e-5, .following = 8e-3};
    case KvFormat::kFp8:
      return {.to_f32 = 1.3e-2, .within = 3.4e-4, .following = 1.1e-2};
    case KvFormat::kFp8Grouped:
      return {.to_f32 = 2.1e-3, .within = 3e-4, .following = 5e-3};
  }
  return {};
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

double kl_bound_to_f32(KvFormat format) { return bounds_of(format).to_f32; }
double kl_bound_within(KvFormat format) { return bounds_of(format).within; }

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
              std::max(bounds_of(a.kv_format).following, bounds_of(b.kv_format).following),
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
