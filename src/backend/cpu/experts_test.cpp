#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/test_data.h"

namespace tessera {
namespace {

using test::OwnedMatrix;
using test::Random;
using test::rows_of;

// Three products in a row with inner values of some tens, in f32: an error of some 1e-6 of those.
constexpr double kTolerance = 5e-5;

struct Routed {
  std::vector<std::int32_t> ids;
  std::vector<float> weights;
};

Routed route(Backend& backend, std::vector<float> logits, const std::vector<float>& bias,
             const RoutingRule& rule) {
  const auto experts = static_cast<std::int64_t>(bias.size());
  const std::int64_t tokens = static_cast<std::int64_t>(logits.size()) / experts;
  const VectorWeight prepared = backend.prepare_vector(bias);
  Routed routed{.ids = std::vector<std::int32_t>(static_cast<std::size_t>(tokens * rule.top_k), -7),
                .weights = std::vector<float>(static_cast<std::size_t>(tokens * rule.top_k))};
  backend.route_experts(rows_of(logits, tokens, experts), prepared, rule,
                        rows_of(routed.ids, tokens, rule.top_k), rows_of(routed.weights, tokens, rule.top_k));
  return routed;
}

double sigmoid(double z) { return 1 / (1 + std::exp(-z)); }

TEST(RouteExperts, BiasCountsForTheChoiceOnly) {
  const auto backend = make_cpu_backend({.threads = 1});
  const Routed r = route(*backend, {2, 1, 0, -1}, {0, 0, 0, 5}, {.top_k = 2, .scaling = 2.827F});
  EXPECT_EQ(r.ids, (std::vector<std::int32_t>{3, 0}));
  const double sum = sigmoid(-1) + sigmoid(2);
  EXPECT_NEAR(r.weights[0], sigmoid(-1) / sum * 2.827, 1e-6);
  EXPECT_NEAR(r.weights[1], sigmoid(2) / sum * 2.827, 1e-6);
}

TEST(RouteExperts, TiesGoToTheLowerIndex) {
  const auto backend = make_cpu_backend({.threads = 1});
  const Routed r =
      route(*backend, std::vector<float>(384, 0.5F), std::vector<float>(384, 0.0F), {.top_k = 8});
  std::vector<std::int32_t> first(8);
  std::iota(first.begin(), first.end(), 0);
  EXPECT_EQ(r.ids, first);
}

TEST(RouteExperts, WithoutNormalisingTheScoresStay) {
  const auto backend = make_cpu_backend({.threads = 1});
  const Routed r = route(*backend, {1, 2}, {0, 0}, {.top_k = 1, .normalise = false, .scaling = 3});
  EXPECT_EQ(r.ids[0], 1);
  EXPECT_NEAR(r.weights[0], 3 * sigmoid(2), 1e-6);
}

TEST(RouteExperts, PicksTheBestGroupsByTheirTwoBestScores) {
  const auto backend = make_cpu_backend({.threads = 1});
  // Group 0 has the single best expert, group 1 the best pair, group 2 nothing; two of three groups stay, and
  // of the experts only those in them, although expert 5 of group 2 beats expert 1.
  const Routed one = route(*backend, {3, -9, 2, 2, 1, 1}, std::vector<float>(6, 0.0F),
                           {.top_k = 2, .groups = 3, .top_groups = 1});
  EXPECT_EQ(one.ids, (std::vector<std::int32_t>{2, 3}));
  const Routed two = route(*backend, {3, -9, 2, 2, -1, -1}, std::vector<float>(6, 0.0F),
                           {.top_k = 4, .groups = 3, .top_groups = 2});
  EXPECT_EQ(two.ids, (std::vector<std::int32_t>{0, 2, 3, 1}));
}

TEST(RouteExperts, MaskedGroupsLoseEvenToNegativeScores) {
  const auto backend = make_cpu_backend({.threads = 1});
  const Routed r =
      route(*backend, {0, 0, 0, 0}, {-3, -3, -9, -9}, {.top_k = 2, .groups = 2, .top_groups = 1});
  EXPECT_EQ(r.ids, (std::vector<std::int32_t>{0, 1}));
}

TEST(RouteExperts, NaNLogitsStillGiveDistinctIdsInRange) {
  const auto backend = make_cpu_backend({.threads = 1});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (const auto& logits :
       {std::vector<float>(16, nan),
        std::vector<float>{nan, 1, nan, 2, 3, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan, nan}}) {
    const Routed r = route(*backend, logits, std::vector<float>(16, 0.0F), {.top_k = 4});
    EXPECT_EQ(std::set<std::int32_t>(r.ids.begin(), r.ids.end()).size(), 4U);
    for (const std::int32_t id : r.ids) EXPECT_TRUE(id >= 0 && id < 16) << id;
    if (logits[1] == 1.0F) {
      const std::vector<std::int32_t> numbers(r.ids.begin(), r.ids.begin() + 3);
      EXPECT_EQ(numbers, (std::vector<std::int32_t>{4, 3, 1}));
    }
  }
}

struct Layer {
  std::vector<OwnedMatrix> gate, up, down;
  std::int64_t hidden = 0, width = 0;

  Layer(Random& random, WeightFormat format, std::int64_t experts, std::int64_t hidden_, std::int64_t width_)
      : hidden(hidden_), width(width_) {
    for (std::int64_t e = 0; e < experts; ++e) {
      gate.push_back(test::random_matrix(random, format, width, hidden));
      up.push_back(test::random_matrix(random, format, width, hidden));
      down.push_back(test::random_matrix(random, format, hidden, width));
    }
  }
  WeightStack gate_up(Backend& b) const {
    return b.prepare_stack(static_cast<std::int64_t>(gate.size()), [&](std::int64_t e) {
      const auto i = static_cast<std::size_t>(e);
      return std::vector<HostMatrix>{gate[i].view, up[i].view};
    });
  }
  WeightStack down_stack(Backend& b) const {
    return b.prepare_stack(static_cast<std::int64_t>(down.size()), [&](std::int64_t e) {
      return std::vector<HostMatrix>{down[static_cast<std::size_t>(e)].view};
    });
  }
};

std::vector<double> times(const OwnedMatrix& m, const std::vector<double>& x) {
  const std::vector<double> w = test::values_of(m.view);
  std::vector<double> y(static_cast<std::size_t>(m.view.out), 0.0);
  for (std::size_t o = 0; o < y.size(); ++o) {
    for (std::size_t k = 0; k < x.size(); ++k) y[o] += w[o * x.size() + k] * x[k];
  }
  return y;
}

TEST(Moe, AgreesWithF64ForEveryFormatAndIgnoresForeignExperts) {
  Random random(1);
  const auto backend = make_cpu_backend({.threads = 2});
  for (const auto& [format, hidden, width] : {std::tuple{WeightFormat::kF32, 50, 36},
                                              {WeightFormat::kBF16, 72, 33},
                                              {WeightFormat::kInt4Group32, 160, 64},
                                              {WeightFormat::kFp8Block128, 150, 100}}) {
    const std::int64_t experts = 5, first = 3, top_k = 3;
    const Layer layer(random, format, experts, hidden, width);
    const WeightStack gate_up = layer.gate_up(*backend);
    const WeightStack down = layer.down_stack(*backend);
    for (const std::int64_t tokens : {0, 1, 2, 17, 130}) {
      std::vector<float> x = random.normals(tokens * hidden);
      std::vector<std::int32_t> ids;
      std::vector<float> weights;
      for (std::int64_t t = 0; t < tokens; ++t) {
        const auto base = static_cast<std::int32_t>(random.whole(0, 8));  // of 11 experts, ids 3..7 live here
        for (std::int32_t k = 0; k < top_k; ++k) ids.push_back((base + k * 4) % 11);
        for (std::int32_t k = 0; k < top_k; ++k) weights.push_back(random.normal());
      }
      std::vector<float> out(static_cast<std::size_t>(tokens * hidden), 99.0F);
      backend->moe(rows_of(x, tokens, hidden), rows_of(ids, tokens, top_k), rows_of(weights, tokens, top_k),
                   first, gate_up, down, rows_of(out, tokens, hidden));
      std::vector<double> want(out.size(), 0.0);
      for (std::int64_t t = 0; t < tokens; ++t) {
        const std::vector<double> row(x.begin() + t * hidden, x.begin() + (t + 1) * hidden);
        for (std::int64_t k = 0; k < top_k; ++k) {
          const std::int64_t e = ids[static_cast<std::size_t>(t * top_k + k)] - first;
          if (e < 0 || e >= experts) continue;
          const auto i = static_cast<std::size_t>(e);
          std::vector<double> gate = times(layer.gate[i], row);
          const std::vector<double> up = times(layer.up[i], row);
          for (std::size_t j = 0; j < gate.size(); ++j) gate[j] *= sigmoid(gate[j]) * up[j];
          const std::vector<double> y = times(layer.down[i], gate);
          for (std::size_t j = 0; j < y.size(); ++j) {
            want[static_cast<std::size_t>(t * hidden) + j] +=
                static_cast<double>(weights[static_cast<std::size_t>(t * top_k + k)]) * y[j];
          }
        }
      }
      EXPECT_EQ(test::first_difference(out, want, hidden, kTolerance), "")
          << name_of(format) << " tokens " << tokens;
    }
  }
}

TEST(Moe, GivesATokenTheSameBitsInAnyBatchAndOnAnyNumberOfThreads) {
  Random random(2);
  const std::int64_t experts = 7, hidden = 160, width = 64, top_k = 2, tokens = 300;
  const auto one = make_cpu_backend({.threads = 1});
  const Layer layer(random, WeightFormat::kInt4Group32, experts, hidden, width);
  std::vector<float> x = random.normals(tokens * hidden);
  std::vector<std::int32_t> ids;
  std::vector<float> weights;
  for (std::int64_t t = 0; t < tokens; ++t) {
    const auto base = static_cast<std::int32_t>(random.whole(0, 6));
    ids.push_back(base);
    ids.push_back((base + 3) % 7);
    weights.push_back(random.normal());
    weights.push_back(random.normal());
  }
  std::vector<float> alone(static_cast<std::size_t>(tokens * hidden));
  {
    const WeightStack gate_up = layer.gate_up(*one);
    const WeightStack down = layer.down_stack(*one);
    for (std::int64_t t = 0; t < tokens; ++t) {
      one->moe(rows_of(x, tokens, hidden).row_range(t, 1), rows_of(ids, tokens, top_k).row_range(t, 1),
               rows_of(weights, tokens, top_k).row_range(t, 1), 0, gate_up, down,
               rows_of(alone, tokens, hidden).row_range(t, 1));
    }
  }
  for (const int threads : {1, 2, 5}) {
    const auto backend = make_cpu_backend({.threads = threads});
    const WeightStack gate_up = layer.gate_up(*backend);
    const WeightStack down = layer.down_stack(*backend);
    for (const std::int64_t count : {2, 9, 40, 300}) {
      const std::int64_t first = random.whole(0, tokens - count);
      std::vector<float> out(static_cast<std::size_t>(count * hidden));
      backend->moe(rows_of(x, tokens, hidden).row_range(first, count),
                   rows_of(ids, tokens, top_k).row_range(first, count),
                   rows_of(weights, tokens, top_k).row_range(first, count), 0, gate_up, down,
                   rows_of(out, count, hidden));
      EXPECT_EQ(test::first_bit_difference(out.data(), alone.data() + first * hidden, count * hidden), "")
          << threads << " threads, " << count << " tokens";
    }
  }
}

}  // namespace
}  // namespace tessera
