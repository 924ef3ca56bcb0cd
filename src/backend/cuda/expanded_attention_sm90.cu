// Expanded attention on Hopper: the thread that fills, the kernel, which runs it takes, and the launch. The
// idea: expanded_attention_sm90.cuh.
#include <algorithm>

#include "backend/cuda/expanded_consume_sm90.cuh"
#include "backend/cuda/mla_tensor_map.h"
#include "base/check.h"

namespace tessera::cuda {
namespace sm90 {
namespace {

// One thread: draws items and asks for everything that they need.
__device__ inline void fill(const PrefillRun& run, const ExpandedMaps& maps, const ExpandedPlace& place,
                            std::int32_t heads_at_once) {
  const auto heads = static_cast<std::int32_t>(run.shape.heads);
  const std::int32_t items = run.round.tiles * heads;
  std::uint32_t done = 0;  // tiles of keys
  auto next = static_cast<std::int32_t>(blockIdx.x);
  for (std::uint32_t drawn = 0;; ++drawn) {
    barrier_wait(place.q_empty(), (drawn & 1) ^ 1);
    if (next >= items) {
      store_shared(place.item(), uint4{});
      barrier_arrive(place.q_full());
      return;
    }
    const std::int32_t group = next / (run.round.tiles * heads_at_once);
    const std::int32_t inside = next % (run.round.tiles * heads_at_once);
    const std::int32_t width = min(heads_at_once, heads - group * heads_at_once);
    const std::int32_t head = group * heads_at_once + inside % width;
    const PrefillTile tile = run.tiles[inside / width];
    store_shared(place.item(),
                 uint4{static_cast<std::uint32_t>(tile.first_token), static_cast<std::uint32_t>(tile.tokens),
                       static_cast<std::uint32_t>(tile.first_row), static_cast<std::uint32_t>(tile.rows)});
    store_shared(place.item() + 16,
                 uint4{static_cast<std::uint32_t>(tile.full_rows), static_cast<std::uint32_t>(head), 0, 0});
    barrier_expect(place.q_full(), Expanded::kQueryBytes);
    copy_tile(place.q(), &maps.q, place.q_full(), tile.first_token, head * Expanded::kQueryChunks, 0);
    next = static_cast<std::int32_t>(gridDim.x) + atomicAdd(run.counter, 1);

    const int count = (tile.rows + Expanded::kRows - 1) / Expanded::kRows;
    for (int i = 0; i <= count; ++i) {  // keys are needed a tile before the values
      if (i < count) {
        const std::uint32_t n = done + i;
        const int row = tile.chunk_row + i * Expanded::kRows;
        const std::uint32_t full = place.keys_full(stage_of(n));
        barrier_wait(place.keys_empty(stage_of(n)), phase_of(n) ^ 1);
        barrier_expect(full, Expanded::kQueryBytes);
        const std::uint32_t to = place.keys(stage_of(n));
        copy_tile(to, &maps.keys, full, row, head * Expanded::kNopeChunks, 0);
        copy_tile(to + Expanded::kNopeChunks * Expanded::kChunkBytes, &maps.ropes, full, row, 0, 0);
      }
      if (i > 0) {
        const std::uint32_t n = done + i - 1;
        const int row = tile.chunk_row + (i - 1) * Expanded::kRows;
        const std::uint32_t full = place.values_full(stage_of(n));
        barrier_wait(place.values_empty(stage_of(n)), phase_of(n) ^ 1);
        barrier_expect(full, Expanded::kValueBytes);
        copy_tile(place.values(stage_of(n)), &maps.values, full, row, head * Expanded::kValueChunks, 0);
      }
    }
    done += count;
  }
}

__global__ void __launch_bounds__(Expanded::kThreads, 1)
    expanded_kernel(const __grid_constant__ PrefillRun run, const __grid_constant__ ExpandedMaps maps,
                    std::int32_t heads_at_once) {
  extern __shared__ unsigned char shared[];
  const ExpandedPlace place{(shared_address(shared) + 1023) / 1024 * 1024};
  if (threadIdx.x == 0) {
    constexpr int kWarps = Expanded::kConsumers / 32;
    barrier_init(place.q_full(), 1);
    barrier_init(place.q_empty(), kWarps);
    for (int stage = 0; stage < Expanded::kStages; ++stage) {
      barrier_init(place.keys_full(stage), 1);
      barrier_init(place.keys_empty(stage), kWarps);
      barrier_init(place.values_full(stage), 1);
      barrier_init(place.values_empty(stage), kWarps);
    }
    barrier_init_done();
  }
  __syncthreads();
  const int group =
      __shfl_sync(~0U, threadIdx.x / 128, 0);  // tells the compiler that warps do not diverge here
  if (group == 2) {
    give_registers<Expanded::kFillerRegisters>();
    if (threadIdx.x == Expanded::kConsumers) fill(run, maps, place, heads_at_once);
  } else {
    take_registers<Expanded::kConsumerRegisters>();
    ExpandedConsumer{run, place, group}.work();
  }
}

}  // namespace
}  // namespace sm90

namespace {

using sm90::Expanded;

// Keys and values of so many heads stay in L2 (50 MB, in two halves that both keep what both read) while
// items of these heads run.
constexpr std::int64_t kBytesAtOnce = std::int64_t{16} << 20;

}  // namespace

bool has_expanded_attention_sm90(const PrefillRun& run, const DeviceTraits& device) {
  const PrefillShape& s = run.shape;
  return device.capability == 90 && has_expanded_attention_mma(run) && s.nope == Expanded::kNope &&
         s.rope == Expanded::kRope && s.value == Expanded::kValue && run.scale > 0;
}

void launch_expanded_attention_sm90(const PrefillRun& run, const DeviceTraits& device, cudaStream_t stream) {
  TS_CHECK(has_expanded_attention_sm90(run, device));
  const PrefillShape& s = run.shape;
  const auto heads = static_cast<std::int32_t>(s.heads);
  const std::int64_t rows = std::max(run.round.rows, 1);  // a map over nothing is refused
  const auto map = [](const void* data, std::int64_t row_bytes, std::int64_t count, int chunks, int box) {
    return map_rows({.data = data,
                     .row_bytes = row_bytes,
                     .rows = count,
                     .chunks = chunks,
                     .box_rows = Expanded::kRows,
                     .box_chunks = box});
  };
  const sm90::ExpandedMaps maps{
      .q = map(run.q.data, 2 * run.q.stride, run.batch.tokens, heads * Expanded::kQueryChunks,
               Expanded::kQueryChunks),
      .keys = map(run.keys, 2 * s.heads * s.nope, rows, heads * Expanded::kNopeChunks, Expanded::kNopeChunks),
      .ropes =
          map(static_cast<const std::byte*>(run.latents) + 2 * s.latent, 2 * (s.latent + s.rope), rows, 1, 1),
      .values = map(run.values, 2 * s.heads * s.value, rows, heads * Expanded::kValueChunks,
                    Expanded::kValueChunks)};
  const std::int64_t head_bytes = rows * 2 * (s.nope + s.value);
  const auto heads_at_once =
      static_cast<std::int32_t>(std::clamp<std::int64_t>(kBytesAtOnce / head_bytes, 1, heads));
  const auto kernel = sm90::expanded_kernel;
  TS_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, Expanded::kSharedBytes));
  const std::int64_t items = std::int64_t{run.round.tiles} * heads;
  const auto blocks = static_cast<unsigned>(std::min<std::int64_t>(items, device.multiprocessors));
  kernel<<<blocks, Expanded::kThreads, Expanded::kSharedBytes, stream>>>(run, maps, heads_at_once);
  TS_CUDA(cudaGetLastError());
}

}  // namespace tessera::cuda
