// Copies from global to shared memory that pass no register (cp.async, sm_80 and newer). A thread's own
// copies are there once it has waited for the group that it closed behind them; those of others, after a
// barrier as well.
#pragma once

#include <cstdint>

namespace tessera::cuda {

// 16 bytes, past the L1 cache; zeros where `inside` is false.
__device__ __forceinline__ void copy_16(std::uint32_t shared, const void* global, bool inside) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared), "l"(global),
               "r"(inside ? 16 : 0));
}
__device__ __forceinline__ void copy_16(void* shared, const void* global, bool inside) {
  copy_16(static_cast<std::uint32_t>(__cvta_generic_to_shared(shared)), global, inside);
}
__device__ __forceinline__ void copy_16(void* shared, const void* global) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(
                   static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))),
               "l"(global)
               : "memory");
}
// 4 or 8 bytes that neighbours ask for too: through the L1 cache.
template <int kBytes>
__device__ __forceinline__ void copy_few(void* shared, const void* global) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(
                   static_cast<std::uint32_t>(__cvta_generic_to_shared(shared))),
               "l"(global), "n"(kBytes)
               : "memory");
}
__device__ __forceinline__ void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ __forceinline__ void copies_wait() {  // for all but the last kPending groups
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}

}  // namespace tessera::cuda
