#include "comm/agreement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "comm/thread_communicator.h"

namespace tessera {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// What each of `members` threads got.
std::vector<Result<void>> on_members(int members, milliseconds deadline,
                                     const std::function<Result<void>(Communicator&)>& body) {
  auto communicators = make_thread_communicators(members, "start", deadline);
  std::vector<Result<void>> results(static_cast<std::size_t>(members));
  std::vector<std::thread> threads;
  for (std::size_t m = 0; m < results.size(); ++m) {
    threads.emplace_back([&, m, mine = std::move(communicators[m])] { results[m] = body(*mine); });
  }
  for (std::thread& thread : threads) thread.join();
  return results;
}

TEST(Agreement, OfEqualFactsIsSilent) {
  const Fact facts[] = {{"model", "tiny"}, {"empty", ""}};
  for (const auto& result : on_members(3, milliseconds(5000), [&](Communicator& group) {
         return check_agreement(group, facts, "process");
       }))
    EXPECT_TRUE(result.ok()) << result.error().message();
}

TEST(Agreement, TheFirstDifferenceIsNamedToEveryMember) {
  const auto results = on_members(3, milliseconds(5000), [&](Communicator& group) {
    const std::string length = group.rank() == 2 ? "512" : "1024";
    const Fact facts[] = {
        {"model", "tiny"}, {"--max-model-len", length}, {"--seed", std::to_string(group.rank())}};
    return check_agreement(group, facts, "process");
  });
  for (const auto& result : results) {
    ASSERT_FALSE(result.ok());
    EXPECT_EQ(result.error().kind, ErrorKind::kMismatch);
    // Member 1 differs first, in its seed; it is member 1 that is named.
    EXPECT_THAT(result.error().message(), HasSubstr("--seed: process 0 has 0, process 1 has 1"));
  }
}

TEST(Agreement, AMemberWithFewerFactsIsNamed) {
  const auto results = on_members(2, milliseconds(5000), [&](Communicator& group) {
    const Fact facts[] = {{"model", "tiny"}, {"draft", "eagle"}};
    return check_agreement(group, std::span(facts).first(group.rank() == 0 ? 2 : 1), "process");
  });
  for (const auto& result : results) {
    ASSERT_FALSE(result.ok());
    EXPECT_THAT(result.error().message(), HasSubstr("draft: process 0 has eagle, process 1 has nothing"));
  }
}

TEST(Rendezvous, WaitsForTheSlowest) {
  const auto results = on_members(3, milliseconds(5000), [](Communicator& group) {
    Rendezvous rendezvous(group, "process", milliseconds(2));
    std::this_thread::sleep_for(milliseconds(30 * group.rank()));
    return rendezvous.arrive({});
  });
  for (const auto& result : results) EXPECT_TRUE(result.ok()) << result.error().message();
}

// Slower than the deadline of a single collective, and nobody takes it for lost.
TEST(Rendezvous, OutlastsTheGroupsDeadline) {
  const auto results = on_members(2, milliseconds(400), [](Communicator& group) {
    Rendezvous rendezvous(group, "process", milliseconds(5));
    if (group.rank() == 1) std::this_thread::sleep_for(milliseconds(1000));
    return rendezvous.arrive({});
  });
  for (const auto& result : results) EXPECT_TRUE(result.ok()) << result.error().message();
}

TEST(Rendezvous, AFailureIsToldToAll) {
  const auto results = on_members(3, milliseconds(5000), [](Communicator& group) -> Result<void> {
    Rendezvous rendezvous(group, "process", milliseconds(2));
    if (group.rank() == 1)
      return rendezvous.arrive(Error{ErrorKind::kNotFound, "model.safetensors", "cannot be read."});
    return rendezvous.arrive({});
  });
  EXPECT_EQ(results[0].error().message(), "process 1: model.safetensors: cannot be read.");
  EXPECT_EQ(results[1].error().message(), "model.safetensors: cannot be read.");
  EXPECT_EQ(results[2].error().message(), "process 1: model.safetensors: cannot be read.");
}

TEST(Rendezvous, AMemberThatLeavesIsNoticed) {
  const auto results = on_members(2, milliseconds(300), [](Communicator& group) -> Result<void> {
    if (group.rank() == 1) return {};
    Rendezvous rendezvous(group, "process", milliseconds(2));
    return rendezvous.arrive({});
  });
  ASSERT_FALSE(results[0].ok());
  EXPECT_THAT(results[0].error().message(), HasSubstr("rank 1"));
}

}  // namespace
}  // namespace tessera
