// The online softmax of attention, vectorised over columns: a column is one (query token, head) pair, a row
// one cached token. All steps act on each column by itself.
#pragma once

#include <cstdint>

namespace tessera {

// Running softmax of some columns: out[c] = sum over rows of exp(score - peak[c]) v, and total[c] the same
// sum of ones. peak = -inf: no row seen yet.
struct SoftmaxState {
  float* peak = nullptr;   // [cols]
  float* total = nullptr;  // [cols]
  float* out = nullptr;    // [cols, out_stride]
  std::int64_t out_stride = 0;
};

// scores [rows, stride] become exp(scale * score - new peak), and 0 from row visible[c] on. Updates peak and
// total; decay [cols] is what the old sums must be multiplied with (1 where nothing changes). Columns up to
// the next multiple of 16 are touched.
struct ScoreTile {
  float* scores = nullptr;
  std::int64_t stride = 0;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  const std::int32_t* visible = nullptr;  // [cols] rows of this tile
  float scale = 1;
  float* decay = nullptr;
};
void softmax_scores(const ScoreTile& tile, const SoftmaxState& state);

// out[c] *= decay[c]; width is a multiple of 16.
void decay_outputs(const float* decay, std::int64_t cols, std::int64_t width, const SoftmaxState& state);

// Joins the softmax of later rows to that of earlier ones.
void join_softmax(const SoftmaxState& earlier, const SoftmaxState& later, std::int64_t cols,
                  std::int64_t width);

// dst[0 .. width) = out / total of one column, and its log-sum-exp; zeros and -inf where nothing was seen.
float finish_column(const SoftmaxState& state, std::int64_t col, std::int64_t width, float* dst);

// Whether all rows x cols values are finite.
bool all_finite(const float* values, std::int64_t stride, std::int64_t rows, std::int64_t cols);

}  // namespace tessera
