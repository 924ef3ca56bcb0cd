#include "comm/collective_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <numeric>
#include <thread>
#include <vector>

#include "comm/thread_communicator.h"
#include "comm/timed_communicator.h"

namespace tessera {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

std::uint64_t calls_of(const CollectiveTimes& times, Collective operation) {
  const auto counts = times.of(operation).calls;
  return std::accumulate(counts.begin(), counts.end(), std::uint64_t{0});
}

TEST(CollectiveTimes, ACallFallsIntoTheFirstBucketThatHoldsIt) {
  CollectiveTimes times;
  times.count(Collective::kAllReduce, nanoseconds(0));
  times.count(Collective::kAllReduce, microseconds(5));  // a bound belongs to its bucket
  times.count(Collective::kAllReduce, nanoseconds(5001));
  times.count(Collective::kAllReduce, std::chrono::seconds(1));
  times.count(Collective::kAllReduce, std::chrono::seconds(90));
  times.count(Collective::kBarrier, microseconds(30));
  const auto counts = times.of(Collective::kAllReduce);
  EXPECT_EQ(counts.calls[0], 2);
  EXPECT_EQ(counts.calls[1], 1);
  EXPECT_EQ(counts.calls[12], 1);
  EXPECT_EQ(counts.calls[13], 1);
  EXPECT_EQ(calls_of(times, Collective::kAllReduce), 5);
  EXPECT_NEAR(counts.seconds, 91.000010001, 1e-9);
  EXPECT_EQ(times.of(Collective::kBarrier).calls[3], 1);
  EXPECT_NEAR(times.seconds(), 91.000040001, 1e-9);
}

TEST(CollectiveTimes, EachCallOfATimedGroupIsCountedOnce) {
  auto groups = make_thread_communicators(2, "tp", std::chrono::seconds(60));
  const std::array times = {std::make_shared<CollectiveTimes>(), std::make_shared<CollectiveTimes>()};
  {
    std::vector<std::jthread> threads;
    for (std::size_t r = 0; r < 2; ++r) {
      threads.emplace_back([&, r] {
        TimedCommunicator group(std::move(groups[r]), times[r]);
        float values[4] = {1, 2, 3, 4};
        float all[8];
        float all_again[8];
        group.all_reduce(values, DType::kF32, 4);
        group.all_reduce(values, DType::kF32, 4);
        group.all_gather(values, all, sizeof values);
        group.reduce_scatter(all, values, DType::kF32, 4);
        group.all_to_all(all, all_again, 16);
        group.broadcast(values, sizeof values, 1);
        group.barrier();
        const auto part = group.split(0, "dcp");  // whose calls are its own
        part->barrier();
      });
    }
  }
  for (const auto& shared : times) {
    const CollectiveTimes& one = *shared;
    EXPECT_EQ(calls_of(one, Collective::kAllReduce), 2);
    for (const Collective once : {Collective::kAllGather, Collective::kReduceScatter, Collective::kAllToAll,
                                  Collective::kBroadcast, Collective::kBarrier})
      EXPECT_EQ(calls_of(one, once), 1) << kCollectiveNames[static_cast<std::size_t>(once)];
    EXPECT_GT(one.seconds(), 0);
  }
}

}  // namespace
}  // namespace tessera
