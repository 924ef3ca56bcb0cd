// Hopper's asynchronous machinery, one instruction a function: mbarriers, bulk tensor copies, named barriers,
// fences. Addresses of shared memory are 32-bit values in the shared window (shared_address).
#pragma once

#include <cuda.h>

#include <cstdint>

namespace tessera::cuda {

__device__ inline std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(pointer));
}

// --- mbarrier
__device__ inline void barrier_init(std::uint32_t barrier, std::uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals));
}
__device__ inline void barrier_init_done() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}
__device__ inline void barrier_expect(std::uint32_t barrier, std::uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}
__device__ inline void barrier_arrive(std::uint32_t barrier) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(barrier) : "memory");
}
__device__ inline bool barrier_try_wait(std::uint32_t barrier, std::uint32_t parity) {
  std::uint32_t done;
  asm volatile(
      "{\n"
      ".reg .pred p;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2;\n"
      "selp.u32 %0, 1, 0, p;\n"
      "}\n"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}
// Waits until the phase of the given parity has completed. A fresh barrier counts as having completed
// parity 1.
__device__ inline void barrier_wait(std::uint32_t barrier, std::uint32_t parity) {
  while (!barrier_try_wait(barrier, parity)) {
  }
}

// --- a ring of stages, walked one after the other: which, and the phase of its barriers
template <int kStages>
struct Ring {
  static constexpr bool kBinary = (kStages & (kStages - 1)) == 0;  // then the number walked tells both
  std::uint32_t done = 0;                                          // stages walked
  std::uint32_t at = 0;
  std::uint32_t turn = 0;
  __device__ __forceinline__ int stage() const { return static_cast<int>(kBinary ? done % kStages : at); }
  __device__ __forceinline__ std::uint32_t phase() const { return kBinary ? done / kStages & 1 : turn; }
  __device__ __forceinline__ void advance() {
    ++done;
    if (!kBinary && ++at == kStages) {
      at = 0;
      turn ^= 1;
    }
  }
};

// --- named barriers: `threads` threads meet; arriving does not wait
__device__ inline void named_sync(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ inline void named_arrive(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Whether `mine` holds for any of the `threads` threads that meet.
__device__ inline bool named_any(int id, int threads, bool mine) {
  std::uint32_t any;
  asm volatile(
      "{\n"
      ".reg .pred p, q;\n"
      "setp.ne.b32 p, %3, 0;\n"
      "barrier.cta.red.or.pred q, %1, %2, p;\n"
      "selp.u32 %0, 1, 0, q;\n"
      "}\n"
      : "=r"(any)
      : "r"(id), "r"(threads), "r"(mine ? 1 : 0)
      : "memory");
  return any != 0;
}

// --- clusters of blocks: all their threads meet; shared memory of block `rank` at the place that `address`
// is of this one's
__device__ inline void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}
__device__ inline float4 load_of_cluster(std::uint32_t address, int rank) {
  float4 value;
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %4, %5;\n"
      "ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [there];\n"
      "}\n"
      : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
      : "r"(address), "r"(rank)
      : "memory");
  return value;
}

// --- ordering between ordinary accesses to shared memory and those of the tensor cores and the copy engine
__device__ inline void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// --- bulk tensor copies, global to shared, completing bytes on an mbarrier
__device__ inline void copy_box(std::uint32_t to, const CUtensorMap* map, std::uint32_t barrier, int at_0,
                                int at_1, int at_2, int at_3) {
  asm volatile(
      "cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4, %5, "
      "%6}], "
      "[%2];" ::"r"(to),
      "l"(map), "r"(barrier), "r"(at_0), "r"(at_1), "r"(at_2), "r"(at_3)
      : "memory");
}
__device__ inline void copy_tile(std::uint32_t to, const CUtensorMap* map, std::uint32_t barrier, int row,
                                 int chunk, int outer) {
  copy_box(to, map, barrier, 0, row, chunk, outer);
}

// --- wgmma groups
__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ inline void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

// Descriptor of an operand in shared memory whose 128-byte rows are swizzled (16-byte column c of row r lies
// at c ^ (r % 8)). `group` bytes lie between groups of 8 rows; `chunk` bytes between 64-element columns, read
// only for operands whose contiguous direction is the column.
__device__ inline std::uint64_t wgmma_operand(std::uint32_t address, std::uint32_t group,
                                              std::uint32_t chunk) {
  return static_cast<std::uint64_t>((address & 0x3FFFF) >> 4) | static_cast<std::uint64_t>(chunk >> 4) << 16 |
         static_cast<std::uint64_t>(group >> 4) << 32 | std::uint64_t{1} << 62;
}
// The same for rows of 64 bytes (16-byte column c of row r lies at c ^ (r / 2 % 4)), the k direction
// contiguous.
__device__ inline std::uint64_t wgmma_operand_64(std::uint32_t address) {
  return static_cast<std::uint64_t>((address & 0x3FFFF) >> 4) | std::uint64_t{1} << 16 |
         static_cast<std::uint64_t>(8 * 64 >> 4) << 32 | std::uint64_t{2} << 62;
}

// The same without swizzling, for 8 rows x 16 bytes that lie together: `along_k` bytes to the next such piece
// in the direction of k, `group` bytes to the next 8 rows.
__device__ inline std::uint64_t wgmma_operand_pieces(std::uint32_t address, std::uint32_t along_k,
                                                     std::uint32_t group) {
  return static_cast<std::uint64_t>((address & 0x3FFFF) >> 4) |
         static_cast<std::uint64_t>(along_k >> 4) << 16 | static_cast<std::uint64_t>(group >> 4) << 32;
}

// The descriptor of what lies `bytes` further: an addition in the low half only, where addresses are.
__device__ __forceinline__ std::uint64_t wgmma_advance(std::uint64_t operand, int bytes) {
  const auto low = static_cast<std::uint32_t>(operand) + static_cast<std::uint32_t>(bytes >> 4);
  std::uint64_t moved;
  asm("mov.b64 %0, {%1, %2};" : "=l"(moved) : "r"(low), "r"(static_cast<std::uint32_t>(operand >> 32)));
  return moved;
}

// A value that the compiler cannot know: sums of it and constants are computed where they are used, and not
// once for all turns of a loop, which would take a register each.
__device__ __forceinline__ std::uint64_t pinned(std::uint64_t value) {
  asm volatile("" : "+l"(value));
  return value;
}

// --- shared memory by address
__device__ __forceinline__ float load_shared(std::uint32_t address) {
  float value;
  asm volatile("ld.shared.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
  return value;
}
__device__ __forceinline__ float2 load_shared_2(std::uint32_t address) {
  float2 value;
  asm volatile("ld.shared.v2.f32 {%0, %1}, [%2];" : "=f"(value.x), "=f"(value.y) : "r"(address) : "memory");
  return value;
}
__device__ __forceinline__ std::uint32_t load_shared_word(std::uint32_t address) {
  std::uint32_t value;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}
__device__ __forceinline__ uint2 load_shared_pair(std::uint32_t address) {
  uint2 value;
  asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(value.x), "=r"(value.y) : "r"(address) : "memory");
  return value;
}
__device__ __forceinline__ uint4 load_shared_4(std::uint32_t address) {
  uint4 value;
  asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(value.x), "=r"(value.y), "=r"(value.z), "=r"(value.w)
               : "r"(address)
               : "memory");
  return value;
}
__device__ __forceinline__ void store_shared(std::uint32_t address, float value) {
  asm volatile("st.shared.f32 [%0], %1;" ::"r"(address), "f"(value) : "memory");
}
__device__ __forceinline__ void store_shared(std::uint32_t address, std::uint32_t value) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}
__device__ __forceinline__ void store_shared(std::uint32_t address, uint4 value) {
  asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(value.x), "r"(value.y),
               "r"(value.z), "r"(value.w)
               : "memory");
}

// Four 8x8 matrices of 16-bit values; lane l gives the address of row l % 8 of matrix l / 8.
__device__ inline void store_matrices(std::uint32_t address, const std::uint32_t (&m)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address), "r"(m[0]),
               "r"(m[1]), "r"(m[2]), "r"(m[3])
               : "memory");
}
__device__ inline void store_matrices_transposed(std::uint32_t address, const std::uint32_t (&m)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(address),
               "r"(m[0]), "r"(m[1]), "r"(m[2]), "r"(m[3])
               : "memory");
}
__device__ inline void store_matrices_transposed(std::uint32_t address, const std::uint32_t (&m)[2]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x2.trans.shared.b16 [%0], {%1, %2};" ::"r"(address), "r"(m[0]),
               "r"(m[1])
               : "memory");
}
__device__ inline void load_matrices(std::uint32_t (&m)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address)
               : "memory");
}
__device__ inline void load_matrices_transposed(std::uint32_t (&m)[4], std::uint32_t address) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(m[0]), "=r"(m[1]), "=r"(m[2]), "=r"(m[3])
               : "r"(address)
               : "memory");
}

template <int kRegisters>
__device__ inline void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void give_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

}  // namespace tessera::cuda
