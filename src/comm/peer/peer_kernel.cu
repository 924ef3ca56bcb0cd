// peer_all_reduce: the one-shot all-reduce of peer_protocol.h on the device.
//
// In/out  data  [packs * 16 bytes] f32 or bf16, 16-byte aligned; sums in f32, in rank order, rounded once
// Bound:  each rank writes (ranks - 1) * bytes over the links and waits once: a latency, not a bandwidth, so
// it is for
//         messages up to some hundred kilobytes.
// Order:  the stores of all threads, a system fence each, the block's barrier, then one flag a peer,
// released.
//         Whoever has seen a flag (acquired) and passed its own block's barrier may read the slot; the reads
//         bypass L1, which may hold the slot's bytes of two calls ago.
#include <algorithm>

#include "comm/peer/peer_kernel.h"

namespace tessera {
namespace {

struct Config {
  static constexpr int kThreads = 512;  // one pack each: 8 KiB a block and turn
  static constexpr int kSpins = 64;     // reads of a flag between two looks at the clock
};

template <class T>
class DeviceMachine {
 public:
  using Pack = uint4;
  static constexpr int kEach = kPeerPack / static_cast<int>(sizeof(T));
  struct Sum {
    float value[kEach];
  };

  __device__ DeviceMachine(const PeerTrouble* trouble, std::uint64_t patience_ns)
      : trouble_(trouble), patience_ns_(patience_ns) {}

  __device__ int lane() const { return static_cast<int>(threadIdx.x); }
  __device__ int lanes() const { return static_cast<int>(blockDim.x); }
  __device__ void together() { __syncthreads(); }
  __device__ Pack load(const std::byte* from) { return *reinterpret_cast<const uint4*>(from); }
  __device__ Pack load_received(const std::byte* from) {
    uint4 pack;
    asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(pack.x), "=r"(pack.y), "=r"(pack.z), "=r"(pack.w)
                 : "l"(from)
                 : "memory");
    return pack;
  }
  __device__ void store(std::byte* to, const Pack& pack) { *reinterpret_cast<uint4*>(to) = pack; }
  __device__ void before_publishing() { __threadfence_system(); }
  __device__ void publish(std::byte* flag, std::uint32_t number) {
    asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(flag), "r"(number) : "memory");
  }
  __device__ bool await(const std::byte* flag, std::uint32_t number) {
    const std::uint64_t begin = now();
    for (int spin = 1;; ++spin) {
      std::uint32_t value;
      asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(flag) : "memory");
      if (value == number) return true;
      if (spin % Config::kSpins != 0) continue;
      // Trouble elsewhere, or the host's own word that it is over, ends this wait too.
      if (*reinterpret_cast<const volatile std::uint32_t*>(&trouble_->happened) != 0) return false;
      if (now() - begin > patience_ns_) return false;
    }
  }
  __device__ void complain(PeerTrouble& trouble, const PeerTrouble& what) {
    if (atomicCAS_system(&trouble.happened, 0U, 2U) != 0U) return;
    trouble.missing = what.missing;
    trouble.block = what.block;
    trouble.call = what.call;
    __threadfence_system();
    atomicExch_system(&trouble.happened, 1U);
  }
  __device__ static void add(Sum& sum, const Pack& pack) {
    const std::uint32_t words[4] = {pack.x, pack.y, pack.z, pack.w};
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      if constexpr (sizeof(T) == 4) {
        sum.value[w] += __uint_as_float(words[w]);
      } else {
        sum.value[2 * w] += __uint_as_float(words[w] << 16);
        sum.value[2 * w + 1] += __uint_as_float(words[w] & 0xffff0000U);
      }
    }
  }
  __device__ static Pack round(const Sum& sum) {
    std::uint32_t words[4];
#pragma unroll
    for (int w = 0; w < 4; ++w) {
      if constexpr (sizeof(T) == 4) {
        words[w] = __float_as_uint(sum.value[w]);
      } else {
        words[w] = rounded(sum.value[2 * w]) | rounded(sum.value[2 * w + 1]) << 16;
      }
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
  }
  __device__ static std::uint32_t take_ticket(std::uint32_t& counter) {
    __threadfence();  // this block has read the count of calls before anybody raises it
    return atomicAdd(&counter, 1U);
  }

 private:
  // To the nearest bf16, ties to even; NaN stays NaN.
  __device__ static std::uint32_t rounded(float value) {
    const std::uint32_t bits = __float_as_uint(value);
    if ((bits & 0x7fffffffU) > 0x7f800000U) return 0x7fc0U;
    return (bits + 0x7fffU + ((bits >> 16) & 1U)) >> 16;
  }
  __device__ static std::uint64_t now() {
    std::uint64_t time;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(time));
    return time;
  }

  const PeerTrouble* trouble_;
  std::uint64_t patience_ns_;
};

template <class T>
__global__ void __launch_bounds__(Config::kThreads)
    peer_all_reduce_kernel(const __grid_constant__ PeerCall call, std::uint64_t patience_ns) {
  DeviceMachine<T> machine(call.trouble, patience_ns);
  run_peer_block(machine, call, static_cast<int>(blockIdx.x));
}

}  // namespace

int peer_blocks(std::int64_t packs) {
  const std::int64_t blocks = (packs + Config::kThreads - 1) / Config::kThreads;
  return static_cast<int>(std::clamp<std::int64_t>(blocks, 1, kPeerMostBlocks));
}

cudaError_t launch_peer_all_reduce(const PeerCall& call, DType dtype, std::chrono::nanoseconds patience,
                                   cudaStream_t stream) {
  const auto ns = static_cast<std::uint64_t>(patience.count());
  if (dtype == DType::kF32) {
    peer_all_reduce_kernel<float><<<call.blocks, Config::kThreads, 0, stream>>>(call, ns);
  } else {
    peer_all_reduce_kernel<BF16><<<call.blocks, Config::kThreads, 0, stream>>>(call, ns);
  }
  return cudaGetLastError();
}

}  // namespace tessera
