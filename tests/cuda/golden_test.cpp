// The shipped model on the GPU against what transformers computed in float32.
#include "support/golden.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <string>

#include "backend/cuda/cuda_backend.h"
#include "backend/cuda/cuda_card.h"
#include "support/sequence_driver.h"
#include "verify/comparison.h"

namespace tessera::test {
namespace {

TinyModel load_on_gpu(const CudaOptions& options, KvFormat format) {
  return load_tiny(
      {.kv_format = format, .batch_invariant = options.batch_invariant, .make_backend = [options] {
         auto backend = make_cuda_backend(options);
         TS_CHECK(backend.ok(), backend.error().message());
         return *std::move(backend);
       }});
}

class GpuGolden : public testing::Test {
 protected:
  void SetUp() override {
    if (cuda_device_count() == 0) GTEST_SKIP() << "no CUDA device";
  }
};

// In f32 the GPU keeps the CPU's promise.
TEST_F(GpuGolden, F32LogitsAreWithinOneThousandthAndGreedyTokensEqual) {
  TinyModel model = load_on_gpu({.exact = true}, KvFormat::kF32);
  SequenceDriver driver(model);
  for (const GoldenPrompt& prompt : golden_prompts()) {
    for (const std::int32_t chunk : {2048, 65}) {
      const auto tokens =
          driver.generate(prompt.ids, static_cast<std::int32_t>(prompt.greedy.size()), chunk, true);
      EXPECT_EQ(tokens, prompt.greedy) << prompt.name;
      for (std::size_t i = 0; i < prompt.logits_positions.size(); ++i) {
        const auto& got = driver.logits().at(prompt.logits_positions[i]);
        for (std::size_t v = 0; v < got.size(); ++v) {
          ASSERT_NEAR(got[v], prompt.logits[i][v], 1e-3)
              << prompt.name << " position " << prompt.logits_positions[i] << " token " << v;
        }
      }
    }
  }
}

struct Measured {
  double mean_kl = 0;
  double most_difference = 0;  // of a logit
  std::size_t equal_tokens = 0;
  std::size_t tokens = 0;
};
Measured measure(TinyModel& model, std::int32_t chunk) {
  SequenceDriver driver(model);
  Measured result;
  int rows = 0;
  for (const GoldenPrompt& prompt : golden_prompts()) {
    const auto tokens =
        driver.generate(prompt.ids, static_cast<std::int32_t>(prompt.greedy.size()), chunk, true);
    const auto same = std::ranges::mismatch(tokens, prompt.greedy).in1 - tokens.begin();
    result.equal_tokens += static_cast<std::size_t>(same);
    result.tokens += prompt.greedy.size();
    for (std::size_t i = 0; i < prompt.logits_positions.size(); ++i, ++rows) {
      const auto& got = driver.logits().at(prompt.logits_positions[i]);
      result.mean_kl += kl_divergence(prompt.logits[i], got);
      for (std::size_t v = 0; v < got.size(); ++v) {
        result.most_difference =
            std::max(result.most_difference, std::fabs(static_cast<double>(got[v] - prompt.logits[i][v])));
      }
    }
  }
  result.mean_kl /= rows;
  return result;
}

TEST_F(GpuGolden, Bf16StaysCloseToTheReference) {
  struct Case {
    KvFormat format;
    bool batch_invariant;
    double mean_kl;  // nats a token, at most: twice what was measured
  };
  for (const Case& c : {Case{KvFormat::kBF16, false, 6e-4}, Case{KvFormat::kBF16, true, 6e-4},
                        Case{KvFormat::kFp8, false, 2.8e-2}, Case{KvFormat::kFp8Grouped, false, 2.2e-3}}) {
    for (const std::int32_t chunk : {2048, 65}) {
      TinyModel model = load_on_gpu({.batch_invariant = c.batch_invariant}, c.format);
      const Measured m = measure(model, chunk);
      std::cout << name_of(c.format) << (c.batch_invariant ? " invariant" : "") << ", chunks of " << chunk
                << ": mean KL " << m.mean_kl << ", largest difference of a logit " << m.most_difference
                << ", greedy tokens equal " << m.equal_tokens << " of " << m.tokens << '\n';
      EXPECT_LT(m.mean_kl, c.mean_kl) << name_of(c.format);
    }
  }
}

// Recorded steps are the same bits as steps enqueued call by call, at any length.
TEST_F(GpuGolden, RecordedStepsAreBitEqualToEagerOnes) {
  const auto on_gpu = [] {
    auto backend = make_cuda_backend({});
    TS_CHECK(backend.ok(), backend.error().message());
    return *std::move(backend);
  };
  TinyModel recorded = load_tiny({.kv_format = KvFormat::kBF16, .make_backend = on_gpu});
  TinyModel eager = load_tiny({.kv_format = KvFormat::kBF16, .enforce_eager = true, .make_backend = on_gpu});
  SequenceDriver by_replay(recorded);
  SequenceDriver by_call(eager);
  for (const GoldenPrompt& prompt : golden_prompts()) {
    EXPECT_EQ(by_replay.generate(prompt.ids, 40, 2048, true), by_call.generate(prompt.ids, 40, 2048, true));
    EXPECT_EQ(by_replay.logits(), by_call.logits()) << prompt.name;
  }
}

// In the batch-invariant mode every bit is the same, however the prompt was cut.
TEST_F(GpuGolden, InvariantModeIsBitEqualForAnyChunking) {
  TinyModel model = load_on_gpu({.batch_invariant = true}, KvFormat::kBF16);
  SequenceDriver driver(model);
  for (const GoldenPrompt& prompt : golden_prompts()) {
    if (prompt.name == "len1500") continue;
    const auto whole = driver.generate(prompt.ids, 8, 2048, true);
    const auto logits = driver.logits();
    for (const std::int32_t chunk : {1, 7, 64}) {
      EXPECT_EQ(driver.generate(prompt.ids, 8, chunk, true), whole);
      EXPECT_EQ(driver.logits(), logits) << prompt.name << " in chunks of " << chunk;
    }
  }
}

}  // namespace
}  // namespace tessera::test
