// Scratch memory of one step: taken in order, given back all at once. Sized at start, so a step allocates
// nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "tensor/tensor.h"

namespace tessera {

// Hands out views of one block of device memory that somebody else owns. The same sequence of takes gives the
// same addresses, which captured graphs rely on. With a null base it only counts: run the step once so to
// learn its size.
class Arena {
 public:
  static constexpr std::size_t kAlign =
      256;  // bytes; coalesced loads on a GPU, and whole cache lines on a CPU

  Arena() = default;
  Arena(void* base, std::size_t bytes) : base_(static_cast<char*>(base)), capacity_(bytes) {}

  Tensor take(DType dtype, std::int64_t rows, std::int64_t cols) {
    return Tensor::dense(take_bytes(static_cast<std::size_t>(rows * cols * bytes_of(dtype))), dtype, rows,
                         cols);
  }
  void* take_bytes(std::size_t bytes) {
    const std::size_t start = used_;
    used_ += (bytes + kAlign - 1) / kAlign * kAlign;
    if (used_ > peak_) peak_ = used_;
    TS_CHECK(counting() || used_ <= capacity_, used_, capacity_);
    return counting() ? nullptr : base_ + start;
  }

  // What is taken after mark() is given back by release(mark): scratch of one layer inside the scratch of a
  // step.
  std::size_t mark() const { return used_; }
  void release(std::size_t mark) { used_ = mark; }
  void clear() { used_ = 0; }

  bool counting() const { return base_ == nullptr; }
  std::size_t peak() const { return peak_; }  // bytes

 private:
  char* base_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t used_ = 0;
  std::size_t peak_ = 0;
};

}  // namespace tessera
