#include "engine/admission.h"

#include <algorithm>
#include <numeric>

namespace tessera {

std::int64_t BlockForecast::peak_blocks() {
  // At the moment when the k-th longest is about to leave, after t more steps, the k longest are there, and
  // sequence i holds ceil((tokens_i + t) / block_size) blocks. With tokens_i + block_size - 1 = q_i *
  // block_size + r_i and t = Q * block_size + R the sum is: sum of q_i, plus k * Q, plus one for each r_i >=
  // block_size - R.
  std::ranges::sort(holdings, std::ranges::greater{}, &Holding::remaining);
  residues_.assign(static_cast<std::size_t>(block_size), 0);
  std::int64_t peak = permanent;
  std::int64_t blocks = permanent;
  for (std::size_t k = 0; k < holdings.size(); ++k) {
    const Holding& h = holdings[k];
    const std::int32_t rounded = h.tokens + block_size - 1;
    blocks += rounded / block_size - h.shared_blocks;
    ++residues_[static_cast<std::size_t>(rounded % block_size)];
    const std::int32_t steps = std::max(h.remaining, 0);
    const std::int64_t carried =
        std::accumulate(residues_.end() - steps % block_size, residues_.end(), std::int64_t{0});
    peak = std::max(peak, blocks + static_cast<std::int64_t>(k + 1) * (steps / block_size) + carried);
  }
  return peak;
}

std::int64_t BlockForecast::reserved_blocks() const {
  std::int64_t blocks = permanent;
  for (const Holding& h : holdings) {
    const std::int64_t tokens = std::int64_t{h.tokens} + std::max(h.remaining, 0);
    blocks += (tokens + block_size - 1) / block_size - h.shared_blocks;
  }
  return blocks;
}

}  // namespace tessera
