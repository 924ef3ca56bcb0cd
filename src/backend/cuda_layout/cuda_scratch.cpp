#include "backend/cuda_layout/cuda_scratch.h"

#include <algorithm>

#include "backend/cuda_layout/weight_layout.h"

namespace tessera::cuda {

CudaScratch cuda_scratch(std::span<const Backend::Limits> reserved, const CudaScratchChoice& choice) {
  CudaScratch most;
  const auto raise = [](std::size_t& to, std::size_t bytes) { to = std::max(to, bytes); };
  std::int64_t vocab = 0;
  std::int64_t list_limit = 0;
  for (const Backend::Limits& limits : reserved) {
    if (limits.heads > 0) {
      const AttentionScratch one =
          attention_scratch(limits, choice.activation, choice.device, choice.batch_invariant);
      raise(most.attention.lse, one.lse);
      raise(most.attention.prefill_plan, one.prefill_plan);
      raise(most.attention.chunk, one.chunk);
      raise(most.attention.tables, one.tables);
      raise(most.attention.workspace, one.workspace);
    }
    if (limits.top_k > 0) {
      const ExpertLimits experts{.tokens = limits.tokens,
                                 .top_k = limits.top_k,
                                 .width = (limits.gate_up > 0 ? limits.gate_up : limits.width) / 2,
                                 .hidden = limits.hidden > 0 ? limits.hidden : limits.width};
      raise(most.experts, expert_layout(experts, choice.activation).bytes);
    }
    if (choice.device.capability == 90 && choice.activation == DType::kBF16 && !choice.batch_invariant) {
      raise(most.experts, ordered_bytes(std::min(limits.tokens, kOrderedRows), padded(limits.width, 32)));
    }
    if (limits.vocab > 0) {
      vocab = std::max(vocab, limits.vocab);
      list_limit = std::max(list_limit, limits.kv_tokens);
    }
  }
  if (vocab > 0) {
    most.sampler = sampler_layout(vocab, list_limit);
    most.argmax = kArgmaxScratchBytes;
  }
  return most;
}

}  // namespace tessera::cuda
