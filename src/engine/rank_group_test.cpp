#include "engine/rank_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "comm/thread_communicator.h"

namespace tessera {
namespace {

using std::chrono::milliseconds;

// Sums the plan's step number over the ranks, so that a result shows that all took part. `behave` may throw
// or sleep.
class SummingRunner final : public StepRunner {
 public:
  using Behaviour = std::function<void(int rank, std::uint64_t step)>;
  SummingRunner(Communicator& tp, Behaviour behave) : tp_(tp), behave_(std::move(behave)) {}

  StepResult& step(const StepPlan& plan) override {
    if (behave_) behave_(tp_.rank(), plan.step);
    float sum = static_cast<float>(plan.step);
    tp_.all_reduce(&sum, DType::kF32, 1);
    result_.sampled.assign(1, SampledToken{});
    result_.sampled[0].token = static_cast<std::int32_t>(sum);
    return result_;
  }

 private:
  Communicator& tp_;
  Behaviour behave_;
  StepResult result_;
};

Result<std::unique_ptr<RankGroup>> make_group(int ranks, milliseconds deadline,
                                              SummingRunner::Behaviour behave = {}) {
  return RankGroup::create(
      make_thread_communicators(ranks, "tp", deadline),
      [&](Communicator& tp) -> Result<std::unique_ptr<StepRunner>> {
        return std::unique_ptr<StepRunner>(std::make_unique<SummingRunner>(tp, behave));
      },
      deadline);
}

std::string step_error(RankGroup& group, std::uint64_t step) {
  StepPlan plan;
  plan.step = step;
  try {
    group.step(plan);
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(RankGroup, RunsEveryPlanOnEveryRank) {
  const auto group = make_group(4, milliseconds(5000));
  ASSERT_TRUE(group.ok());
  for (std::uint64_t step = 1; step < 100; ++step) {
    StepPlan plan;
    plan.step = step;
    ASSERT_EQ((*group)->step(plan).sampled.front().token, static_cast<std::int32_t>(4 * step));
  }
}

TEST(RankGroup, ARankThatThrowsEndsTheStepWithItsNumberAndReason) {
  const auto group = make_group(3, milliseconds(5000), [](int rank, std::uint64_t step) {
    if (rank == 1 && step == 2) throw std::runtime_error("out of luck");
  });
  ASSERT_TRUE(group.ok());
  EXPECT_EQ(step_error(**group, 1), "");
  EXPECT_EQ(step_error(**group, 2), "rank 1: out of luck");
}

TEST(RankGroup, AStalledRankIsNamedWithTheOperation) {
  const auto group = make_group(3, milliseconds(100), [](int rank, std::uint64_t step) {
    if (rank == 2 && step == 2) std::this_thread::sleep_for(milliseconds(1000));
  });
  ASSERT_TRUE(group.ok());
  EXPECT_EQ(step_error(**group, 1), "");
  EXPECT_THAT(step_error(**group, 2),
              testing::HasSubstr("all-reduce in tp: rank 2 did not come within 100 ms; rank 2 is stuck"));
}

TEST(RankGroup, AFailureWhileLoadingIsReturnedAndEndsTheOthers) {
  const auto group = RankGroup::create(
      make_thread_communicators(3, "tp", milliseconds(60000)),
      [&](Communicator& tp) -> Result<std::unique_ptr<StepRunner>> {
        if (tp.rank() == 1) return Error{ErrorKind::kCorrupt, "model.safetensors", "is damaged."};
        tp.barrier();  // the others wait for rank 1, in vain
        return std::unique_ptr<StepRunner>(std::make_unique<SummingRunner>(tp, SummingRunner::Behaviour{}));
      },
      milliseconds(60000));
  ASSERT_FALSE(group.ok());
  EXPECT_EQ(group.error().message(), "model.safetensors: is damaged.");
}

}  // namespace
}  // namespace tessera
