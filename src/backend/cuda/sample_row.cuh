// Passes of one block over a row of logits: sums, and the place where a running sum passes a target. Each
// warp has a contiguous stretch of the row, so that "in the order of ids" is an order of warps and of steps
// inside them.
#pragma once

#include <cstdint>

namespace tessera::cuda {

inline constexpr int kRowThreads = 1024;
inline constexpr int kRowWarps = kRowThreads / 32;

__device__ __forceinline__ std::uint64_t warp_sum(std::uint64_t x) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffU, x, step);
  return x;
}

class RowPasses {
 public:
  struct Shared {
    std::uint64_t sums[3][kRowWarps];
    float value[kRowWarps];
    std::int32_t index[kRowWarps];
    std::int32_t found;
  };
  __device__ RowPasses(Shared& shared, std::int32_t vocab)
      : shared_(shared),
        vocab_(vocab),
        warp_(static_cast<int>(threadIdx.x) / 32),
        lane_(static_cast<int>(threadIdx.x) % 32),
        stretch_((vocab + kRowThreads - 1) / kRowThreads * 32),
        first_(warp_ * stretch_),
        last_(min(vocab, first_ + stretch_)) {}

  template <class F>
  __device__ void each(const F& f) const {
    for (std::int32_t i = first_ + lane_; i < last_; i += 32) f(i);
  }

  // Sums of the three values that f(i, sums) adds to, known to every thread.
  template <int kSums, class F>
  __device__ void sum(std::uint64_t (&total)[kSums], const F& f) {
    static_assert(kSums <= 3);
    std::uint64_t mine[kSums] = {};
    each([&](std::int32_t i) { f(i, mine); });
    __syncthreads();  // the last use of shared_ is over
#pragma unroll
    for (int s = 0; s < kSums; ++s) {
      mine[s] = warp_sum(mine[s]);
      if (lane_ == 0) shared_.sums[s][warp_] = mine[s];
    }
    __syncthreads();
#pragma unroll
    for (int s = 0; s < kSums; ++s) {
      total[s] = 0;
      for (int w = 0; w < kRowWarps; ++w) total[s] += shared_.sums[s][w];
    }
  }
  template <class F>
  __device__ std::uint64_t sum(const F& f) {
    std::uint64_t total[1];
    sum(total, [&](std::int32_t i, std::uint64_t(&sums)[1]) { sums[0] += f(i); });
    return total[0];
  }

  // The first i, in order, at which the sum of f over 0 .. i exceeds `target`; -1 where it never does.
  template <class F>
  __device__ std::int32_t find(std::uint64_t target, const F& f) {
    std::uint64_t mine = 0;
    each([&](std::int32_t i) { mine += f(i); });
    __syncthreads();
    mine = warp_sum(mine);
    if (lane_ == 0) shared_.sums[0][warp_] = mine;
    if (threadIdx.x == 0) shared_.found = -1;
    __syncthreads();
    std::uint64_t before = 0;
    for (int w = 0; w < warp_; ++w) before += shared_.sums[0][w];
    if (before <= target && target < before + mine) {
      for (std::int32_t base = first_; base < last_; base += 32) {
        const std::int32_t i = base + lane_;
        const std::uint64_t own = i < last_ ? f(i) : 0;
        std::uint64_t running = own;
        for (int step = 1; step < 32; step *= 2) {
          const std::uint64_t other = __shfl_up_sync(0xffffffffU, running, step);
          if (lane_ >= step) running += other;
        }
        const std::uint32_t past = __ballot_sync(0xffffffffU, before + running > target);
        if (past != 0) {
          if (lane_ == 0) shared_.found = base + __ffs(static_cast<int>(past)) - 1;
          break;
        }
        before += __shfl_sync(0xffffffffU, running, 31);
      }
    }
    __syncthreads();
    return shared_.found;
  }

  // The largest value that f(i) gives, the lowest i of equals; NaN is passed over. (-inf, -1) of none.
  template <class F>
  __device__ void best(float& value, std::int32_t& index, const F& f) {
    value = -INFINITY;
    index = -1;
    const auto take = [&](float other, std::int32_t at) {
      if (at >= 0 && (index < 0 || other > value || (other == value && at < index))) {
        value = other;
        index = at;
      }
    };
    each([&](std::int32_t i) {
      const float x = f(i);
      if (x > value || (index < 0 && x == value)) take(x, i);
    });
    for (int step = 16; step > 0; step /= 2) {
      const float other = __shfl_xor_sync(0xffffffffU, value, step);
      const std::int32_t at = __shfl_xor_sync(0xffffffffU, index, step);
      take(other, at);
    }
    __syncthreads();
    if (lane_ == 0) {
      shared_.value[warp_] = value;
      shared_.index[warp_] = index;
    }
    __syncthreads();
    value = -INFINITY;
    index = -1;
    for (int w = 0; w < kRowWarps; ++w) take(shared_.value[w], shared_.index[w]);
  }

 private:
  Shared& shared_;
  std::int32_t vocab_;
  int warp_;
  int lane_;
  std::int32_t stretch_;  // a warp's, a multiple of 32
  std::int32_t first_;
  std::int32_t last_;
};

// Order of floats as unsigned integers; -0 counts as 0.
__device__ __forceinline__ std::uint32_t order_of(float x) {
  const std::uint32_t bits = __float_as_uint(x + 0.0F);
  return (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
}

}  // namespace tessera::cuda
