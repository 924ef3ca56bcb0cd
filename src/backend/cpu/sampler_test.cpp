#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/sampling_reference.h"
#include "backend/cpu/test_data.h"
#include "backend/uniform_draw.h"

namespace tessera {
namespace {

using test::distribution;
using test::Random;
using test::rows_of;

constexpr float kNone = -std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

std::vector<SampledToken> sample(Backend& backend, std::vector<float> logits,
                                 const std::vector<SamplingRow>& rows) {
  std::vector<SampledToken> results(rows.size());
  const auto count = static_cast<std::int64_t>(rows.size());
  backend.sample(rows_of(logits, count, static_cast<std::int64_t>(logits.size()) / count), rows, results);
  return results;
}

SampledToken sample_one(Backend& backend, const std::vector<float>& logits, const SamplingRow& row) {
  return sample(backend, logits, {row})[0];
}

TEST(Sample, TemperatureZeroTakesTheLowestOfTheLargest) {
  const auto backend = make_cpu_backend({.threads = 1});
  std::vector<float> logits(1000, 1.0F);
  logits[700] = logits[37] = logits[999] = 2.0F;
  EXPECT_EQ(sample_one(*backend, logits, {.temperature = 0}).token, 37);
}

// Each combination of the filters: the drawn frequencies are those of the reference, and nothing outside is
// drawn.
TEST(Sample, DrawsFromTheReferenceDistribution) {
  Random random(1);
  const auto backend = make_cpu_backend({.threads = 2});
  const std::vector<std::pair<std::int32_t, float>> bias = {{3, 2.0F}, {9, -1.5F}};
  const std::vector<std::int32_t> banned = {0, 12};
  const std::vector<std::int32_t> prompt = {5, 5, 8, 14};
  const std::vector<std::pair<std::int32_t, std::int32_t>> counts = {{5, 3}, {7, 1}, {21, 2}};
  std::vector<std::uint64_t> allowed = {0x00ff'ffff'ffffULL};  // the first 40 of 48
  std::vector<SamplingRow> cases(9);
  cases[1].temperature = 0.5F;
  cases[2].top_k = 5;
  cases[3].top_p = 0.7F;
  cases[4].min_p = 0.2F;
  cases[5].top_k = 12;
  cases[5].top_p = 0.6F;
  cases[5].min_p = 0.02F;
  cases[5].temperature = 1.7F;
  cases[6].repetition_penalty = 1.5F;
  cases[6].frequency_penalty = 0.4F;
  cases[6].presence_penalty = -0.8F;
  cases[7] = cases[6];
  cases[7].top_p = 0.8F;
  cases[7].logit_bias = bias;
  cases[7].banned = banned;
  cases[7].allowed = allowed;
  cases[8].top_p = 0.0F;
  const std::vector<float> logits = random.normals(48, 2);
  for (std::size_t c = 0; c < cases.size(); ++c) {
    SamplingRow row = cases[c];
    if (c >= 6 && c < 8) {
      row.prompt_tokens = prompt;
      row.out_counts = counts;
    }
    const std::map<std::int32_t, double> want = distribution(logits, row);
    std::map<std::int32_t, std::int32_t> drawn;
    const std::int32_t draws = 20000;
    std::vector<SamplingRow> rows(static_cast<std::size_t>(draws), row);
    std::vector<float> many;
    for (std::int32_t i = 0; i < draws; ++i) {
      rows[static_cast<std::size_t>(i)].seed = 42;
      rows[static_cast<std::size_t>(i)].draw = static_cast<std::uint64_t>(i);
      many.insert(many.end(), logits.begin(), logits.end());
    }
    for (const SampledToken& one : sample(*backend, many, rows)) ++drawn[one.token];
    for (const auto& [token, count] : drawn)
      EXPECT_TRUE(want.contains(token)) << "case " << c << " token " << token;
    for (const auto& [token, probability] : want) {
      const double sigma = std::sqrt(probability * std::max(0.0, 1 - probability) / draws);
      EXPECT_NEAR(static_cast<double>(drawn[token]) / draws, probability, 4.5 * sigma + 1e-9)
          << "case " << c << " token " << token;
    }
  }
}

// Large vocabularies go through the histogram; what may be drawn is compared as a set, by drawing at every
// quantile.
TEST(Sample, KeepsExactlyTheReferenceTokensOfALargeVocabulary) {
  Random random(2);
  const auto backend = make_cpu_backend({.threads = 2});
  const std::int64_t vocab = 20000;
  for (const float spread : {0.02F, 1.0F, 6.0F, 60.0F}) {
    std::vector<float> logits = random.normals(vocab, spread);
    for (std::size_t i = 0; i < logits.size(); i += 3)
      logits[i] = std::round(logits[i] * 4) / 4;  // many ties
    for (const auto& [top_k, top_p, min_p] : {std::tuple{50, 1.0F, 0.0F},
                                              {0, 0.9F, 0.0F},
                                              {0, 0.05F, 0.0F},
                                              {1, 1.0F, 0.0F},
                                              {3000, 0.5F, 0.0F},
                                              {0, 1.0F, 0.3F},
                                              {7, 0.99F, 0.01F},
                                              {30000, 1.0F, 0.0F}}) {
      SamplingRow row{.temperature = 0.8F, .top_k = top_k, .top_p = top_p, .min_p = min_p};
      const std::map<std::int32_t, double> want = distribution(logits, row);
      std::set<std::int32_t> got;
      const std::size_t draws = 60;
      std::vector<SamplingRow> rows(draws, row);
      std::vector<float> many;
      for (std::size_t i = 0; i < draws; ++i) {
        rows[i].seed = i;
        many.insert(many.end(), logits.begin(), logits.end());
      }
      for (const SampledToken& one : sample(*backend, many, rows)) {
        EXPECT_TRUE(want.contains(one.token))
            << one.token << " spread " << spread << " k " << top_k << " p " << top_p;
        got.insert(one.token);
      }
      if (want.size() <= 3) {
        EXPECT_EQ(got.size(), want.size());
      }
    }
  }
}

TEST(Sample, InvertsTheCumulativeDistributionAtTheRequestsOwnNumber) {
  Random random(3);
  const auto backend = make_cpu_backend({.threads = 1});
  const std::vector<float> logits = random.normals(5000, 1);
  const std::map<std::int32_t, double> want = distribution(logits, {});
  for (std::uint64_t draw = 0; draw < 50; ++draw) {
    const double u = uniform_draw(77, draw);
    double before = 0;
    std::int32_t expected = -1;
    for (const auto& [token, probability] : want) {
      before += probability;
      if (before > u) {
        expected = token;
        break;
      }
    }
    EXPECT_EQ(sample_one(*backend, logits, {.seed = 77, .draw = draw}).token, expected) << draw;
  }
}

TEST(Sample, ARowsTokenDependsOnNoOtherRow) {
  Random random(4);
  const std::int64_t vocab = 3000;
  const std::size_t count = 40;
  const auto one = make_cpu_backend({.threads = 1});
  const auto three = make_cpu_backend({.threads = 3});
  const std::vector<float> logits = random.normals(static_cast<std::int64_t>(count) * vocab, 2);
  std::vector<SamplingRow> rows(count);
  for (std::size_t i = 0; i < count; ++i) {
    rows[i] = {.temperature = 0.9F,
               .top_k = i % 3 == 0 ? 40 : 0,
               .top_p = i % 2 == 0 ? 0.8F : 1.0F,
               .seed = i,
               .draw = 7};
    rows[i].logprobs = static_cast<std::int32_t>(i % 4) - 1;
  }
  const std::vector<SampledToken> all = sample(*three, logits, rows);
  for (std::size_t i = 0; i < count; ++i) {
    const auto from = logits.begin() + static_cast<std::int64_t>(i) * vocab;
    const SampledToken alone = sample_one(*one, {from, from + vocab}, rows[i]);
    EXPECT_EQ(all[i].token, alone.token) << i;
    EXPECT_EQ(all[i].logprob, alone.logprob) << i;
    EXPECT_EQ(all[i].top.size(), alone.top.size()) << i;
  }
}

TEST(Sample, FlagsNaNRowsAndLeavesTheirNeighboursAlone) {
  const auto backend = make_cpu_backend({.threads = 2});
  std::vector<float> logits = {1, 2, 3, 4, 1, kNaN, 3, 4, 4, 3, 2, 1};
  const std::vector<SampledToken> results =
      sample(*backend, logits, std::vector<SamplingRow>(3, {.temperature = 0}));
  EXPECT_EQ(results[0].token, 3);
  EXPECT_TRUE(results[1].invalid);
  EXPECT_EQ(results[1].token, -1);
  EXPECT_EQ(results[2].token, 0);
  EXPECT_FALSE(results[0].invalid || results[2].invalid);
}

TEST(Sample, FlagsRowsThatAllowNothing) {
  const auto backend = make_cpu_backend({.threads = 1});
  const std::vector<std::uint64_t> none = {0};
  EXPECT_TRUE(sample_one(*backend, {1, 2, 3}, {.allowed = none}).invalid);
  const std::vector<std::int32_t> all = {0, 1, 2};
  EXPECT_TRUE(sample_one(*backend, {1, 2, 3}, {.banned = all}).invalid);
  EXPECT_TRUE(sample_one(*backend, {kNone, kNone}, {.temperature = 0}).invalid);
}

TEST(Sample, InfiniteLogitsShareEverything) {
  const auto backend = make_cpu_backend({.threads = 1});
  const float inf = std::numeric_limits<float>::infinity();
  std::set<std::int32_t> drawn;
  for (std::uint64_t i = 0; i < 50; ++i)
    drawn.insert(sample_one(*backend, {1, inf, 3, inf}, {.top_p = 0.99F, .draw = i}).token);
  EXPECT_EQ(drawn, (std::set<std::int32_t>{1, 3}));
  EXPECT_EQ(sample_one(*backend, {1, inf, 3, inf}, {.temperature = 0}).token, 1);
}

TEST(Sample, ReportsTheModelsOwnProbabilitiesWhateverWasApplied) {
  Random random(5);
  const auto backend = make_cpu_backend({.threads = 1});
  const std::vector<float> logits = random.normals(4096, 3);
  const std::vector<std::pair<std::int32_t, float>> bias = {{17, 100.0F}};
  SamplingRow row{.temperature = 0.3F, .logprobs = 5, .logit_bias = bias};
  const SampledToken result = sample_one(*backend, logits, row);
  ASSERT_EQ(result.token, 17);
  double total = 0;
  for (const float l : logits) total += std::exp(static_cast<double>(l));
  std::vector<std::int32_t> order(4096);
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
    return logits[static_cast<std::size_t>(a)] > logits[static_cast<std::size_t>(b)];
  });
  EXPECT_NEAR(result.logprob, static_cast<double>(logits[17]) - std::log(total), 1e-5);
  EXPECT_EQ(order[static_cast<std::size_t>(result.rank) - 1], 17);
  ASSERT_EQ(result.top.size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(result.top[i].token, order[i]);
    EXPECT_EQ(result.top[i].rank, static_cast<std::int32_t>(i) + 1);
    EXPECT_NEAR(result.top[i].logprob,
                static_cast<double>(logits[static_cast<std::size_t>(order[i])]) - std::log(total), 1e-5);
  }
}

TEST(Logprobs, GiveTargetsAndRanksWithTiesToTheLowerId) {
  const auto backend = make_cpu_backend({.threads = 2});
  std::vector<float> logits = {0, 1, 1, 1, 0, 5, 5, 0, 0, 0};
  std::vector<SampledToken> results(2);
  const std::int32_t targets[] = {2, 1};
  backend->logprobs(rows_of(logits, 2, 5), targets, 2, results);
  EXPECT_EQ(results[0].token, 2);
  EXPECT_EQ(results[0].rank, 2);
  EXPECT_NEAR(results[0].logprob, 1 - std::log(3 * std::exp(1.0) + 2), 1e-6);
  EXPECT_EQ(results[0].top[0].token, 1);
  EXPECT_EQ(results[0].top[1].token, 2);
  EXPECT_EQ(results[1].rank, 2);
  EXPECT_EQ(results[1].top[0].token, 0);
}

TEST(UniformDraw, IsEvenAndUncorrelatedOverDrawsAndSeeds) {
  for (const bool by_draw : {true, false}) {
    std::vector<int> bins(64, 0);
    double previous = 0.5, lag = 0;
    const int count = 64000;
    for (std::uint64_t i = 0; i < count; ++i) {
      const double u = by_draw ? uniform_draw(1234, i) : uniform_draw(i, 3);
      ASSERT_GE(u, 0.0);
      ASSERT_LT(u, 1.0);
      ++bins[static_cast<std::size_t>(u * 64)];
      lag += (u - 0.5) * (previous - 0.5);
      previous = u;
    }
    double chi2 = 0;
    for (const int bin : bins) chi2 += (bin - 1000.0) * (bin - 1000.0) / 1000.0;
    EXPECT_LT(chi2, 63 + 5 * std::sqrt(126.0));
    EXPECT_LT(std::fabs(lag / count * 12), 5 / std::sqrt(count));
  }
}

}  // namespace
}  // namespace tessera
