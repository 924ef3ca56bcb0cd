// How long a rank's collectives took, waiting for the other ranks included: counted by the rank's thread at
// the cost of a few stores, read by anybody at any time.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

namespace tessera {

enum class Collective : std::uint8_t {
  kAllReduce,
  kAllGather,
  kReduceScatter,
  kAllToAll,
  kBroadcast,
  kBarrier,
};
inline constexpr std::array<const char*, 6> kCollectiveNames = {"all_reduce", "all_gather", "reduce_scatter",
                                                                "all_to_all", "broadcast",  "barrier"};

class CollectiveTimes {
 public:
  // A call falls into the first bucket whose bound, in seconds, it does not exceed, or into one more.
  static constexpr std::array<double, 13> kBounds = {5e-6, 1e-5, 2e-5, 5e-5, 1e-4, 2e-4, 5e-4,
                                                     1e-3, 2e-3, 5e-3, 1e-2, 0.1,  1};
  struct Counts {
    std::array<std::uint64_t, kBounds.size() + 1> calls = {};  // by bucket
    double seconds = 0;                                        // of all
  };

  // One thread counts, so that no locked instruction is needed.
  void count(Collective operation, std::chrono::nanoseconds time) {
    const double seconds = static_cast<double>(time.count()) * kNanosecond;
    std::size_t bucket = 0;
    while (bucket < kBounds.size() && seconds > kBounds[bucket]) ++bucket;
    Operation& to = operations_[static_cast<std::size_t>(operation)];
    add(to.calls[bucket], std::uint64_t{1});
    add(to.nanoseconds, static_cast<std::int64_t>(time.count()));
  }

  Counts of(Collective operation) const {
    const Operation& from = operations_[static_cast<std::size_t>(operation)];
    Counts counts;
    for (std::size_t i = 0; i < counts.calls.size(); ++i)
      counts.calls[i] = from.calls[i].load(std::memory_order_relaxed);
    counts.seconds = static_cast<double>(from.nanoseconds.load(std::memory_order_relaxed)) * kNanosecond;
    return counts;
  }
  // Of all operations.
  double seconds() const {
    double sum = 0;
    for (std::size_t i = 0; i < operations_.size(); ++i) sum += of(static_cast<Collective>(i)).seconds;
    return sum;
  }

 private:
  static constexpr double kNanosecond = 1e-9;
  template <class T>
  static void add(std::atomic<T>& to, T value) {
    to.store(to.load(std::memory_order_relaxed) + value, std::memory_order_relaxed);
  }
  struct Operation {
    std::array<std::atomic<std::uint64_t>, kBounds.size() + 1> calls = {};
    std::atomic<std::int64_t> nanoseconds{0};
  };
  std::array<Operation, kCollectiveNames.size()> operations_;
};

}  // namespace tessera
