#include "bench/report/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"

namespace tessera::bench {
namespace {

// Share of Student's distribution within |t|: the incomplete beta function as its continued fraction (Lentz).
double share_within(double t, double degrees) {
  const double x = degrees / (degrees + t * t);
  const double a = degrees / 2;
  const double b = 0.5;
  const auto fraction = [](double p, double q, double z) {
    constexpr double kTiny = 1e-300;
    double c = 1;
    double d = 1 - (p + q) * z / (p + 1);
    d = 1 / (std::abs(d) < kTiny ? kTiny : d);
    double value = d;
    for (int m = 1; m < 300; ++m) {
      const double even = m * (q - m) * z / ((p + 2 * m - 1) * (p + 2 * m));
      const double odd = -(p + m) * (p + q + m) * z / ((p + 2 * m) * (p + 2 * m + 1));
      for (const double term : {even, odd}) {
        d = 1 + term * d;
        d = 1 / (std::abs(d) < kTiny ? kTiny : d);
        c = 1 + term / c;
        if (std::abs(c) < kTiny) c = kTiny;
        value *= d * c;
      }
    }
    return value;
  };
  const double front =
      std::exp(std::lgamma(a + b) - std::lgamma(a) - std::lgamma(b) + a * std::log(x) + b * std::log1p(-x));
  if (t == 0) return 0;
  const double outside =
      x < (a + 1) / (a + b + 2) ? front * fraction(a, b, x) / a : 1 - front * fraction(b, a, 1 - x) / b;
  return 1 - outside;
}

}  // namespace

double mean(std::span<const double> values) {
  if (values.empty()) return 0;
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double percentile(std::span<const double> values, double share) {
  if (values.empty()) return 0;
  std::vector<double> sorted(values.begin(), values.end());
  std::ranges::sort(sorted);
  const double at = std::clamp(share, 0.0, 1.0) * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (sorted[above] - sorted[below]) * (at - static_cast<double>(below));
}

double median(std::span<const double> values) { return percentile(values, 0.5); }

double deviation(std::span<const double> values) {
  if (values.size() < 2) return 0;
  const double middle = mean(values);
  double sum = 0;
  for (const double value : values) sum += (value - middle) * (value - middle);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

double autocorrelation(std::span<const double> values) {
  if (values.size() < 4) return 0;
  const double middle = mean(values);
  double together = 0;
  double alone = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    alone += (values[i] - middle) * (values[i] - middle);
    if (i > 0) together += (values[i] - middle) * (values[i - 1] - middle);
  }
  return alone > 0 ? together / alone : 0;
}

double student_t(double confidence, double degrees) {
  TS_CHECK(confidence > 0 && confidence < 1 && degrees > 0, confidence, degrees);
  double low = 0;
  double high = 1;
  while (share_within(high, degrees) < confidence && high < 1e9) high *= 2;
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (share_within(middle, degrees) < confidence ? low : high) = middle;
  }
  return high;
}

std::vector<double> bootstrap_means(std::span<const double> values, std::int32_t draws, std::size_t block,
                                    std::mt19937_64& random) {
  TS_CHECK(!values.empty() && block > 0, values.size(), block);
  std::vector<double> means(static_cast<std::size_t>(draws));
  std::uniform_int_distribution<std::size_t> start(0, values.size() - 1);
  for (double& one : means) {
    double sum = 0;
    for (std::size_t taken = 0; taken < values.size();) {
      const std::size_t first = start(random);
      for (std::size_t i = 0; i < block && taken < values.size(); ++i, ++taken)
        sum += values[(first + i) % values.size()];
    }
    one = sum / static_cast<double>(values.size());
  }
  return means;
}

}  // namespace tessera::bench
