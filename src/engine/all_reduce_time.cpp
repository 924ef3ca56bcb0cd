#include "engine/all_reduce_time.h"

#include <algorithm>
#include <array>
#include <chrono>

namespace tessera {

double all_reduce_seconds(Backend& backend, Communicator& ranks, std::int64_t values) {
  using Clock = std::chrono::steady_clock;
  constexpr int kTurns = 10;
  const DType dtype = backend.activation_dtype();
  const Buffer data = backend.allocate(static_cast<std::size_t>(values * bytes_of(dtype)));
  std::array<double, 5> times{};
  for (double& time : times) {  // of which the first, where all is new, is not the median
    backend.synchronise();
    ranks.barrier();
    const auto begin = Clock::now();
    for (int i = 0; i < kTurns; ++i) ranks.all_reduce(data.get(), dtype, values);
    backend.synchronise();
    time = std::chrono::duration<double>(Clock::now() - begin).count() / kTurns;
  }
  std::ranges::sort(times);
  return times[times.size() / 2];
}

}  // namespace tessera
