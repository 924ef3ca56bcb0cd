#include "plan/device_model.h"

#include <algorithm>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/prepare.h"
#include "checkpoint/parameters.h"

namespace tessera {
namespace {

constexpr std::int64_t kMlaLatent = 512;
// Prefill in the expanded form makes keys and values of so many cached tokens at a time.
constexpr std::int64_t kExpandedTokens = 4096;
// cuBLAS asks for this much on Hopper and newer; its default elsewhere is smaller.
constexpr std::int64_t kBlasWorkspace = std::int64_t{32} << 20;

}  // namespace

DeviceModel cpu_device(int threads) {
  return {.name = "cpu",
          .activation = DType::kF32,
          .stack_bytes = cpu_stack_bytes,
          .reserve_bytes = [threads](const Backend::Limits& limits) {
            // Untouched scratch is address space only.
            return make_cpu_backend({.threads = threads})->reserve(limits);
          }};
}

std::int64_t mla_split_scratch_bytes(std::int64_t multiprocessors, std::int64_t heads,
                                     std::int64_t query_tokens, bool hopper) {
  const std::int64_t rows = heads * query_tokens;
  const std::int64_t tile = rows <= 16 ? 16 : hopper ? 64 : 32;
  const std::int64_t tiles = (rows + tile - 1) / tile;
  // Small tiles may run two blocks on a multiprocessor. The planner has at most 1024 parts.
  const std::int64_t parts =
      std::clamp<std::int64_t>(multiprocessors * (tile == 16 ? 2 : 1) / tiles, 1, 1024);
  return 2 * parts * rows * (kMlaLatent + 1) * 4;  // f32 outputs and their log-sum-exp
}

DeviceModel gpu_device(const GpuCard& card, std::int64_t query_tokens) {
  return {.name = card.name,
          .activation = DType::kBF16,
          .stack_bytes = [](WeightFormat format, std::int64_t count, std::int64_t out,
                            std::int64_t in) { return count * weight_bytes(format, out, in); },
          .reserve_bytes =
              [card, query_tokens](const Backend::Limits& l) {
                std::int64_t bytes = kBlasWorkspace;
                bytes += mla_split_scratch_bytes(card.multiprocessors, l.heads, query_tokens,
                                                 card.capability == 90);
                // Keys and values of a chunk of context for each head, bf16: at most head_dim wide together.
                bytes += std::min(kExpandedTokens, l.kv_tokens) * l.heads * l.head_dim * 2;
                if (l.top_k > 0) {
                  // A row for each token and chosen expert: its input order, [gate | up], activated, and
                  // output.
                  const std::int64_t gate_up = l.gate_up > 0 ? l.gate_up : l.width;
                  bytes += l.tokens * l.top_k * (8 + 2 * gate_up + gate_up + 2 * l.width);
                }
                bytes +=
                    2 * l.vocab * 4;  // sampling: sorted probabilities of a row at a time, double-buffered
                return static_cast<std::size_t>(bytes);
              }};
}

}  // namespace tessera
