// A decode step allocates nothing: scheduler, plan, fake runner and results together.
#include <gtest/gtest.h>

#include <cstdlib>
#include <new>

#include "base/slowdown.h"
#include "engine/allocation_count.h"
#include "engine/scheduler_drive.h"

namespace {

thread_local std::int64_t allocations = 0;

void* counted(std::size_t bytes) {
  ++allocations;
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

// Not inlined: g++ 12 would see malloc and delete, or new and free, side by side and call them mismatched.
[[gnu::noinline]] void* operator new(std::size_t bytes) { return counted(bytes); }
[[gnu::noinline]] void* operator new[](std::size_t bytes) { return counted(bytes); }
[[gnu::noinline]] void operator delete(void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace tessera {

std::int64_t allocations_of_this_thread() { return allocations; }

namespace {

TEST(Allocation, IsCounted) {
  if (kThreadSanitized) GTEST_SKIP() << "operator new is the sanitizer's";
  const std::int64_t before = allocations_of_this_thread();
  const auto memory = std::make_unique<std::int32_t>(3);
  EXPECT_EQ(allocations_of_this_thread(), before + 1);
}

// 600 steps cross block boundaries, register full blocks and evict old ones.
TEST(Allocation, DoesNotHappenInASteadyDecodeStep) {
  SchedulerOptions options;
  options.max_num_seqs = 32;
  options.max_num_batched_tokens = 256;
  options.max_model_len = 1000;
  options.block_size = 16;
  options.kv_blocks = 32 * 64;
  options.vocab = 997;
  Drive drive(options, {}, false);
  for (std::int32_t i = 0; i < 32; ++i)  // fills the pool with blocks that will be evicted
    ASSERT_TRUE(drive.submit(request_of(prompt_of(700, i, options.vocab), 1)));
  drive.run();
  for (std::int32_t i = 0; i < 32; ++i)
    ASSERT_TRUE(drive.submit(request_of(prompt_of(100, 100 + i, options.vocab), 850)));
  const auto step = [&] {
    const StepPlan& plan = drive.scheduler.plan_step({});
    StepResult& result = drive.runner.step(plan);
    const auto deliveries = drive.scheduler.apply(result, {});
    drive.scheduler.take_drafts(result);
    return deliveries.size();
  };
  while (drive.scheduler.counters().generation_tokens < 32 + 32 * 20) step();
  const std::int64_t evictions = drive.scheduler.kv().evictions();
  const std::int64_t before = allocations_of_this_thread();
  for (int i = 0; i < 600; ++i) ASSERT_EQ(step(), 32U);
  EXPECT_EQ(allocations_of_this_thread(), before);
  EXPECT_GT(drive.scheduler.kv().evictions(), evictions);
}

}  // namespace
}  // namespace tessera
