#include <cuda_bf16.h>
#include <cuda_fp8.h>

#include "backend/cuda/device.h"
#include "bench/mla/random_fill.h"

namespace tessera::bench {
namespace {

__device__ std::uint64_t mixed(std::uint64_t x) {  // splitmix64
  x += 0x9E3779B97F4A7C15ULL;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}
// About normal: the sum of four uniform values, variance 1.
__device__ float about_normal(std::uint64_t bits) {
  float sum = 0.0F;
  for (int i = 0; i < 4; ++i) sum += static_cast<float>((bits >> (16 * i)) & 0xFFFF) / 65536.0F - 0.5F;
  return sum * 1.7320508F;
}

__global__ void fill_kernel(KvFormat format, unsigned char* rows, std::size_t words, std::uint64_t seed) {
  const std::size_t step = static_cast<std::size_t>(gridDim.x) * blockDim.x;
  for (std::size_t i = static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < words;
       i += step) {
    std::uint32_t word = 0;
    const auto bf16_word = [&] {
      const __nv_bfloat162 pair =
          __floats2bfloat162_rn(about_normal(mixed(seed ^ (2 * i))), about_normal(mixed(seed ^ (2 * i + 1))));
      return reinterpret_cast<const std::uint32_t&>(pair);
    };
    const auto fp8_word = [&] {
      std::uint32_t four = 0;
      for (int k = 0; k < 4; ++k) {
        four |= static_cast<std::uint32_t>(
                    __nv_cvt_float_to_fp8(about_normal(mixed(seed ^ (4 * i + k))), __NV_SATFINITE, __NV_E4M3))
                << (8 * k);
      }
      return four;
    };
    if (format == KvFormat::kFp8) {
      word = fp8_word();
    } else if (format == KvFormat::kFp8Grouped) {
      const std::size_t in_row = i % 164;  // words of a 656-byte row
      word = in_row < 128   ? fp8_word()
             : in_row < 132 ? __float_as_uint(0.5F + static_cast<float>(in_row - 128))
                            : bf16_word();
    } else {
      word = bf16_word();
    }
    reinterpret_cast<std::uint32_t*>(rows)[i] = word;
  }
}

__global__ void spin_kernel(std::int64_t nanoseconds) {
  std::int64_t start = 0;
  std::int64_t now = 0;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(start));
  do {
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  } while (now - start < nanoseconds);
}

}  // namespace

void fill_random_rows(KvFormat format, void* rows, std::size_t bytes, std::uint64_t seed,
                      cudaStream_t stream) {
  fill_kernel<<<1024, 256, 0, stream>>>(format, static_cast<unsigned char*>(rows), bytes / 4, seed);
  TS_CUDA(cudaGetLastError());
}

void spin(std::int64_t nanoseconds, cudaStream_t stream) {
  spin_kernel<<<1, 1, 0, stream>>>(nanoseconds);
  TS_CUDA(cudaGetLastError());
}

}  // namespace tessera::bench
