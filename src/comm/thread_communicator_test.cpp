#include "comm/thread_communicator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <numeric>
#include <thread>
#include <vector>

namespace tessera {
namespace {

using std::chrono::milliseconds;

// Runs `body` on each rank's own thread and returns what each threw ("" for nothing).
std::vector<std::string> on_ranks(int ranks, milliseconds deadline,
                                  const std::function<void(Communicator&)>& body) {
  auto communicators = make_thread_communicators(ranks, "tp", deadline);
  std::vector<std::string> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int r = 0; r < ranks; ++r) {
    threads.emplace_back([&, r, mine = std::move(communicators[static_cast<std::size_t>(r)])]() mutable {
      try {
        body(*mine);
      } catch (const CommError& error) {
        errors[static_cast<std::size_t>(r)] = error.what();
      }
      mine.reset();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

class Ranks : public testing::TestWithParam<int> {};

TEST_P(Ranks, AllReduceSumsInRankOrderOnEveryRank) {
  const int n = GetParam();
  for (const int count : {1, 2, 3, 7, 64, 1000}) {
    const auto value = [](int rank, int i) { return 1.0F / static_cast<float>(3 + rank * 7 + i); };
    const auto errors = on_ranks(n, milliseconds(5000), [&](Communicator& comm) {
      std::vector<float> data(static_cast<std::size_t>(count));
      for (int i = 0; i < count; ++i) data[static_cast<std::size_t>(i)] = value(comm.rank(), i);
      comm.all_reduce(data.data(), DType::kF32, count);
      for (int i = 0; i < count; ++i) {
        float want = value(0, i);
        for (int r = 1; r < n; ++r) want += value(r, i);
        ASSERT_EQ(data[static_cast<std::size_t>(i)], want) << "element " << i;  // to the bit
      }
    });
    EXPECT_THAT(errors, testing::Each(testing::IsEmpty()));
  }
}

TEST_P(Ranks, Bf16IsSummedInF32AndRoundedOnce) {
  const int n = GetParam();
  on_ranks(n, milliseconds(5000), [&](Communicator& comm) {
    std::vector<BF16> data(3, BF16(1.0F + 0x1p-7F));
    comm.all_reduce(data.data(), DType::kBF16, 3);
    EXPECT_EQ(data[2], BF16(static_cast<float>(n) * (1.0F + 0x1p-7F)));
  });
}

TEST_P(Ranks, GatherScatterAndExchangeMoveEveryPart) {
  const int n = GetParam();
  const auto errors = on_ranks(n, milliseconds(5000), [&](Communicator& comm) {
    const int me = comm.rank();
    const auto size = static_cast<std::size_t>(n);
    std::vector<float> gathered(size);
    const float mine = static_cast<float>(10 + me);
    comm.all_gather(&mine, gathered.data(), sizeof(float));
    for (int r = 0; r < n; ++r) EXPECT_EQ(gathered[static_cast<std::size_t>(r)], static_cast<float>(10 + r));

    std::vector<float> parts(size * 2);
    std::iota(parts.begin(), parts.end(), static_cast<float>(100 * me));
    float scattered[2];
    comm.reduce_scatter(parts.data(), scattered, DType::kF32, 2);
    float want = 0;
    for (int r = 0; r < n; ++r) want += static_cast<float>(100 * r + 2 * me + 1);
    EXPECT_EQ(scattered[1], want);

    std::vector<float> received(size * 2);
    comm.all_to_all(parts.data(), received.data(), 2 * sizeof(float));
    for (int r = 0; r < n; ++r)
      EXPECT_EQ(received[static_cast<std::size_t>(2 * r + 1)], static_cast<float>(100 * r + 2 * me + 1));

    int word = me == n - 1 ? 77 : 0;
    comm.broadcast(&word, sizeof word, n - 1);
    EXPECT_EQ(word, 77);
  });
  EXPECT_THAT(errors, testing::Each(testing::IsEmpty()));
}

INSTANTIATE_TEST_SUITE_P(Sizes, Ranks, testing::Values(1, 2, 3, 4, 8));

TEST(ThreadCommunicator, SplitMakesGroupsInRankOrder) {
  const auto errors = on_ranks(6, milliseconds(5000), [&](Communicator& comm) {
    for (int round = 0; round < 3; ++round) {
      const auto half = comm.split(comm.rank() % 2, "half");
      EXPECT_EQ(half->size(), 3);
      EXPECT_EQ(half->rank(), comm.rank() / 2);
      float sum = static_cast<float>(comm.rank());
      half->all_reduce(&sum, DType::kF32, 1);
      EXPECT_EQ(sum, comm.rank() % 2 == 0 ? 6.0F : 9.0F);
    }
  });
  EXPECT_THAT(errors, testing::Each(testing::IsEmpty()));
}

TEST(ThreadCommunicator, AStalledRankEndsTheOthersWithItsNumberAndTheOperation) {
  const auto errors = on_ranks(3, milliseconds(100), [&](Communicator& comm) {
    if (comm.rank() == 1) {
      std::this_thread::sleep_for(milliseconds(400));  // stalled: longer than the deadline
    }
    float x = 1;
    comm.all_reduce(&x, DType::kF32, 1);
  });
  EXPECT_THAT(errors,
              testing::Each(testing::HasSubstr("all-reduce in tp: rank 1 did not come within 100 ms")));
}

TEST(ThreadCommunicator, RanksThatComeForDifferentThingsAreToldSo) {
  const auto errors = on_ranks(3, milliseconds(5000), [&](Communicator& comm) {
    std::vector<float> in(4);
    std::vector<float> out(12);
    if (comm.rank() == 2) {
      comm.all_gather(in.data(), out.data(), 8);
    } else {
      comm.all_gather(in.data(), out.data(), 16);
    }
  });
  EXPECT_THAT(errors, testing::Each(testing::HasSubstr(
                          "rank 0 came for all-gather of 16 bytes, rank 2 came for all-gather of 8 bytes")));
}

TEST(ThreadCommunicator, ARankThatLeavesWakesTheOthersAtOnce) {
  const auto start = std::chrono::steady_clock::now();
  const auto errors = on_ranks(3, milliseconds(60000), [&](Communicator& comm) {
    comm.barrier();
    if (comm.rank() == 2) {
      std::this_thread::sleep_for(milliseconds(50));  // let the others wait first
      return;
    }
    comm.barrier();
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(10));
  EXPECT_EQ(errors[0], "rank 2 of tp has left");
  EXPECT_EQ(errors[1], "rank 2 of tp has left");
}

}  // namespace
}  // namespace tessera
