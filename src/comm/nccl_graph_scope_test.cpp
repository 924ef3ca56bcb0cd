#include "comm/nccl_graph_scope.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <latch>
#include <string>
#include <thread>
#include <vector>

namespace tessera {
namespace {

class NcclGraphScopes : public testing::Test {
 protected:
  void SetUp() override { setenv("NCCL_GRAPH_FILE", "a.xml", 1); }
  void TearDown() override { unsetenv("NCCL_GRAPH_FILE"); }
  static std::string value() {
    const char* found = std::getenv("NCCL_GRAPH_FILE");
    return found ? found : "(none)";
  }
};

TEST_F(NcclGraphScopes, RemoveHidesTheVariableUntilItsEnd) {
  {
    const NcclGraphScope scope(NcclGraphUse::kRemove);
    EXPECT_EQ(value(), "(none)");
  }
  EXPECT_EQ(value(), "a.xml");
}

TEST_F(NcclGraphScopes, KeepLeavesTheVariable) {
  const NcclGraphScope scope(NcclGraphUse::kKeep);
  EXPECT_EQ(value(), "a.xml");
}

TEST_F(NcclGraphScopes, AVariableThatWasNotThereDoesNotAppear) {
  unsetenv("NCCL_GRAPH_FILE");
  { const NcclGraphScope scope(NcclGraphUse::kRemove); }
  EXPECT_EQ(value(), "(none)");
}

// Ranks that are threads meet inside ncclCommInitRank: a scope that let one in at a time would never return.
TEST_F(NcclGraphScopes, TheRanksOfOneGroupMayAllBeInside) {
  std::latch all_inside(4);
  std::vector<std::thread> ranks;
  for (int r = 0; r < 4; ++r) {
    ranks.emplace_back([&] {
      const NcclGraphScope scope(NcclGraphUse::kRemove);
      all_inside.arrive_and_wait();
      EXPECT_EQ(value(), "(none)");
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(value(), "a.xml");
}

TEST_F(NcclGraphScopes, GroupsThatDisagreeNeverOverlap) {
  std::atomic<int> keeping = 0;
  std::atomic<int> removing = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, remove = t % 2 == 0] {
      for (int i = 0; i < 200; ++i) {
        const NcclGraphScope scope(remove ? NcclGraphUse::kRemove : NcclGraphUse::kKeep);
        ++(remove ? removing : keeping);
        EXPECT_EQ((remove ? keeping : removing).load(), 0);
        EXPECT_EQ(value(), remove ? "(none)" : "a.xml");
        --(remove ? removing : keeping);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace tessera
