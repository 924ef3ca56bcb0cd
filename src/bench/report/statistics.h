// What a handful of measurements says: middle, percentiles, and how far chance may have moved them.
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <span>
#include <vector>

namespace tessera::bench {

double mean(std::span<const double> values);  // 0 of nothing
// Between the two nearest ranks, linearly (as numpy does); `share` from 0 to 1; 0 of nothing.
double percentile(std::span<const double> values, double share);
double median(std::span<const double> values);
// Standard deviation of the values themselves (n - 1); 0 for fewer than two.
double deviation(std::span<const double> values);
// How strongly a value leans on the one before it, -1 to 1; 0 for fewer than four.
double autocorrelation(std::span<const double> values);

// Two-sided quantile of Student's t: |t| stays below it with `confidence`. Normal for many degrees.
double student_t(double confidence, double degrees);

// Means of `draws` resamples of `values` in blocks of `block` neighbours, so that what neighbours share is
// kept. `values` is not empty.
std::vector<double> bootstrap_means(std::span<const double> values, std::int32_t draws, std::size_t block,
                                    std::mt19937_64& random);

}  // namespace tessera::bench
