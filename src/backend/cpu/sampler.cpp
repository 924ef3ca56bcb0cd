#include "backend/cpu/sampler.h"

#include <algorithm>
#include <cmath>
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
        candidates(carver.take<std::int32_t>(vocab)),
        block_sums(carver.take<double>((vocab + kBlock - 1) / kBlock)),
        bucket_sums(carver.take<double>(kBuckets)),
        bucket_counts(carver.take<std::int32_t>(kBuckets)),
        marks(carver.take<std::uint64_t>((vocab + 63) / 64)),
        bytes(carver.used()) {}
  float* raw;                // [vocab] logits before any change, where log-probs are wanted
  float* weights;            // [vocab]
  std::int32_t* candidates;  // [vocab] tokens of one bucket
  double* block_sums;
  double* bucket_sums;
  std::int32_t* bucket_counts;
  std::uint64_t* marks;  // bit a token: penalised already
  std::size_t bytes;
};

// Tokens that may be drawn: at least `least`, and of those equal to it ids up to last_equal.
struct Cut {
  float least = kNone;
  std::int32_t last_equal = std::numeric_limits<std::int32_t>::max();

  bool keeps(float logit, std::int32_t token) const {
    return logit > least || (logit == least && token <= last_equal);
  }
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

class Draw {
 public:
  Draw(std::span<float> logits, float peak, const SamplingRow& row, const Work& work)
      : logits_(logits), peak_(peak), row_(row), work_(work), inverse_temperature_(1.0F / row.temperature) {}

  std::int32_t run() {
    const auto vocab = static_cast<std::int64_t>(logits_.size());
    row_weights(logits_.data(), vocab, peak_, inverse_temperature_, work_.weights);
    if (row_.min_p > 0.0F) drop_below_min_p();
    const bool cut_by_rank = row_.top_k > 0 && row_.top_k < vocab;
    if (cut_by_rank) cut_.least = kth_largest(row_.top_k);
    if (row_.top_p < 1.0F) cut_ = nucleus(row_.top_p);
    if (cut_by_rank || row_.top_p < 1.0F) {
      for (std::int64_t i = 0; i < vocab; ++i) {
        if (!cut_.keeps(logits_[static_cast<std::size_t>(i)], static_cast<std::int32_t>(i)))
          work_.weights[i] = 0;
      }
    }
    return pick(vocab);
  }

 private:
  std::int64_t bucket_of(float logit) const {
    const float folds = (peak_ - logit) * inverse_temperature_ * kBucketsPerFold;
    return folds < static_cast<float>(kBuckets - 1) ? static_cast<std::int64_t>(folds) : kBuckets - 1;
  }

  // The most likely token has weight 1, so a weight is its probability's ratio to the largest one.
  void drop_below_min_p() {
    for (std::size_t i = 0; i < logits_.size(); ++i) {
      if (work_.weights[i] < row_.min_p && logits_[i] < peak_) {
        work_.weights[i] = 0;
        logits_[i] = kNone;
      }
    }
  }

  // Counts and sums the tokens above the cut, by bucket.
  void fill_buckets() {
    std::fill_n(work_.bucket_counts, kBuckets, 0);
    std::fill_n(work_.bucket_sums, kBuckets, 0.0);
    for (std::size_t i = 0; i < logits_.size(); ++i) {
      if (logits_[i] == kNone || logits_[i] < cut_.least) continue;
      const std::int64_t b = bucket_of(logits_[i]);
      ++work_.bucket_counts[b];
      work_.bucket_sums[b] += static_cast<double>(work_.weights[i]);
    }
  }

  // Tokens of one bucket above the cut, in id order.
  std::span<std::int32_t> collect(std::int64_t bucket) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < logits_.size(); ++i) {
      if (logits_[i] == kNone || logits_[i] < cut_.least || bucket_of(logits_[i]) != bucket) continue;
      work_.candidates[count++] = static_cast<std::int32_t>(i);
    }
    return {work_.candidates, count};
  }

  float logit_of(std::int32_t token) const { return logits_[static_cast<std::size_t>(token)]; }

  // Tokens equal to the k-th stay as well.
  float kth_largest(std::int64_t k) {
    fill_buckets();
    std::int64_t before = 0;
    std::int64_t bucket = 0;
    while (bucket < kBuckets && before + work_.bucket_counts[bucket] < k)
      before += work_.bucket_counts[bucket++];
    if (bucket == kBuckets) return kNone;  // fewer than k are left
    const std::span<std::int32_t> tokens = collect(bucket);
    const auto kth = tokens.begin() + (k - before - 1);
    std::nth_element(tokens.begin(), kth, tokens.end(),
                     [&](std::int32_t a, std::int32_t b) { return logit_of(a) > logit_of(b); });
    return logit_of(*kth);
  }

  // Drops the least likely tokens while all the dropped together stay within 1 - p; of equals the higher id
  // goes first.
  Cut nucleus(float p) {
    fill_buckets();
    double total = 0;
    for (std::int64_t b = kBuckets - 1; b >= 0; --b) total += work_.bucket_sums[b];
    const double may_drop = (1.0 - static_cast<double>(p)) * total;
    double dropped = 0;
    for (std::int64_t b = kBuckets - 1; b >= 0; --b) {
      if (work_.bucket_counts[b] == 0) continue;
      if (dropped + work_.bucket_sums[b] <= may_drop && b > 0) {
        dropped += work_.bucket_sums[b];
        continue;
      }
      const std::span<std::int32_t> tokens = collect(b);
      std::sort(tokens.begin(), tokens.end(), [&](std::int32_t x, std::int32_t y) {
        return logit_of(x) != logit_of(y) ? logit_of(x) > logit_of(y) : x < y;
      });
      std::size_t kept = tokens.size();
      while (kept > 0 && dropped + weight_of(tokens[kept - 1]) <= may_drop)
        dropped += weight_of(tokens[--kept]);
      if (kept > 0) return {.least = logit_of(tokens[kept - 1]), .last_equal = tokens[kept - 1]};
    }
    // Only p <= 0 drops everything: the most likely token stays.
    return {.least = peak_, .last_equal = first_at_peak()};
  }

  double weight_of(std::int32_t token) const { return static_cast<double>(work_.weights[token]); }

  std::int32_t first_at_peak() const {
    return static_cast<std::int32_t>(std::find(logits_.begin(), logits_.end(), peak_) - logits_.begin());
  }

  // Inverse of the cumulative distribution, tokens in id order.
  std::int32_t pick(std::int64_t vocab) {
    double total = 0;
    for (std::int64_t b = 0; b * kBlock < vocab; ++b) {
      work_.block_sums[b] = row_sum(work_.weights + b * kBlock, std::min(kBlock, vocab - b * kBlock));
      total += work_.block_sums[b];
    }
    const double target = uniform_draw(row_.seed, row_.draw) * total;
    double before = 0;
    std::int64_t block = 0;
    while ((block + 1) * kBlock < vocab && before + work_.block_sums[block] <= target) {
      before += work_.block_sums[block++];
    }
    // Rounding may carry the target past the last token; then it is the last that has any weight.
    std::int64_t chosen = -1;
    for (std::int64_t i = block * kBlock; i < vocab; ++i) {
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

  std::span<float> logits_;
  float peak_;
  const SamplingRow& row_;
  const Work& work_;
  float inverse_temperature_;
  Cut cut_;
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
    result.token = Draw(logits, top.peak, row, work).run();
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
