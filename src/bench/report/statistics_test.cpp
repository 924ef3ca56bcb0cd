#include "bench/report/statistics.h"

#include <gmock/gmock.h>

#include <cmath>

#include "base/test_seed.h"

namespace tessera::bench {
namespace {

TEST(Percentile, LiesBetweenTheNearestRanks) {
  const std::vector<double> values = {4, 1, 3, 2};
  EXPECT_DOUBLE_EQ(percentile(values, 0), 1);
  EXPECT_DOUBLE_EQ(percentile(values, 1), 4);
  EXPECT_DOUBLE_EQ(median(values), 2.5);
  EXPECT_NEAR(percentile(values, 0.9), 3.7, 1e-12);
  EXPECT_EQ(percentile({}, 0.5), 0);
}

// Tables of the distribution: two-sided 95 % and 99 %.
TEST(StudentT, EqualsTheTables) {
  EXPECT_NEAR(student_t(0.95, 1), 12.706, 1e-3);
  EXPECT_NEAR(student_t(0.95, 4), 2.776, 1e-3);
  EXPECT_NEAR(student_t(0.99, 10), 3.169, 1e-3);
  EXPECT_NEAR(student_t(0.95, 1e6), 1.960, 1e-3);
}

TEST(Autocorrelation, TellsATrendFromNoise) {
  std::vector<double> rising, flipping;
  for (int i = 0; i < 50; ++i) {
    rising.push_back(i);
    flipping.push_back(i % 2);
  }
  EXPECT_GT(autocorrelation(rising), 0.8);
  EXPECT_LT(autocorrelation(flipping), -0.8);
}

// The spread of the mean of n independent values is their deviation over the root of n; in blocks it grows
// for values that lean on each other.
TEST(Bootstrap, KnowsTheSpreadOfAMean) {
  std::mt19937_64 random(test_seed());
  std::normal_distribution<double> normal(100, 5);
  std::vector<double> independent, leaning;
  double last = 100;
  for (int i = 0; i < 400; ++i) {
    independent.push_back(normal(random));
    last = 100 + 0.9 * (last - 100) + 0.4 * (normal(random) - 100);
    leaning.push_back(last);
  }
  const double spread = deviation(bootstrap_means(independent, 2000, 1, random));
  EXPECT_NEAR(spread, 5 / std::sqrt(400), 0.05);
  EXPECT_GT(deviation(bootstrap_means(leaning, 2000, 20, random)),
            2 * deviation(bootstrap_means(leaning, 2000, 1, random)));
}

}  // namespace
}  // namespace tessera::bench
