#include "backend/cuda_layout/expert_layout.h"

#include <algorithm>

namespace tessera::cuda {

ExpertLayout expert_layout(const ExpertLimits& limits, DType dtype) {
  const std::int64_t pairs = std::min(limits.tokens, kExpertSlice) * limits.top_k;
  const std::int64_t size = bytes_of(dtype);
  ExpertLayout layout;
  const auto take = [&](std::size_t& offset, std::int64_t bytes) {
    offset = layout.bytes;
    layout.bytes += static_cast<std::size_t>((bytes + 255) / 256 * 256);
  };
  take(layout.pair_row, pairs * 4);
  take(layout.pair_place, pairs * 4);
  take(layout.items, pairs * static_cast<std::int64_t>(sizeof(ProductItem)));
  take(layout.item_count, 4);
  take(layout.pair_count, 4);
  take(layout.pair_scale, pairs * 4);
  take(layout.gate_up, pairs * 2 * limits.width * size);
  take(layout.hidden, pairs * limits.width * size);
  take(layout.parts, pairs * limits.hidden * size);
  return layout;
}

}  // namespace tessera::cuda
