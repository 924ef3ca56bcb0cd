#include "backend/cpu/sampler.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "backend/cpu/logits_row.h"
#include "backend/uniform_draw.h"
#include "base/check.h"

namespace tessera {
namespace {

constexpr float kNone = -std::numeric_limits<float>::infinity();

// Below this a temperature means arg max: dividing by it would overflow.
constexpr float kGreedyTemperature = 1e-5F;

// Histogram of (peak - logit) / temperature for top-k and top-p: 64 steps for each e-fold, the last bucket
// takes everything less likely than exp(-32) of the peak. Some hundred tokens of a vocabulary of 163,840 fall
// into one step.
constexpr std::int64_t kBuckets = 2048;
constexpr float kBucketsPerFold = 64;

// Tokens whose weights are summed before the draw looks into them.
constexpr std::int64_t kBlock = 1024;

struct Work {
  Work(Carver carver, std::int64_t vocab)
      : raw(carver.take<float>(vocab)),
        weights(carver.take<float>(vocab)),
        tokens(carver.take<std::int32_t>(vocab + 16)),
        bucket(carver.take<std::int32_t>(vocab)),
        block_peaks(carver.take<float>((vocab + kPeakBlock - 1) / kPeakBlock)),
        block_sums(carver.take<double>((vocab + kBlock - 1) / kBlock)),
        bucket_sums(carver.take<double>(kBuckets)),
        bucket_counts(carver.take<std::int32_t>(kBuckets)),
        residual(carver.take<float>(vocab)),
        marks(carver.take<std::uint64_t>((vocab + 63) / 64)),
        bytes(carver.used()) {}
  float* raw;            // [vocab] logits before any change, where log-probs are wanted
  float* weights;        // [vocab]
  std::int32_t* tokens;  // [vocab] those that may still be drawn, in id order
  std::int32_t* bucket;  // [vocab] tokens of one bucket
  float* block_peaks;
  double* block_sums;
  double* bucket_sums;
  std::int32_t* bucket_counts;
  float* residual;       // [vocab] what a rejected draft leaves of the row's distribution
  std::uint64_t* marks;  // bit a token: penalised already
  std::size_t bytes;
};

bool in_vocab(std::int32_t token, std::span<const float> logits) {
  return token >= 0 && static_cast<std::size_t>(token) < logits.size();
}

void apply_masks(std::span<float> logits, const SamplingRow& row) {
  if (!row.allowed.empty()) {
    for (std::size_t i = 0; i < logits.size(); ++i) {
      const bool allowed = i / 64 < row.allowed.size() && ((row.allowed[i / 64] >> (i % 64)) & 1U) != 0;
      if (!allowed) logits[i] = kNone;
    }
  }
  for (const auto& [token, bias] : row.logit_bias) {
    if (in_vocab(token, logits)) logits[static_cast<std::size_t>(token)] += bias;
  }
  for (const std::int32_t token : row.banned) {
    if (in_vocab(token, logits)) logits[static_cast<std::size_t>(token)] = kNone;
  }
}

// Each token of the prompt or the output once, however often it occurs.
void apply_repetition(std::span<float> logits, const SamplingRow& row, const Work& work) {
  if (row.repetition_penalty == 1.0F) return;
  std::fill_n(work.marks, (logits.size() + 63) / 64, std::uint64_t{0});
  const auto penalise = [&](std::int32_t token) {
    if (!in_vocab(token, logits)) return;
    const auto at = static_cast<std::size_t>(token);
    const std::uint64_t bit = std::uint64_t{1} << (at % 64);
    if ((work.marks[at / 64] & bit) != 0) return;
    work.marks[at / 64] |= bit;
    float& logit = logits[at];
    logit = logit > 0 ? logit / row.repetition_penalty : logit * row.repetition_penalty;
  };
  for (const std::int32_t token : row.prompt_tokens) penalise(token);
  for (const auto& [token, count] : row.out_counts) {
    if (count > 0) penalise(token);
  }
}

void apply_counts(std::span<float> logits, const SamplingRow& row) {
  if (row.frequency_penalty == 0.0F && row.presence_penalty == 0.0F) return;
  for (const auto& [token, count] : row.out_counts) {
    if (count <= 0 || !in_vocab(token, logits)) continue;
    float& logit = logits[static_cast<std::size_t>(token)];
    logit -= row.frequency_penalty * static_cast<float>(count);
    logit -= row.presence_penalty;
  }
}

// Floors under which the tail of top-p is looked for, most promising first: a tail that may be dropped as a
// whole need not be sorted.
constexpr float kTailFloors[] = {0x1p-6F, 0x1p-9F, 0x1p-12F, 0x1p-16F, 0x1p-22F};

class Draw {
 public:
  Draw(std::span<float> logits, float peak, const SamplingRow& row, const Work& work)
      : logits_(logits.data()),
        vocab_(static_cast<std::int64_t>(logits.size())),
        peak_(peak),
        row_(row),
        work_(work),
        inverse_temperature_(1.0F / row.temperature) {}

  std::int32_t run() {
    filter();
    return all_ ? pick_of_all() : pick_of_kept();
  }

  // Rejection sampling: the draft stands with probability min(1, p / q); else a token is drawn from what p
  // has over q. Together that is a draw from p, for any q.
  std::int32_t run(const DraftDraw& draft) {
    filter();
    const double total = all_ ? row_sum(work_.weights, vocab_) : sum_of_kept();
    const double p = prob_of(draft.token, total);
    const double u = uniform_draw(row_.seed, row_.draw, DrawFor::kAccept);
    // Strictly below: u may be 0, and a token that may not be chosen must not pass then.
    if (u * static_cast<double>(draft.prob) < p) return draft.token;
    return pick_of_residual(draft, total);
  }

 private:
  // Leaves the tokens that may be drawn: all of the row, or kept().
  void filter() {
    row_weights(logits_, vocab_, peak_, inverse_temperature_, work_.weights);
    const bool cut_by_rank = row_.top_k > 0 && row_.top_k < vocab_;
    all_ = !cut_by_rank && !(row_.min_p > 0.0F) && !(row_.top_p < 1.0F);
    if (all_) return;

    // min_p and top_k are bounds on the logit; whoever passes both is left for top_p.
    if (cut_by_rank) {
      keep_at_least(logits_, kth_largest(row_.top_k));
      if (row_.min_p > 0.0F) drop_if([&](std::int32_t token) { return weight_of(token) < row_.min_p; });
    } else if (row_.min_p > 0.0F) {
      keep_at_least(work_.weights, std::min(row_.min_p, 1.0F));  // the most likely token has weight 1
    }
    if (row_.top_p < 1.0F) {
      if (cut_by_rank || row_.min_p > 0.0F) {
        keep_nucleus(0, sum_of_kept());
      } else {
        const double total = row_sum(work_.weights, vocab_);
        keep_nucleus(drop_tail(total), total);
      }
    }
  }

  // Under the distribution that is left; the kept tokens are in id order.
  double prob_of(std::int32_t token, double total) const {
    if (token < 0 || token >= vocab_) return 0;
    if (!all_ && !std::ranges::binary_search(kept(), token)) return 0;
    return static_cast<double>(weight_of(token)) / total;
  }

  std::int32_t pick_of_residual(const DraftDraw& draft, double total) const {
    const std::span<float> left(work_.residual, static_cast<std::size_t>(vocab_));
    const auto share = [&](std::int32_t token) {
      return static_cast<float>(static_cast<double>(weight_of(token)) / total);
    };
    std::ranges::fill(left, 0.0F);
    if (all_) {
      for (std::int64_t i = 0; i < vocab_; ++i)
        left[static_cast<std::size_t>(i)] = share(static_cast<std::int32_t>(i));
    } else {
      for (const std::int32_t token : kept()) left[static_cast<std::size_t>(token)] = share(token);
    }
    for (std::size_t i = 0; i < draft.probs.size(); ++i) {
      const std::int32_t token = draft.ids.empty() ? static_cast<std::int32_t>(i) : draft.ids[i];
      if (token < 0 || token >= vocab_) continue;
      float& value = left[static_cast<std::size_t>(token)];
      value = std::max(0.0F, value - draft.probs[i]);
    }
    // The rejected token has nothing left: p < q there. Rounding must not bring it back.
    if (draft.token >= 0 && draft.token < vocab_) left[static_cast<std::size_t>(draft.token)] = 0;
    const double target = uniform_draw(row_.seed, row_.draw) * row_sum(left.data(), vocab_);
    double before = 0;
    std::int32_t chosen = -1;
    for (std::size_t i = 0; i < left.size(); ++i) {
      if (left[i] <= 0) continue;
      chosen = static_cast<std::int32_t>(i);
      before += static_cast<double>(left[i]);
      if (before > target) break;
    }
    if (chosen >= 0) return chosen;
    // p and q agree but for rounding, so that nothing is left: a plain draw is as good.
    return all_ ? pick_of_all() : pick_of_kept();
  }

  std::span<std::int32_t> kept() const { return {work_.tokens, static_cast<std::size_t>(kept_)}; }
  float logit_of(std::int32_t token) const { return logits_[token]; }
  float weight_of(std::int32_t token) const { return work_.weights[token]; }

  void keep_at_least(const float* values, float least) {
    kept_ = collect_at_least(values, vocab_, least, work_.tokens);
  }

  template <class Drop>
  void drop_if(const Drop& drop) {
    const std::span<std::int32_t> all = kept();
    kept_ = std::remove_if(all.begin(), all.end(), drop) - all.begin();
  }

  double sum_of_kept() const {
    double sum = 0;
    for (const std::int32_t token : kept()) sum += static_cast<double>(weight_of(token));
    return sum;
  }

  // The k-th largest logit; tokens equal to it count as k-th as well.
  float kth_largest(std::int64_t k) {
    const std::int64_t blocks = (vocab_ + kPeakBlock - 1) / kPeakBlock;
    float bound = kNone;
    if (k <= blocks) {
      block_peaks(logits_, vocab_, work_.block_peaks);
      std::nth_element(work_.block_peaks, work_.block_peaks + (k - 1), work_.block_peaks + blocks,
                       std::greater<>());
      bound = work_.block_peaks[k - 1];
    }
    keep_at_least(logits_, bound);
    const std::span<std::int32_t> some = kept();
    const auto kth = some.begin() + (k - 1);
    std::nth_element(some.begin(), kth, some.end(),
                     [&](std::int32_t a, std::int32_t b) { return logit_of(a) > logit_of(b); });
    // Banned tokens are no candidates even when fewer than k others are left.
    return std::max(logit_of(*kth), std::numeric_limits<float>::lowest());
  }

  double may_drop(double total) const { return (1.0 - static_cast<double>(row_.top_p)) * total; }

  // Keeps the tokens above the highest floor below which everything may be dropped; returns what that was.
  double drop_tail(double total) {
    for (const float floor : kTailFloors) {
      const double tail = row_sum_below(work_.weights, vocab_, floor);
      if (tail > may_drop(total)) continue;
      keep_at_least(work_.weights, floor);
      return tail;
    }
    keep_at_least(work_.weights, std::numeric_limits<float>::min());
    return 0;
  }

  std::int64_t bucket_of(std::int32_t token) const {
    const float folds = (peak_ - logit_of(token)) * inverse_temperature_ * kBucketsPerFold;
    return folds < static_cast<float>(kBuckets - 1) ? static_cast<std::int64_t>(folds) : kBuckets - 1;
  }

  // Drops the least likely of the kept tokens while all the dropped together stay within 1 - p of the total;
  // of equals the higher id goes first.
  void keep_nucleus(double dropped, double total) {
    std::fill_n(work_.bucket_counts, kBuckets, 0);
    std::fill_n(work_.bucket_sums, kBuckets, 0.0);
    for (const std::int32_t token : kept()) {
      const std::int64_t b = bucket_of(token);
      ++work_.bucket_counts[b];
      work_.bucket_sums[b] += static_cast<double>(weight_of(token));
    }
    for (std::int64_t b = kBuckets - 1; b >= 0; --b) {
      if (work_.bucket_counts[b] == 0) continue;
      if (b > 0 && dropped + work_.bucket_sums[b] <= may_drop(total)) {
        dropped += work_.bucket_sums[b];
        continue;
      }
      const std::span<std::int32_t> edge = sorted_bucket(b);
      std::size_t stay = edge.size();
      while (stay > 0 && dropped + static_cast<double>(weight_of(edge[stay - 1])) <= may_drop(total)) {
        dropped += static_cast<double>(weight_of(edge[--stay]));
      }
      if (stay == 0 && b > 0) continue;
      const std::int32_t last =
          edge[stay == 0 ? 0 : stay - 1];  // p <= 0 would drop even the most likely token
      drop_if([&](std::int32_t token) {
        return logit_of(token) < logit_of(last) || (logit_of(token) == logit_of(last) && token > last);
      });
      return;
    }
  }

  // Tokens of one bucket, most likely first.
  std::span<std::int32_t> sorted_bucket(std::int64_t b) const {
    std::size_t count = 0;
    for (const std::int32_t token : kept()) {
      if (bucket_of(token) == b) work_.bucket[count++] = token;
    }
    const std::span<std::int32_t> tokens(work_.bucket, count);
    std::sort(tokens.begin(), tokens.end(), [&](std::int32_t x, std::int32_t y) {
      return logit_of(x) != logit_of(y) ? logit_of(x) > logit_of(y) : x < y;
    });
    return tokens;
  }

  // Inverse of the cumulative distribution, tokens in id order.
  std::int32_t pick_of_kept() const {
    const double target = uniform_draw(row_.seed, row_.draw) * sum_of_kept();
    double before = 0;
    std::int32_t chosen = kept().front();
    for (const std::int32_t token : kept()) {
      if (weight_of(token) <= 0) continue;
      chosen = token;  // stays the last where rounding carries the target past it
      before += static_cast<double>(weight_of(token));
      if (before > target) break;
    }
    return chosen;
  }

  std::int32_t pick_of_all() const {
    double total = 0;
    for (std::int64_t b = 0; b * kBlock < vocab_; ++b) {
      work_.block_sums[b] = row_sum(work_.weights + b * kBlock, std::min(kBlock, vocab_ - b * kBlock));
      total += work_.block_sums[b];
    }
    const double target = uniform_draw(row_.seed, row_.draw) * total;
    double before = 0;
    std::int64_t block = 0;
    while ((block + 1) * kBlock < vocab_ && before + work_.block_sums[block] <= target) {
      before += work_.block_sums[block++];
    }
    // Rounding may carry the target past the last token; then it is the last that has any weight.
    std::int64_t chosen = -1;
    for (std::int64_t i = block * kBlock; i < vocab_; ++i) {
      if (work_.weights[i] <= 0) continue;
      chosen = i;
      before += static_cast<double>(work_.weights[i]);
      if (before > target) break;
    }
    for (std::int64_t i = block * kBlock - 1; chosen < 0 && i >= 0; --i) {
      if (work_.weights[i] > 0) chosen = i;
    }
    return static_cast<std::int32_t>(chosen);
  }

  const float* logits_;
  std::int64_t vocab_;
  float peak_;
  const SamplingRow& row_;
  const Work& work_;
  float inverse_temperature_;
  bool all_ = true;        // no filter was on: every token may be drawn
  std::int64_t kept_ = 0;  // of work_.tokens
};

// Whether a comes before b: more likely, or as likely with the lower id.
bool more_likely(const TokenLogprob& a, const TokenLogprob& b) {
  return a.logprob != b.logprob ? a.logprob > b.logprob : a.token < b.token;
}

// The `count` most likely tokens, in order; logprob holds the logit until the caller subtracts.
void collect_top(std::span<const float> logits, std::int32_t count, std::vector<TokenLogprob>& top) {
  top.clear();
  const std::size_t most = std::min(logits.size(), static_cast<std::size_t>(std::max(count, 0)));
  if (most == 0) return;
  top.reserve(most);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (top.size() == most && logits[i] <= top.front().logprob) continue;
    if (top.size() == most) {
      std::pop_heap(top.begin(), top.end(), more_likely);  // the least likely to the end
      top.pop_back();
    }
    top.push_back({.token = static_cast<std::int32_t>(i), .logprob = logits[i]});
    std::push_heap(top.begin(), top.end(), more_likely);
  }
  std::sort_heap(top.begin(), top.end(), more_likely);
}

double log_sum_exp(std::span<const float> logits, float peak) {
  // In pieces, through a buffer that stays in the L1 cache.
  float weights[kBlock];
  double total = 0;
  for (std::size_t i = 0; i < logits.size(); i += kBlock) {
    const auto count = static_cast<std::int64_t>(std::min<std::size_t>(kBlock, logits.size() - i));
    row_weights(logits.data() + i, count, peak, 1.0F, weights);
    total += row_sum(weights, count);
  }
  return static_cast<double>(peak) + std::log(total);
}

}  // namespace

std::size_t sampler_scratch_bytes(std::int64_t vocab) { return Work(Carver(nullptr), vocab).bytes; }

void sample_row(std::span<float> logits, const SamplingRow& row, Scratch& scratch, SampledToken& result) {
  verify_row(logits, row, DraftDraw{}, scratch, result);
}

void verify_row(std::span<float> logits, const SamplingRow& row, const DraftDraw& draft, Scratch& scratch,
                SampledToken& result) {
  const auto vocab = static_cast<std::int64_t>(logits.size());
  const Work work(Carver(scratch.at_least(sampler_scratch_bytes(vocab))), vocab);
  result.token = -1;
  result.logprob = 0;
  result.rank = 0;
  result.invalid = true;
  result.top.clear();
  if (row_peak(logits.data(), vocab).has_nan) return;
  if (row.logprobs >= 0) std::copy(logits.begin(), logits.end(), work.raw);

  apply_masks(logits, row);
  apply_repetition(logits, row, work);
  apply_counts(logits, row);
  RowPeak top = row_peak(logits.data(), vocab);
  if (top.has_nan || top.peak == kNone) return;
  if (std::isinf(top.peak)) {  // infinitely likely tokens share everything
    for (float& logit : logits) logit = std::isinf(logit) && logit > 0 ? 0.0F : kNone;
    top.peak = 0;
  }
  if (row.temperature < kGreedyTemperature) {
    result.token =
        static_cast<std::int32_t>(std::find(logits.begin(), logits.end(), top.peak) - logits.begin());
  } else {
    Draw draw(logits, top.peak, row, work);
    result.token = draft.probs.empty() ? draw.run() : draw.run(draft);
  }
  result.invalid = false;
  if (row.logprobs >= 0) row_logprobs({work.raw, logits.size()}, result.token, row.logprobs, result);
}

void row_logprobs(std::span<const float> logits, std::int32_t target, std::int32_t top,
                  SampledToken& result) {
  TS_CHECK(in_vocab(target, logits), target, logits.size());
  const RowPeak peak = row_peak(logits.data(), static_cast<std::int64_t>(logits.size()));
  result.token = target;
  result.invalid = peak.has_nan || peak.peak == kNone;
  result.rank = 0;
  result.logprob = 0;
  result.top.clear();
  if (result.invalid) return;
  const double log_sum = log_sum_exp(logits, peak.peak);
  const auto logprob = [&](float logit) { return static_cast<float>(static_cast<double>(logit) - log_sum); };
  const float own = logits[static_cast<std::size_t>(target)];
  std::int32_t better = 0;
  for (std::size_t i = 0; i < logits.size(); ++i) {
    better += logits[i] > own || (logits[i] == own && static_cast<std::int32_t>(i) < target) ? 1 : 0;
  }
  result.rank = better + 1;
  result.logprob = logprob(own);
  collect_top(logits, top, result.top);
  for (std::size_t i = 0; i < result.top.size(); ++i) {
    result.top[i].rank = static_cast<std::int32_t>(i) + 1;
    result.top[i].logprob = logprob(result.top[i].logprob);
  }
}

}  // namespace tessera
