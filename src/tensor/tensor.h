// A view of a matrix that lives in some device's memory. Owns nothing; whoever made it says how long it
// lives.
#pragma once

#include <cstdint>

#include "base/check.h"
#include "tensor/dtype.h"

namespace tessera {

// rows x cols elements; row r starts at data + r * stride elements. A [tokens, heads, dim] activation is a
// Tensor of tokens rows and heads * dim columns, or (where each head is a row of its own) of tokens * heads
// rows and dim columns.
struct Tensor {
  void* data = nullptr;
  DType dtype = DType::kF32;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t stride = 0;  // elements from one row to the next, >= cols

  static Tensor dense(void* data, DType dtype, std::int64_t rows, std::int64_t cols) {
    return {.data = data, .dtype = dtype, .rows = rows, .cols = cols, .stride = cols};
  }

  bool is_dense() const { return stride == cols || rows <= 1; }
  std::int64_t size() const { return rows * cols; }

  // Rows [first, first + count).
  Tensor row_range(std::int64_t first, std::int64_t count) const {
    TS_DCHECK(first >= 0 && count >= 0 && first + count <= rows, first, count, rows);
    Tensor part = *this;
    part.data = static_cast<char*>(data) + first * stride * bytes_of(dtype);
    part.rows = count;
    return part;
  }
  // Columns [first, first + count) of every row.
  Tensor col_range(std::int64_t first, std::int64_t count) const {
    TS_DCHECK(first >= 0 && count >= 0 && first + count <= cols, first, count, cols);
    Tensor part = *this;
    part.data = static_cast<char*>(data) + first * bytes_of(dtype);
    part.cols = count;
    return part;
  }
  // The same dense elements as rows of `new_cols`: [tokens, heads * dim] as [tokens * heads, dim].
  Tensor reshaped(std::int64_t new_cols) const {
    TS_DCHECK(is_dense() && new_cols > 0 && size() % new_cols == 0, rows, cols, stride, new_cols);
    return dense(data, dtype, size() / new_cols, new_cols);
  }

  // For code that runs where the data is (the CPU back-end, tests).
  template <class T>
  T* row(std::int64_t r) const {
    TS_DCHECK(static_cast<std::int64_t>(sizeof(T)) == bytes_of(dtype) && r >= 0 && r < rows, r, rows);
    return static_cast<T*>(data) + r * stride;
  }
};

}  // namespace tessera
