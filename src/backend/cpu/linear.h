// y = x W^T over the threads: which thread computes which outputs of which rows.
#pragma once

#include <cstdint>

#include "backend/cpu/packed_matrix.h"
#include "backend/cpu/thread_pool.h"

namespace tessera {

// x [rows, in], y [rows, out].
struct LinearRows {
  const float* x = nullptr;
  std::int64_t x_stride = 0;
  const std::int32_t* x_rows = nullptr;  // [rows]: row r of y belongs to row x_rows[r] of x; null: to row r
  float* y = nullptr;
  std::int64_t y_stride = 0;
  std::int64_t rows = 0;

  const float* x_row(std::int64_t r) const { return x + (x_rows == nullptr ? r : x_rows[r]) * x_stride; }
  LinearRows part(std::int64_t first, std::int64_t count) const {
    LinearRows some = *this;
    if (x_rows == nullptr) {
      some.x += first * x_stride;
    } else {
      some.x_rows += first;
    }
    some.y += first * y_stride;
    some.rows = count;
    return some;
  }
};

// Many matrices, each with rows of its own, are one list of work items: an item is some panels of one matrix
// times some of its rows. The items of a matrix are numbered so that the rows of the same panels are
// neighbours.
std::int64_t linear_items(const PackedMatrix& matrix, std::int64_t rows);
void run_linear_item(const PackedMatrix& matrix, const LinearRows& rows, std::int64_t item);

// Outputs of panels [first, last) alone, by the caller alone; at most kChunkRows rows.
inline constexpr std::int64_t kChunkRows = 240;
void linear_panels(const PackedMatrix& matrix, std::int64_t first, std::int64_t last, const LinearRows& rows);

void linear(ThreadPool& pool, const PackedMatrix& matrix, const LinearRows& rows);

// Fewer multiply-adds than this are done by the caller alone: waking a thread costs as much.
inline constexpr std::int64_t kWorthSplitting = 64 * 1024;

}  // namespace tessera
