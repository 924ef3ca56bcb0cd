// Does one more sequence fit, now and later? Pure arithmetic over what the running sequences hold and may
// still need.
//
// Admitting whatever fits at the moment leads to preemption: the rows of everybody grow, and what is then
// thrown away must be computed again. Reserving every request's max_tokens wastes the pool, since most
// outputs end early. Between the two, peak_blocks() follows the sequences into the future: all grow by a
// token a step, the one with the fewest tokens to come leaves first, and the pool must hold the highest level
// on the way.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

struct Holding {
  std::int32_t tokens = 0;         // known now; their rows are, or soon will be, in the pool
  std::int32_t remaining = 0;      // tokens still to come, as far as one can tell
  std::int32_t shared_blocks = 0;  // of its blocks, those counted in `permanent` instead
};

struct BlockForecast {
  std::vector<Holding> holdings;  // reused from call to call
  std::int32_t permanent = 0;     // blocks that several sequences hold; taken to stay
  std::int32_t block_size = 0;

  // The most blocks in use at any time if all proceed at one speed. Sorts `holdings`. O(n log n + n *
  // block_size).
  std::int64_t peak_blocks();
  // Blocks if all reach their end together: enough whatever their speeds.
  std::int64_t reserved_blocks() const;

 private:
  std::vector<std::int32_t> residues_;  // [block_size]
};

}  // namespace tessera
