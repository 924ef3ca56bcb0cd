// Speculative sampling has the law of plain sampling: chi-square over 200,000 draws and more for every
// combination of settings and proposals.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/sampling_reference.h"
#include "backend/cpu/test_data.h"
#include "backend/uniform_draw.h"

namespace tessera {
namespace {

using test::chi_square_deviation;
using test::distribution;
using test::Random;
using test::rows_of;

constexpr std::int64_t kDraws = 200'000;
constexpr std::int64_t kAtOnce = 1000;  // rows of one call
constexpr std::size_t kVocab = 24;

// A proposal's distribution over `ids` (empty: over all tokens).
struct Draft {
  std::string name;
  std::vector<float> probs;
  std::vector<std::int32_t> ids = {};
  bool tells_probs = true;  // false: the row decides by its own draw
};

std::int32_t drawn_from(const Draft& draft, double uniform, float& prob) {
  double before = 0;
  std::size_t entry = 0;
  for (std::size_t i = 0; i < draft.probs.size(); ++i) {
    if (draft.probs[i] == 0) continue;
    entry = i;
    before += static_cast<double>(draft.probs[i]);
    if (before > uniform) break;
  }
  prob = draft.probs[entry];
  return draft.ids.empty() ? static_cast<std::int32_t>(entry) : draft.ids[entry];
}

std::vector<float> softmax(const std::vector<float>& logits, float temperature) {
  std::vector<float> probs;
  float total = 0;
  for (const float x : logits) total += std::exp(x / temperature);
  for (const float x : logits) probs.push_back(std::exp(x / temperature) / total);
  return probs;
}

struct Found {
  std::vector<std::int64_t> counts;
  double accepted = 0;  // share of drafts that stood
};

Found verify_many(Backend& backend, const std::vector<float>& logits, SamplingRow row, const Draft& draft,
                  std::int64_t draws = kDraws) {
  Found found{.counts = std::vector<std::int64_t>(logits.size())};
  std::vector<float> many;
  std::vector<SamplingRow> rows;
  std::vector<DraftDraw> drafts(static_cast<std::size_t>(kAtOnce));
  std::vector<SampledToken> results(static_cast<std::size_t>(kAtOnce));
  for (std::int64_t first = 0; first < draws; first += kAtOnce) {
    many.clear();
    rows.clear();
    for (std::int64_t i = 0; i < kAtOnce; ++i) {
      many.insert(many.end(), logits.begin(), logits.end());
      row.draw = static_cast<std::uint64_t>(first + i);
      rows.push_back(row);
      DraftDraw& one = drafts[static_cast<std::size_t>(i)];
      one.token = drawn_from(draft, uniform_draw(row.seed, row.draw, DrawFor::kDraft), one.prob);
      one.probs = draft.tells_probs ? std::span<const float>(draft.probs) : std::span<const float>();
      one.ids = draft.ids;
    }
    backend.verify(rows_of(many, kAtOnce, static_cast<std::int64_t>(logits.size())), rows, drafts, results);
    for (std::size_t i = 0; i < results.size(); ++i) {
      EXPECT_FALSE(results[i].invalid);
      ++found.counts[static_cast<std::size_t>(results[i].token)];
      found.accepted += results[i].token == drafts[i].token ? 1.0 / static_cast<double>(draws) : 0;
    }
  }
  return found;
}

std::vector<double> expected_of(const std::vector<float>& logits, const SamplingRow& row) {
  std::vector<double> p(logits.size(), 0.0);
  for (const auto& [token, probability] : distribution(logits, row)) {
    p[static_cast<std::size_t>(token)] = probability;
  }
  return p;
}

class Verify : public testing::Test {
 protected:
  Verify() {
    Random random(7);
    logits = random.normals(kVocab, 1.5F);
    const std::vector<float> other = random.normals(kVocab, 1.5F);
    std::vector<float> near = logits;
    for (float& x : near) x += random.normal(0.5F);
    drafts = {{.name = "near", .probs = softmax(near, 1.0F)},
              {.name = "far", .probs = softmax(other, 0.7F)},
              {.name = "reduced vocabulary",
               .probs = softmax({0.3F, 1.0F, -0.2F, 0.5F, 0.0F}, 1.0F),
               .ids = {1, 4, 9, 17, 23}},
              {.name = "certain", .probs = std::vector<float>(kVocab, 0.0F)},
              {.name = "drawn, its distribution untold", .probs = softmax(near, 1.0F), .tells_probs = false}};
    drafts[3].probs[static_cast<std::size_t>(std::ranges::max_element(logits) - logits.begin())] = 1;
    settings.resize(9);
    settings[1].temperature = 0.5F;
    settings[2].temperature = 1.7F;
    settings[2].top_k = 5;
    settings[3].top_p = 0.7F;
    settings[4].min_p = 0.2F;
    settings[5].top_k = 12;
    settings[5].top_p = 0.6F;
    settings[5].min_p = 0.02F;
    settings[5].temperature = 1.3F;
    settings[6].repetition_penalty = 1.5F;
    settings[6].frequency_penalty = 0.4F;
    settings[6].presence_penalty = -0.8F;
    settings[6].prompt_tokens = prompt;
    settings[6].out_counts = counts;
    settings[7].logit_bias = bias;
    settings[7].banned = banned;
    settings[8] = settings[7];
    settings[8].allowed = allowed;
    settings[8].top_p = 0.9F;
    for (std::size_t i = 0; i < settings.size(); ++i) settings[i].seed = 1000 + i;
  }

  const std::vector<std::pair<std::int32_t, float>> bias = {{3, 2.0F}, {9, -1.5F}};
  const std::vector<std::int32_t> banned = {0, 12};
  const std::vector<std::int32_t> prompt = {5, 5, 8, 14};
  const std::vector<std::pair<std::int32_t, std::int32_t>> counts = {{5, 3}, {7, 1}, {21, 2}};
  const std::vector<std::uint64_t> allowed = {0x00f'ffffULL};
  std::vector<float> logits;
  std::vector<Draft> drafts;
  std::vector<SamplingRow> settings;
  std::unique_ptr<Backend> backend = make_cpu_backend({.threads = 2});
};

TEST_F(Verify, HasTheLawOfPlainSamplingForEverySettingAndProposal) {
  for (std::size_t s = 0; s < settings.size(); ++s) {
    const std::vector<double> expected = expected_of(logits, settings[s]);
    for (const Draft& draft : drafts) {
      const Found found = verify_many(*backend, logits, settings[s], draft);
      EXPECT_LT(chi_square_deviation(expected, found.counts), 5)
          << "setting " << s << ", draft " << draft.name;
    }
  }
}

// The promise of rejection sampling: sum over tokens of min(p, q), which no method exceeds.
TEST_F(Verify, AcceptsAsOftenAsPossible) {
  for (const std::size_t s : {std::size_t{0}, std::size_t{3}, std::size_t{6}}) {
    const std::vector<double> p = expected_of(logits, settings[s]);
    for (const Draft& draft : drafts) {
      if (!draft.tells_probs) continue;
      double most = 0;
      for (std::size_t i = 0; i < draft.probs.size(); ++i) {
        const std::size_t token = draft.ids.empty() ? i : static_cast<std::size_t>(draft.ids[i]);
        most += std::min(p[token], static_cast<double>(draft.probs[i]));
      }
      constexpr std::int64_t draws = 40'000;
      const double deviation = std::sqrt(most * (1 - most) / draws);
      EXPECT_NEAR(verify_many(*backend, logits, settings[s], draft, draws).accepted, most,
                  5 * deviation + 1e-9)
          << "setting " << s << ", draft " << draft.name;
    }
  }
}

// The test above can tell: a draft that was chosen, but presented as drawn, shifts the law.
TEST_F(Verify, AChosenDraftPresentedAsDrawnIsCaught) {
  Draft lie = drafts[0];
  const auto best = static_cast<std::size_t>(std::ranges::max_element(lie.probs) - lie.probs.begin());
  std::vector<std::int64_t> counts_found(kVocab);
  std::vector<SampledToken> result(1);
  for (std::uint64_t draw = 0; draw < 20'000; ++draw) {
    std::vector<float> row = logits;
    SamplingRow sampling;
    sampling.draw = draw;
    const DraftDraw draft{
        .token = static_cast<std::int32_t>(best), .prob = lie.probs[best], .probs = lie.probs};
    backend->verify(rows_of(row, 1, kVocab), {&sampling, 1}, {&draft, 1}, result);
    ++counts_found[static_cast<std::size_t>(result[0].token)];
  }
  EXPECT_GT(chi_square_deviation(expected_of(logits, {}), counts_found), 20);
}

// A seed gives the tokens that it gives without speculation, whatever was proposed.
TEST_F(Verify, WithoutProbsTheTokenIsThatOfPlainSampling) {
  for (const SamplingRow& setting : settings) {
    for (std::int32_t proposed = -1; proposed < 24; ++proposed) {
      SamplingRow row = setting;
      row.draw = 77;
      row.logprobs = 3;
      std::vector<float> a = logits, b = logits;
      std::vector<SampledToken> plain(1), verified(1);
      const DraftDraw draft{.token = proposed};
      backend->sample(rows_of(a, 1, kVocab), {&row, 1}, plain);
      backend->verify(rows_of(b, 1, kVocab), {&row, 1}, {&draft, 1}, verified);
      EXPECT_EQ(verified[0].token, plain[0].token);
      EXPECT_EQ(verified[0].logprob, plain[0].logprob);
      EXPECT_EQ(verified[0].top.size(), 3U);
    }
  }
}

TEST_F(Verify, GreedyRowsTakeTheArgmaxWhateverWasDrawn) {
  SamplingRow row;
  row.temperature = 0;
  const auto best = static_cast<std::int32_t>(std::ranges::max_element(logits) - logits.begin());
  for (const Draft& draft : drafts) {
    const Found found = verify_many(*backend, logits, row, draft, 2000);
    EXPECT_EQ(found.counts[static_cast<std::size_t>(best)], 2000) << draft.name;
  }
}

// Log-probs are the target's, before temperature and penalties, whether the draft stood or not.
TEST_F(Verify, LogprobsAreThoseOfTheTarget) {
  SamplingRow row = settings[5];
  row.logprobs = 5;
  double total = 0;
  for (const float x : logits) total += std::exp(static_cast<double>(x));
  int stood = 0, replaced = 0;
  for (row.draw = 0; row.draw < 200; ++row.draw) {
    std::vector<float> values = logits;
    DraftDraw draft{.probs = drafts[0].probs};
    draft.token = drawn_from(drafts[0], uniform_draw(row.seed, row.draw, DrawFor::kDraft), draft.prob);
    std::vector<SampledToken> result(1);
    backend->verify(rows_of(values, 1, kVocab), {&row, 1}, {&draft, 1}, result);
    const auto token = static_cast<std::size_t>(result[0].token);
    EXPECT_NEAR(result[0].logprob, static_cast<double>(logits[token]) - std::log(total), 1e-5);
    EXPECT_EQ(result[0].top.size(), 5U);
    (result[0].token == draft.token ? stood : replaced) += 1;
  }
  EXPECT_GT(stood, 10);
  EXPECT_GT(replaced, 10);
}

// Where p and q are equal nothing is ever rejected; where they share nothing everything is.
TEST_F(Verify, TheExtremesOfAgreement) {
  const Draft same{.name = "same", .probs = softmax(logits, 1.0F)};
  EXPECT_GT(verify_many(*backend, logits, {}, same).accepted, 0.9999);
  SamplingRow only;
  const std::vector<std::uint64_t> first_ten = {0x3ff};
  only.allowed = first_ten;
  const Draft elsewhere{.name = "elsewhere", .probs = {0.5F, 0.5F}, .ids = {20, 21}};
  const Found found = verify_many(*backend, logits, only, elsewhere);
  EXPECT_EQ(found.accepted, 0);
  EXPECT_LT(chi_square_deviation(expected_of(logits, only), found.counts), 5);
}

TEST_F(Verify, ARowWithANaNIsInvalidAndItsNeighboursAreNot) {
  std::vector<float> rows(3 * kVocab, 0.5F);
  rows[kVocab + 3] = std::numeric_limits<float>::quiet_NaN();
  std::vector<SamplingRow> sampling(3);
  std::vector<DraftDraw> draft(3, {.token = 2, .prob = drafts[0].probs[2], .probs = drafts[0].probs});
  std::vector<SampledToken> results(3);
  backend->verify(rows_of(rows, 3, kVocab), sampling, draft, results);
  EXPECT_FALSE(results[0].invalid);
  EXPECT_TRUE(results[1].invalid);
  EXPECT_FALSE(results[2].invalid);
}

// Foreign drafts: tokens outside the vocabulary are never accepted, and do no harm.
TEST_F(Verify, ADraftOutsideTheVocabularyIsReplaced) {
  const Draft outside{.name = "outside", .probs = {0.4F, 0.6F}, .ids = {2, 1'000'000}};
  const Found found = verify_many(*backend, logits, {}, outside);
  EXPECT_LT(chi_square_deviation(expected_of(logits, {}), found.counts), 5);
}

}  // namespace
}  // namespace tessera
