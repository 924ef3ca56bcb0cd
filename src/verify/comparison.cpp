#include "verify/comparison.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

namespace tessera {
namespace {

struct Top2 {
  std::int32_t token = -1;
  double gap = std::numeric_limits<double>::infinity();
};
Top2 top2(const std::vector<float>& row) {
  std::size_t best = 0;
  for (std::size_t v = 1; v < row.size(); ++v) {
    if (row[v] > row[best]) best = v;  // ties to the lowest token, as sampling has it
  }
  double second = -std::numeric_limits<double>::infinity();
  for (std::size_t v = 0; v < row.size(); ++v) {
    if (v != best) second = std::max<double>(second, row[v]);
  }
  return {static_cast<std::int32_t>(best), row[best] - second};
}

double log_sum_exp(const std::vector<float>& row) {
  const double top = *std::ranges::max_element(row);
  double sum = 0;
  for (const float x : row) sum += std::exp(x - top);
  return top + std::log(sum);
}

bool has_nan(const std::vector<float>& row) {
  return std::ranges::any_of(row, [](float x) { return std::isnan(x); });
}

std::string text(double value, const char* format = "%.3g") {
  char buffer[48];
  std::snprintf(buffer, sizeof buffer, format, value);
  return buffer;
}

class Comparing {
 public:
  explicit Comparing(std::span<const VerifyPrompt> prompts) : prompts_(prompts) {}

  void tokens(std::size_t prompt, const std::string& pass, const std::vector<std::int32_t>& a,
              const std::vector<std::int32_t>& b, const LogitRows& a_rows, const LogitRows& b_rows) {
    const std::size_t shorter = std::min(a.size(), b.size());
    result_.tokens += static_cast<std::int64_t>(std::max(a.size(), b.size()));
    const auto at = static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
    if (at == shorter && a.size() == b.size()) return;
    // What follows a first difference follows from it.
    const auto position = static_cast<std::int32_t>(prompts_[prompt].tokens.size() + at) - 1;
    TokenDifference difference{.prompt = prompt,
                               .pass = pass,
                               .position = position,
                               .a_token = at < a.size() ? a[at] : -1,
                               .b_token = at < b.size() ? b[at] : -1,
                               .a_gap = gap_at(a_rows, position),
                               .b_gap = gap_at(b_rows, position)};
    note(std::move(difference));
  }

  void rows(std::size_t prompt, const std::string& pass, const LogitRows& a, const LogitRows& b) {
    for (const auto& [position, a_row] : a) {
      const auto found = b.find(position);
      if (found == b.end()) {
        ++result_.missing_rows;
        continue;
      }
      row(prompt, pass, position, a_row, found->second);
    }
    for (const auto& [position, b_row] : b) result_.missing_rows += a.contains(position) ? 0 : 1;
  }

  Comparison finish() {
    if (result_.rows > result_.bad_rows)
      result_.mean_kl = kl_sum_ / static_cast<double>(result_.rows - result_.bad_rows);
    return std::move(result_);
  }

 private:
  static double gap_at(const LogitRows& rows, std::int32_t position) {
    const auto found = rows.find(position);
    return found == rows.end() ? std::numeric_limits<double>::quiet_NaN() : top2(found->second).gap;
  }

  void note(TokenDifference difference) {
    // A tie for both: the gap of the side that is right must be as small as the other's.
    const bool tie = difference.a_gap <= kTieGap && difference.b_gap <= kTieGap;
    ++(tie ? result_.ties : result_.differing);
    std::optional<TokenDifference>& first = tie ? result_.first_tie : result_.first;
    if (!first) first = std::move(difference);
  }

  void row(std::size_t prompt, const std::string& pass, std::int32_t position, const std::vector<float>& a,
           const std::vector<float>& b) {
    ++result_.rows;
    if (a.size() != b.size() || has_nan(a) || has_nan(b)) {
      ++result_.bad_rows;
      ++result_.unequal_rows;
      return;
    }
    if (std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0) return;
    ++result_.unequal_rows;
    for (std::size_t v = 0; v < a.size(); ++v)
      result_.max_abs = std::max(result_.max_abs, std::abs(static_cast<double>(a[v]) - b[v]));
    const double kl = std::max(0.0, kl_divergence(a, b));
    kl_sum_ += kl;
    if (kl > result_.max_kl) {
      result_.max_kl = kl;
      result_.largest_at =
          "prompt '" + prompts_[prompt].name + "', position " + std::to_string(position) + ", " + pass;
    }
    const Top2 best_a = top2(a);
    const Top2 best_b = top2(b);
    if (best_a.token == best_b.token) return;
    note({.prompt = prompt,
          .pass = pass,
          .position = position,
          .a_token = best_a.token,
          .b_token = best_b.token,
          .a_gap = best_a.gap,
          .b_gap = best_b.gap});
  }

  std::span<const VerifyPrompt> prompts_;
  Comparison result_;
  double kl_sum_ = 0;
};

}  // namespace

double kl_divergence(const std::vector<float>& a, const std::vector<float>& b) {
  const double a_sum = log_sum_exp(a);
  const double b_sum = log_sum_exp(b);
  double kl = 0;
  for (std::size_t v = 0; v < a.size(); ++v) {
    const double log_p = a[v] - a_sum;
    kl += std::exp(log_p) * (log_p - (b[v] - b_sum));
  }
  return kl;
}

Comparison compare(std::span<const VerifyPrompt> prompts, const Transcript& a, const Transcript& b,
                   bool together) {
  Comparing comparing(prompts);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    comparing.tokens(i, "free-running", a[i].free, b[i].free, a[i].decoded, b[i].decoded);
    comparing.rows(i, "teacher-forced decode", a[i].decoded, b[i].decoded);
    comparing.rows(i, "teacher-forced prefill", a[i].prefilled, b[i].prefilled);
    if (together) comparing.tokens(i, "together", a[i].together, b[i].together, a[i].decoded, b[i].decoded);
  }
  return comparing.finish();
}

Judgement judge(const ParityPromise& promise, const Comparison& c) {
  if (c.bad_rows > 0) return {false, std::to_string(c.bad_rows) + " rows of logits hold a NaN"};
  if (c.missing_rows > 0)
    return {false, std::to_string(c.missing_rows) + " rows of logits were made by one configuration alone"};
  if (c.rows == 0) return {false, "no row of logits was compared"};
  switch (promise.level) {
    case ParityLevel::kBitEqual:
      if (c.differing + c.ties > 0)
        return {false, std::to_string(c.differing + c.ties) + " greedy tokens differ"};
      if (c.unequal_rows > 0)
        return {false, std::to_string(c.unequal_rows) + " of " + std::to_string(c.rows) +
                           " rows of logits differ in some bit, by " + text(c.max_abs) + " at most"};
      return {true, std::to_string(c.rows) + " rows of logits are equal to the bit"};
    case ParityLevel::kTokenEqual:
      if (c.differing > 0) return {false, std::to_string(c.differing) + " greedy tokens differ"};
      return {true, "greedy tokens are equal" +
                        (c.ties > 0 ? ", save " + std::to_string(c.ties) + " ties" : std::string()) +
                        "; logits differ by " + text(c.max_abs) + " at most"};
    case ParityLevel::kBounded:
      if (!(c.mean_kl <= promise.mean_kl))
        return {false,
                "the mean KL divergence is " + text(c.mean_kl) + " nats, more than " + text(promise.mean_kl)};
      return {true,
              "the mean KL divergence is " + text(c.mean_kl) + " nats, at most " + text(promise.mean_kl)};
  }
  return {};
}

std::string describe(const TokenDifference& d, std::span<const VerifyPrompt> prompts) {
  return "prompt '" + prompts[d.prompt].name + "', " + d.pass + ", after position " +
         std::to_string(d.position) + ": token " + std::to_string(d.a_token) + " (top-2 gap " +
         text(d.a_gap) + ") against " + std::to_string(d.b_token) + " (gap " + text(d.b_gap) + ")";
}

}  // namespace tessera
