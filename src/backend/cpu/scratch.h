// Working memory that grows when it must and is then kept: after reserve() has asked for the most that calls
// within the limits need, no call allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

#include "base/check.h"

namespace tessera {

inline constexpr std::size_t kScratchAlign = 64;  // bytes, a cache line and an AVX-512 vector

class Scratch {
 public:
  // At least `bytes` bytes with any content, valid until the next call.
  std::byte* at_least(std::size_t bytes) {
    if (bytes > capacity_) {
      data_.reset();
      capacity_ = (bytes + kScratchAlign - 1) / kScratchAlign * kScratchAlign;
      data_.reset(static_cast<std::byte*>(std::aligned_alloc(kScratchAlign, capacity_)));
      if (data_ == nullptr) throw std::bad_alloc();
    }
    return data_.get();
  }
  std::size_t capacity() const { return capacity_; }

 private:
  struct Free {
    void operator()(std::byte* data) const { std::free(data); }
  };
  std::unique_ptr<std::byte, Free> data_;
  std::size_t capacity_ = 0;
};

// Cuts arrays off one piece of scratch. With a null base it only counts, so that sizes are written once.
class Carver {
 public:
  explicit Carver(std::byte* base) : base_(base) {}

  template <class T>
  T* take(std::int64_t count) {
    const std::size_t at = used_;
    used_ +=
        (static_cast<std::size_t>(count) * sizeof(T) + kScratchAlign - 1) / kScratchAlign * kScratchAlign;
    return base_ == nullptr ? nullptr : reinterpret_cast<T*>(base_ + at);
  }
  std::size_t used() const { return used_; }

 private:
  std::byte* base_;
  std::size_t used_ = 0;
};

}  // namespace tessera
