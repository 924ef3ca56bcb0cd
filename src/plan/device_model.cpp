#include "plan/device_model.h"

#include <memory>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/prepare.h"
#include "backend/cuda_layout/cuda_scratch.h"
#include "backend/cuda_layout/weight_layout.h"

namespace tessera {
namespace {

// Shared memory of a multiprocessor, in bytes, by compute capability (CUDA's programming guide): whether two
// blocks of split attention fit depends on it.
int shared_bytes(int capability) {
  if (capability == 80 || capability == 87) return 164 << 10;
  if (capability >= 90 && capability < 120) return 228 << 10;
  return 100 << 10;
}

}  // namespace

DeviceModel cpu_device(int threads) {
  return {.name = "cpu",
          .activation = DType::kF32,
          .stack_bytes = cpu_stack_bytes,
          .reserve_bytes = [threads](std::span<const Backend::Limits> reserved) {
            // Untouched scratch is address space only.
            const auto backend = make_cpu_backend({.threads = threads});
            std::size_t bytes = 0;
            for (const Backend::Limits& limits : reserved) bytes = backend->reserve(limits);
            return bytes;
          }};
}

DeviceModel gpu_device(const GpuCard& card, bool batch_invariant) {
  const cuda::CudaScratchChoice choice{
      .device = {.multiprocessors = card.multiprocessors,
                 .capability = card.capability,
                 .shared_bytes_a_multiprocessor = shared_bytes(card.capability)},
      .activation = DType::kBF16,
      .batch_invariant = batch_invariant};
  return {.name = card.name,
          .activation = choice.activation,
          .stack_bytes =
              [](WeightFormat format, std::int64_t count, std::int64_t out, std::int64_t in) {
                // f32 matrices are rounded, as the activations are.
                const cuda::WeightBytes bytes =
                    cuda::weight_bytes(format == WeightFormat::kF32 ? WeightFormat::kBF16 : format, out, in);
                return count * (bytes.data + bytes.scale);
              },
          .reserve_bytes =
              [choice](std::span<const Backend::Limits> reserved) {
                return cuda::cuda_scratch(reserved, choice).sum();
              }};
}

}  // namespace tessera
