#include "speculative/verification.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <random>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/sampling_reference.h"
#include "backend/uniform_draw.h"
#include "base/slowdown.h"
#include "speculative/draft_draw.h"

namespace tessera {
namespace {

using test::chi_square_deviation;
using test::distribution;
using testing::ElementsAre;
using testing::Pair;

constexpr std::int32_t kVocab = 5;
constexpr std::int32_t kEnd = 4;
constexpr std::int32_t kLength = 3;  // tokens of a request
constexpr std::int64_t kRequests = 200'000 / kSlowdown;

using Counts = std::vector<std::pair<std::int32_t, std::int32_t>>;

// A language model: logits depend on the token before.
struct Bigram {
  explicit Bigram(unsigned seed, float scale) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, scale);
    for (auto& row : logits) {
      row.resize(kVocab);
      for (float& x : row) x = normal(random);
    }
  }
  std::vector<float> logits[kVocab];
};

void count(Counts& counts, std::int32_t token) {
  for (auto& [known, times] : counts) {
    if (known == token) {
      ++times;
      return;
    }
  }
  counts.emplace_back(token, 1);
}

struct Setting {
  SamplingRow row = {};
  std::int32_t min_tokens = 0;
};

// How token number `index` is to be drawn, without any drafts.
SamplingRow row_at(const Setting& setting, const std::vector<std::int32_t>& output, const Counts& counts,
                   std::span<const std::int32_t> end_tokens) {
  SamplingRow row = setting.row;
  row.draw = output.size();
  row.out_counts = counts;
  if (static_cast<std::int32_t>(output.size()) < setting.min_tokens) row.banned = end_tokens;
  return row;
}

// Probability of every output of kLength tokens (end tokens do not end it here), from the reference.
std::vector<double> joint(const Bigram& target, const Setting& setting) {
  const std::vector<std::int32_t> end_tokens = {kEnd};
  std::vector<double> result;
  std::vector<std::int32_t> output;
  const auto extend = [&](auto&& self, double probability) -> void {
    if (output.size() == kLength) {
      result.push_back(probability);
      return;
    }
    Counts counts;
    for (const std::int32_t token : output) count(counts, token);
    const std::int32_t before = output.empty() ? 0 : output.back();
    const auto p = distribution(target.logits[before], row_at(setting, output, counts, end_tokens));
    for (std::int32_t token = 0; token < kVocab; ++token) {
      const auto at = p.find(token);
      output.push_back(token);
      self(self, at == p.end() ? 0 : probability * at->second);
      output.pop_back();
    }
  };
  extend(extend, 1);
  return result;
}

enum class Proposes { kDrawn, kChosen, kDrawnUntold };

// The whole loop: draft k tokens, verify, emit, until the request has its tokens.
std::vector<std::int32_t> speculate(Backend& backend, const Bigram& target, const Bigram& draft,
                                    const Setting& setting, Proposes proposes, std::int32_t k,
                                    VerificationRows& rows, std::int64_t& steps) {
  const std::vector<std::int32_t> end_tokens = {kEnd};
  std::vector<std::int32_t> output;
  Counts counts;
  while (output.size() < kLength) {
    std::vector<std::int32_t> drafts;
    std::vector<float> probs;
    std::int32_t before = output.empty() ? 0 : output.back();
    for (std::int32_t i = 0; i < k; ++i) {
      std::vector<float> q(kVocab);
      const float temperature = setting.row.temperature > 0 ? setting.row.temperature : 1.0F;
      const double u =
          uniform_draw(setting.row.seed, output.size() + static_cast<std::size_t>(i), DrawFor::kDraft);
      before = draw_draft(draft.logits[before], temperature, u, q);
      if (proposes == Proposes::kChosen) {
        before = static_cast<std::int32_t>(std::ranges::max_element(q) - q.begin());
      }
      drafts.push_back(before);
      if (proposes == Proposes::kDrawn) probs.insert(probs.end(), q.begin(), q.end());
    }
    rows.clear();
    rows.add({.next = row_at(setting, output, counts, end_tokens),
              .drafts = drafts,
              .min_tokens_left = setting.min_tokens - static_cast<std::int32_t>(output.size()),
              .end_tokens = end_tokens,
              .probs = probs});
    std::vector<float> logits;
    for (std::int32_t i = 0; i <= k; ++i) {
      const std::int32_t from =
          i > 0 ? drafts[static_cast<std::size_t>(i) - 1] : (output.empty() ? 0 : output.back());
      logits.insert(logits.end(), target.logits[from].begin(), target.logits[from].end());
    }
    std::vector<SampledToken> results(static_cast<std::size_t>(k) + 1);
    backend.verify(Tensor::dense(logits.data(), DType::kF32, k + 1, kVocab), rows.rows(), rows.drafts(),
                   results);
    const std::int32_t accepted = accepted_drafts(drafts, results);
    for (std::int32_t i = 0; i <= accepted && output.size() < kLength; ++i) {
      output.push_back(results[static_cast<std::size_t>(i)].token);
      count(counts, output.back());
    }
    ++steps;
  }
  return output;
}

std::vector<Setting> settings() {
  static const std::vector<std::pair<std::int32_t, float>> bias = {{1, 1.0F}, {3, -1.0F}};
  std::vector<Setting> all(6);
  all[1].row.temperature = 0.6F;
  all[1].row.top_p = 0.8F;
  all[2].row.top_k = 3;
  all[2].row.min_p = 0.05F;
  all[2].row.temperature = 1.4F;
  all[3].row.repetition_penalty = 1.7F;
  all[3].row.frequency_penalty = 0.7F;
  all[3].row.presence_penalty = 0.3F;
  all[4].min_tokens = 2;
  all[4].row.logit_bias = bias;
  all[5] = all[3];
  all[5].min_tokens = 2;
  all[5].row.top_p = 0.9F;
  return all;
}

class Law : public testing::TestWithParam<std::size_t> {};

// Whole outputs: of three tokens, each of which may be a draft that stood, one that was replaced, or a bonus;
// penalties and min_tokens look at drafts of the same step.
TEST_P(Law, OutputsHaveTheTargetsJointDistribution) {
  const Bigram target(1, 1.5F), draft(2, 1.0F);
  const auto backend = make_cpu_backend({.threads = 1});
  VerificationRows rows;
  Setting setting = settings()[GetParam()];
  const std::vector<double> expected = joint(target, setting);
  std::vector<Proposes> kinds = {Proposes::kDrawn, Proposes::kChosen};
  if (GetParam() == 0) kinds.push_back(Proposes::kDrawnUntold);
  for (const Proposes proposes : kinds) {
    std::vector<std::int64_t> found(expected.size());
    std::int64_t steps = 0;
    for (std::int64_t r = 0; r < kRequests; ++r) {
      setting.row.seed = static_cast<std::uint64_t>(r) * 1'000'003 + GetParam();
      std::size_t cell = 0;
      for (const std::int32_t token : speculate(*backend, target, draft, setting, proposes, 2, rows, steps)) {
        cell = cell * kVocab + static_cast<std::size_t>(token);
      }
      ++found[cell];
    }
    EXPECT_LT(chi_square_deviation(expected, found), 5) << "proposals of kind " << static_cast<int>(proposes);
    EXPECT_LT(steps, kRequests * kLength) << "some drafts stood";
    EXPECT_GT(steps, kRequests) << "some did not";
  }
}
INSTANTIATE_TEST_SUITE_P(Settings, Law, testing::Range(std::size_t{0}, std::size_t{6}));

// Chosen drafts, any number of them: a request's tokens are those of the same seed without speculation.
TEST(Seeds, HoldWithAnyNumberOfDrafts) {
  const Bigram target(3, 1.5F), draft(4, 1.0F);
  const auto backend = make_cpu_backend({.threads = 1});
  VerificationRows rows;
  std::int64_t steps = 0;
  for (Setting setting : settings()) {
    for (std::uint64_t seed = 0; seed < 200; ++seed) {
      setting.row.seed = seed;
      const auto plain = speculate(*backend, target, draft, setting, Proposes::kChosen, 0, rows, steps);
      for (const std::int32_t k : {1, 2, 5}) {
        for (const Proposes proposes : {Proposes::kChosen, Proposes::kDrawnUntold}) {
          EXPECT_EQ(speculate(*backend, target, draft, setting, proposes, k, rows, steps), plain);
        }
      }
    }
  }
}

TEST(Seeds, GreedyOutputIsTheGreedyOutput) {
  const Bigram target(5, 1.5F), draft(6, 1.0F);
  const auto backend = make_cpu_backend({.threads = 1});
  VerificationRows rows;
  std::int64_t steps = 0;
  Setting setting;
  setting.row.temperature = 0;
  const auto plain = speculate(*backend, target, draft, setting, Proposes::kChosen, 0, rows, steps);
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    setting.row.seed = seed;
    EXPECT_EQ(speculate(*backend, target, draft, setting, Proposes::kDrawn, 3, rows, steps), plain);
  }
}

TEST(VerificationRows, LaterRowsCountEarlierDraftsOnce) {
  const Counts counts = {{7, 2}, {9, 1}};
  const std::vector<std::int32_t> drafts = {9, 3, 3};
  const std::vector<std::int32_t> end_tokens = {11};
  SamplingRow next{.frequency_penalty = 0.5F, .seed = 5, .draw = 40, .out_counts = counts};
  VerificationRows rows;
  for (int step = 0; step < 2; ++step) {  // memory is used again
    rows.clear();
    rows.add({.next = next, .drafts = drafts, .min_tokens_left = 2, .end_tokens = end_tokens});
    rows.add({.next = next, .drafts = {}, .end_tokens = end_tokens});
    ASSERT_EQ(rows.rows().size(), 5U);
    EXPECT_THAT(rows.rows()[0].out_counts, ElementsAre(Pair(7, 2), Pair(9, 1)));
    EXPECT_THAT(rows.rows()[1].out_counts, ElementsAre(Pair(7, 2), Pair(9, 2)));
    EXPECT_THAT(rows.rows()[2].out_counts, ElementsAre(Pair(7, 2), Pair(9, 2), Pair(3, 1)));
    EXPECT_THAT(rows.rows()[3].out_counts, ElementsAre(Pair(7, 2), Pair(9, 2), Pair(3, 2)));
    EXPECT_THAT(rows.rows()[4].out_counts, ElementsAre(Pair(7, 2), Pair(9, 1)));
    EXPECT_THAT(rows.rows()[0].banned, ElementsAre(11));
    EXPECT_THAT(rows.rows()[1].banned, ElementsAre(11));
    EXPECT_TRUE(rows.rows()[2].banned.empty()) << "two tokens are there by then";
    EXPECT_EQ(rows.rows()[3].draw, 43U);
    EXPECT_EQ(rows.drafts()[2].token, 3);
    EXPECT_EQ(rows.drafts()[3].token, -1) << "the bonus row has no draft";
  }
}

TEST(VerificationRows, ProbsOfAReducedVocabularyAreFoundThroughItsIds) {
  const std::vector<std::int32_t> drafts = {30, 10};
  const std::vector<std::int32_t> ids = {10, 20, 30};
  const std::vector<float> probs = {0.1F, 0.2F, 0.7F, 0.5F, 0.4F, 0.1F};
  VerificationRows rows;
  rows.add({.next = {}, .drafts = drafts, .end_tokens = {}, .probs = probs, .token_ids = ids});
  EXPECT_EQ(rows.drafts()[0].prob, 0.7F);
  EXPECT_EQ(rows.drafts()[1].prob, 0.5F);
  EXPECT_EQ(rows.drafts()[1].ids.size(), 3U);
}

TEST(AcceptedDrafts, EndAtTheFirstDifferenceOrInvalidRow) {
  const auto token = [](std::int32_t id, bool invalid = false) {
    SampledToken t;
    t.token = id;
    t.invalid = invalid;
    return t;
  };
  const std::vector<std::int32_t> drafts = {1, 2, 3};
  EXPECT_EQ(accepted_drafts(drafts, std::vector{token(1), token(2), token(3), token(9)}), 3);
  EXPECT_EQ(accepted_drafts(drafts, std::vector{token(1), token(5), token(3), token(9)}), 1);
  EXPECT_EQ(accepted_drafts(drafts, std::vector{token(8), token(2), token(3), token(9)}), 0);
  EXPECT_EQ(accepted_drafts(drafts, std::vector{token(1), token(-1, true), token(3), token(9)}), 1);
  EXPECT_EQ(accepted_drafts({}, std::vector{token(4)}), 0);
}

TEST(DrawDraft, InvertsTheCumulativeDistributionAndRefusesNaN) {
  std::vector<float> probs(3);
  const std::vector<float> logits = {0, std::log(2.0F), -std::numeric_limits<float>::infinity()};
  EXPECT_EQ(draw_draft(logits, 1.0F, 0.0, probs), 0);
  EXPECT_EQ(draw_draft(logits, 1.0F, 0.3, probs), 0);
  EXPECT_EQ(draw_draft(logits, 1.0F, 0.34, probs), 1);
  EXPECT_EQ(draw_draft(logits, 1.0F, 0.9999999999, probs), 1) << "never an impossible one";
  EXPECT_NEAR(probs[1], 2.0 / 3, 1e-6);
  EXPECT_EQ(probs[2], 0);
  EXPECT_EQ(draw_draft(std::vector<float>{1, NAN, 2}, 1.0F, 0.5, probs), -1);
  EXPECT_EQ(draw_draft(std::vector<float>(3, -HUGE_VALF), 1.0F, 0.5, probs), -1);
}

}  // namespace
}  // namespace tessera
