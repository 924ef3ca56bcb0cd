// Two transcripts beside each other, and whether they keep a promise.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "verify/promise.h"
#include "verify/transcript.h"

namespace tessera {

// Two tokens whose logits lie no further apart are equally likely, as far as f32 sums over other ranks can
// tell.
inline constexpr double kTieGap = 1e-3;

// KL(a || b) of two rows of logits, in nats; rounding may put it a little below 0, a NaN in a row makes it
// NaN.
double kl_divergence(const std::vector<float>& a, const std::vector<float>& b);

struct TokenDifference {
  std::size_t prompt = 0;
  std::string pass;           // "free-running", "teacher-forced decode", "teacher-forced prefill", "together"
  std::int32_t position = 0;  // of the query token whose successor differs
  std::int32_t a_token = -1;
  std::int32_t b_token = -1;
  double a_gap = 0;  // between the two most likely tokens; NaN when the row was not kept
  double b_gap = 0;
};

struct Comparison {
  std::int64_t tokens = 0;        // compared, free-running
  std::int64_t differing = 0;     // places where greedy tokens differ, forced rows included, ties not
  std::int64_t ties = 0;          // places where they differ within kTieGap
  std::int64_t rows = 0;          // of logits
  std::int64_t unequal_rows = 0;  // in any bit
  std::int64_t missing_rows = 0;  // kept on one side alone
  std::int64_t bad_rows = 0;      // with a NaN on either side
  double max_abs = 0;             // largest difference of a logit
  double mean_kl = 0;             // nats a row, KL(a || b)
  double max_kl = 0;
  std::optional<TokenDifference> first;  // a token that differs and is no tie
  std::optional<TokenDifference> first_tie;
  std::string largest_at;  // the row with the largest divergence: "prompt '129 tokens', position 77, decode"
};

// together: also what was said with all prompts at the same time.
Comparison compare(std::span<const VerifyPrompt> prompts, const Transcript& a, const Transcript& b,
                   bool together = true);

struct Judgement {
  bool kept = false;
  std::string sentence;  // why not; for a kept promise the figures
};
Judgement judge(const ParityPromise& promise, const Comparison& comparison);

std::string describe(const TokenDifference& difference, std::span<const VerifyPrompt> prompts);

}  // namespace tessera
