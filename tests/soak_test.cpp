// A minute of random load on the real engine: requests of all sorts, cancelled at random moments, in a pool
// that is too small for them. Afterwards every counter is back at its baseline and the books balance.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <random>
#include <thread>

#include "base/test_seed.h"
#include "support/golden.h"
#include "support/live_engine.h"

namespace tessera::test {
namespace {

// Counts what a client would see; every request must end exactly once.
class CountingSink final : public RequestSink {
 public:
  explicit CountingSink(std::atomic<std::int64_t>& ended) : ended_(ended) {}
  void on_output(const RequestOutput& output) override {
    EXPECT_FALSE(finished_) << "news after the end";
    if (!output.finished) return;
    finished_ = true;
    ++ended_;
  }

 private:
  std::atomic<std::int64_t>& ended_;
  bool finished_ = false;  // the engine's thread alone
};

GenerationRequest random_request(std::mt19937& random, const std::vector<std::int32_t>& text) {
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
  GenerationRequest request;
  const std::size_t length = 1 + below(400);
  const std::size_t first = below(3) == 0 ? 0 : below(text.size() - length);  // a third share a prefix
  request.prompt.assign(text.begin() + static_cast<std::ptrdiff_t>(first),
                        text.begin() + static_cast<std::ptrdiff_t>(first + length));
  request.sampling.max_tokens = static_cast<std::int32_t>(1 + below(120));
  request.sampling.temperature = below(2) == 0 ? 0.0F : 1.0F;
  request.sampling.top_k = static_cast<std::int32_t>(below(50));
  if (below(4) == 0) request.sampling.presence_penalty = 0.5F;
  if (below(4) == 0) request.sampling.logprobs = 3;
  if (below(8) == 0) request.sampling.prompt_logprobs = 1;
  request.priority = static_cast<std::int32_t>(below(3));
  return request;
}

TEST(Soak, EverythingIsBackAtItsBaselineAfterRandomCancellations) {
  const char* wanted = std::getenv("TESSERA_SOAK_SECONDS");
  const std::chrono::seconds duration(wanted != nullptr ? std::atoi(wanted) : 60);
  const unsigned seed = test_seed();
  RecordProperty("seed", std::to_string(seed));
  SCOPED_TRACE("TESSERA_SEED=" + std::to_string(seed));

  ServeFlags flags;
  flags.max_model_len = 1024;
  flags.max_num_seqs = 16;
  flags.max_num_batched_tokens = 256;
  flags.block_size = 16;
  flags.num_gpu_blocks_override = 160;  // 2,560 tokens for sixteen requests of up to 520
  LiveEngine live(flags);
  Engine& engine = live.engine();
  const auto prompts = golden_prompts();
  const std::vector<std::int32_t>& text = prompts[4].ids;  // len1500
  ASSERT_EQ(text.size(), 1500u);

  std::mt19937 random(seed);
  std::atomic<std::int64_t> ended{0};
  std::int64_t submitted = 0;
  std::vector<RequestId> open;
  const auto end = std::chrono::steady_clock::now() + duration;
  while (std::chrono::steady_clock::now() < end) {
    if (submitted - ended < 40) {
      const auto id = engine.submit(random_request(random, text), std::make_shared<CountingSink>(ended));
      ASSERT_TRUE(id.ok()) << id.error().message();
      ++submitted;
      open.push_back(*id);
    }
    if (!open.empty() && random() % 3 == 0) {
      const std::size_t victim = random() % open.size();
      engine.cancel(open[victim]);  // running, waiting or finished long ago
      open.erase(open.begin() + static_cast<std::ptrdiff_t>(victim));
    }
    const EngineStats now = engine.stats();
    ASSERT_EQ(now.received, now.finished + now.aborted + now.failed + now.running + now.waiting);
    std::this_thread::sleep_for(std::chrono::milliseconds(random() % 20));
  }
  for (const RequestId id : open) engine.cancel(id);
  engine.drain(std::chrono::seconds(60));

  const EngineStats last = engine.stats();
  EXPECT_EQ(ended, submitted);
  EXPECT_EQ(last.received, submitted);
  EXPECT_EQ(last.finished + last.aborted, submitted);
  EXPECT_EQ(last.failed, 0);
  EXPECT_EQ(last.running, 0);
  EXPECT_EQ(last.waiting, 0);
  EXPECT_EQ(last.kv_usage, 0);
  EXPECT_GT(last.finished, 0);
  EXPECT_GT(last.aborted, 0);
}

}  // namespace
}  // namespace tessera::test
