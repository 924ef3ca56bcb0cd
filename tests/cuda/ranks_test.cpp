// Ranks on several GPUs of one process: NCCL, the one-shot all-reduce, recordings with collectives in them,
// and a rank that does not come. Every test is skipped where there are fewer than two GPUs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/cuda_card.h"
#include "base/test_seed.h"
#include "comm/nccl/nccl_communicator.h"
#include "comm/peer/peer_communicator.h"
#include "comm/rank_order_sum.h"
#include "comm/thread_communicator.h"

namespace tessera::test {
namespace {

using testing::HasSubstr;

// One rank: what a test's body gets.
struct Rank {
  Backend& backend;
  Communicator& host;
  Communicator& gpus;

  // Device memory that holds these values.
  template <class T>
  Buffer upload(const std::vector<T>& values) const {
    Buffer buffer = backend.allocate(values.size() * sizeof(T));
    backend.copy_to_device(buffer.get(), values.data(), values.size() * sizeof(T));
    backend.synchronise();
    return buffer;
  }
  template <class T>
  std::vector<T> download(const void* data, std::size_t count) const {
    std::vector<T> values(count);
    backend.copy_to_host(values.data(), data, count * sizeof(T));
    backend.synchronise();
    return values;
  }
};

class OnTwoGpus : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() < 2) GTEST_SKIP() << "fewer than two CUDA devices";
    const auto api = open_nccl();
    if (!api) GTEST_SKIP() << api.error().message();
    api_ = *api;
  }
  // `body` on a thread for each rank. Its exceptions are kept.
  void run(const std::function<void(const Rank&)>& body, bool with_peers = false) {
    auto hosts = make_thread_communicators(2, "tp of 2 GPUs", std::chrono::seconds(60));
    std::vector<std::thread> threads;
    failures_.assign(2, "");
    for (int r = 0; r < 2; ++r) {
      threads.emplace_back([&, r] {
        auto host = std::move(hosts[static_cast<std::size_t>(r)]);
        try {
          auto backend = make_cuda_backend({.device = r, .patience = patience_});
          TS_CHECK(backend.ok(), backend.error().message());
          DeviceStream& stream = cuda_stream_of(**backend);
          auto gpus = make_nccl_communicator(api_, *host, stream, {.graph_file = {}, .log = {}});
          TS_CHECK(gpus.ok(), gpus.error().message());
          std::unique_ptr<Communicator> group = *std::move(gpus);
          if (with_peers) {
            group = with_peer_all_reduce(std::move(group), *host, stream,
                                         {.log = [](const std::string& text) { std::puts(text.c_str()); }});
          }
          body({**backend, *host, *group});
        } catch (const std::exception& error) {
          failures_[static_cast<std::size_t>(r)] = error.what();
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  void expect_no_failure() {
    for (const std::string& failure : failures_) EXPECT_EQ(failure, "");
  }

  NcclApi api_;
  std::chrono::milliseconds patience_{60'000};
  std::vector<std::string> failures_;
};

std::vector<float> values_of(int rank, std::size_t count) {
  std::vector<float> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = static_cast<float>((i * 13 + static_cast<std::size_t>(rank) * 7) % 97);
  return values;
}

TEST_F(OnTwoGpus, EveryCollectiveMovesWhatItPromises) {
  run([](const Rank& rank) {
    const std::size_t n = 1000;
    const std::vector<float> zero = values_of(0, 2 * n);
    const std::vector<float> one = values_of(1, 2 * n);
    const std::vector<float>& own = rank.gpus.rank() == 0 ? zero : one;
    const auto half = [&](const std::vector<float>& of, std::size_t part) {
      return std::vector<float>(of.begin() + static_cast<std::ptrdiff_t>(part * n),
                                of.begin() + static_cast<std::ptrdiff_t>((part + 1) * n));
    };
    const auto me = static_cast<std::size_t>(rank.gpus.rank());

    const Buffer data = rank.upload(own);
    rank.gpus.all_reduce(data.get(), DType::kF32, static_cast<std::int64_t>(2 * n));
    const auto sums = rank.download<float>(data.get(), 2 * n);
    for (std::size_t i = 0; i < 2 * n; ++i) ASSERT_EQ(sums[i], zero[i] + one[i]) << i;

    const Buffer in = rank.upload(own);
    const Buffer out = rank.backend.allocate(4 * n * sizeof(float));
    rank.gpus.all_gather(in.get(), out.get(), 2 * n * sizeof(float));
    auto both = rank.download<float>(out.get(), 4 * n);
    EXPECT_TRUE(std::equal(zero.begin(), zero.end(), both.begin()));
    EXPECT_TRUE(std::equal(one.begin(), one.end(), both.begin() + static_cast<std::ptrdiff_t>(2 * n)));

    rank.gpus.reduce_scatter(in.get(), out.get(), DType::kF32, static_cast<std::int64_t>(n));
    const auto part = rank.download<float>(out.get(), n);
    for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(part[i], zero[me * n + i] + one[me * n + i]) << i;

    rank.gpus.all_to_all(in.get(), out.get(), n * sizeof(float));
    const auto crossed = rank.download<float>(out.get(), 2 * n);
    EXPECT_EQ(std::vector<float>(crossed.begin(), crossed.begin() + static_cast<std::ptrdiff_t>(n)),
              half(zero, me));
    EXPECT_EQ(std::vector<float>(crossed.begin() + static_cast<std::ptrdiff_t>(n), crossed.end()),
              half(one, me));

    rank.gpus.broadcast(in.get(), 2 * n * sizeof(float), 1);
    EXPECT_EQ(rank.download<float>(in.get(), 2 * n), one);
    rank.gpus.barrier();

    const auto alone = rank.gpus.split(rank.gpus.rank(), "a part of one");
    EXPECT_EQ(alone->size(), 1);
    alone->all_reduce(in.get(), DType::kF32, static_cast<std::int64_t>(2 * n));
    EXPECT_EQ(rank.download<float>(in.get(), 2 * n), one);
  });
  expect_no_failure();
}

// Sums of small whole numbers: exact, so a recorded call must give the bits of one that is not.
void expect_sums_in_recordings(const Rank& rank, std::int64_t count) {
  const std::vector<float> zero = values_of(0, static_cast<std::size_t>(count));
  const std::vector<float> one = values_of(1, static_cast<std::size_t>(count));
  const std::vector<float>& own = rank.gpus.rank() == 0 ? zero : one;
  const Buffer data = rank.upload(own);
  const auto reduce = [&] { rank.gpus.all_reduce(data.get(), DType::kF32, count); };
  reduce();  // as the runner does: once outside
  rank.backend.synchronise();
  const auto recording = rank.backend.record(reduce);
  ASSERT_NE(recording, nullptr);
  std::mt19937 random(test_seed() + static_cast<unsigned>(rank.gpus.rank()));
  for (int turn = 0; turn < 200; ++turn) {
    rank.backend.copy_to_device(data.get(), own.data(), own.size() * sizeof(float));
    if (random() % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
    // Replayed and single calls mix; both ranks choose alike.
    if (turn % 3 == 0) {
      reduce();
    } else {
      recording->replay();
    }
    const auto sums = rank.download<float>(data.get(), own.size());
    for (std::size_t i = 0; i < own.size(); ++i) ASSERT_EQ(sums[i], zero[i] + one[i]) << turn << ' ' << i;
  }
}

TEST_F(OnTwoGpus, RecordedCollectivesGiveWhatSingleCallsGive) {
  run([](const Rank& rank) { expect_sums_in_recordings(rank, 7168); });
  expect_no_failure();
}

TEST_F(OnTwoGpus, TheShortWayGivesTheSameInAndOutsideRecordings) {
  for (const std::int64_t count : {4, 1792, 7168, 28672})
    run([&](const Rank& rank) { expect_sums_in_recordings(rank, count); }, true);
  expect_no_failure();
}

// Whatever way a size takes: f32 sums in rank order on both ranks, and in bf16 one rounding.
TEST_F(OnTwoGpus, BothRanksHoldTheSameBitsAtEverySize) {
  run(
      [](const Rank& rank) {
        std::mt19937 random(test_seed());  // alike on both ranks
        std::normal_distribution<float> normal;
        for (int turn = 0; turn < 60; ++turn) {
          const std::size_t count = 8 * (1 + random() % 40000);
          std::vector<BF16> zero(count);
          std::vector<BF16> one(count);
          for (std::size_t i = 0; i < count; ++i) {
            zero[i] = BF16(normal(random));
            one[i] = BF16(normal(random));
          }
          const Buffer data = rank.upload(rank.gpus.rank() == 0 ? zero : one);
          rank.gpus.all_reduce(data.get(), DType::kBF16, static_cast<std::int64_t>(count));
          const auto sums = rank.download<BF16>(data.get(), count);
          for (std::size_t i = 0; i < count; ++i) {
            const auto wanted = BF16(static_cast<float>(zero[i]) + static_cast<float>(one[i]));
            ASSERT_EQ(static_cast<float>(sums[i]), static_cast<float>(wanted)) << turn << ' ' << i;
          }
        }
      },
      true);
  expect_no_failure();
}

TEST_F(OnTwoGpus, ARankThatDoesNotComeEndsTheWaitAtItsDeadlineByName) {
  patience_ = std::chrono::milliseconds(1500);
  run([](const Rank& rank) {
    const Buffer data = rank.upload(values_of(rank.gpus.rank(), 7168));
    if (rank.gpus.rank() == 1) {
      std::this_thread::sleep_for(std::chrono::seconds(3));
      return;
    }
    rank.gpus.all_reduce(data.get(), DType::kF32, 7168);
    rank.backend.synchronise();
  });
  EXPECT_THAT(failures_[0],
              HasSubstr("all-reduce in tp of 2 GPUs over NCCL: cuda:0 did not finish within 1500 ms"));
  EXPECT_EQ(failures_[1], "");
}

}  // namespace
}  // namespace tessera::test
