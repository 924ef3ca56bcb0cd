// The whole engine on the shipped model: how a prompt is cut, cached, batched, preempted or split never
// changes what comes out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "support/golden.h"
#include "support/live_engine.h"

namespace tessera::test {
namespace {

ServeFlags small_flags() {
  ServeFlags flags;
  flags.max_model_len = 2048;
  flags.max_num_seqs = 8;
  flags.max_num_batched_tokens = 512;
  flags.batch_invariant = true;
  return flags;
}

GenerationRequest greedy(std::vector<std::int32_t> prompt, std::int32_t max_tokens) {
  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0;
  request.sampling.max_tokens = max_tokens;
  request.sampling.ignore_eos = true;
  request.sampling.logprobs = 0;
  return request;
}

std::vector<GenerationRequest> golden_requests(std::int32_t max_tokens) {
  std::vector<GenerationRequest> requests;
  for (const GoldenPrompt& prompt : golden_prompts()) {
    if (prompt.ids.size() <= 300) requests.push_back(greedy(prompt.ids, max_tokens));
  }
  return requests;
}

void expect_same(const std::vector<Answer>& got, const std::vector<Answer>& want, const std::string& what) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(got[i].tokens, want[i].tokens) << what << ", request " << i;
    EXPECT_EQ(got[i].logprobs, want[i].logprobs) << what << ", request " << i;  // to the bit
  }
}

TEST(Engine, GivesTheReferencesGreedyTokens) {
  LiveEngine live(small_flags());
  for (const GoldenPrompt& prompt : golden_prompts()) {
    if (prompt.ids.size() > 300) continue;
    EXPECT_EQ(live.run(greedy(prompt.ids, 48)).tokens, prompt.greedy) << prompt.name;
  }
}

TEST(Engine, ChunksBlocksBatchesAndThreadsChangeNoBit) {
  const std::vector<GenerationRequest> requests = golden_requests(24);
  std::vector<Answer> alone;
  {
    LiveEngine live(small_flags());
    for (const GenerationRequest& request : requests) alone.push_back(live.run(request));
  }
  struct Variant {
    const char* what;
    std::int32_t budget, block_size, seqs;
    int threads;
  };
  for (const Variant& v : {Variant{"all at once", 512, 64, 8, 0}, Variant{"chunks of 17", 17, 64, 8, 0},
                           Variant{"blocks of 16", 100, 16, 8, 0}, Variant{"two at a time", 64, 64, 2, 0},
                           Variant{"one thread", 512, 64, 8, 1}}) {
    ServeFlags flags = small_flags();
    flags.max_num_batched_tokens = v.budget;
    flags.block_size = v.block_size;
    flags.max_num_seqs = v.seqs;
    flags.threads = v.threads;
    LiveEngine live(flags);
    expect_same(live.run(requests), alone, v.what);
    expect_same(live.run(requests), alone, std::string(v.what) + ", from the prefix cache");
  }
}

// vllm#14255 and others: prompts that share a long prefix, with tails around block borders, with and without
// the cache.
void expect_prefix_hits_change_nothing(const std::string& kv_dtype,
                                       std::initializer_list<std::size_t> tails) {
  const auto prompts = golden_prompts();
  const std::vector<std::int32_t>& text = std::ranges::find(prompts, "len1500", &GoldenPrompt::name)->ids;
  std::vector<GenerationRequest> requests;
  for (const std::size_t tail : tails) {
    std::vector<std::int32_t> prompt(text.begin(), text.begin() + 1025);
    prompt.insert(prompt.end(), text.end() - static_cast<std::ptrdiff_t>(tail), text.end());
    requests.push_back(greedy(prompt, 8));
  }
  ServeFlags flags = small_flags();
  flags.kv_cache_dtype = kv_dtype;
  LiveEngine warm(flags);
  flags.prefix_caching = false;
  LiveEngine cold(flags);
  std::vector<Answer> want;
  std::vector<Answer> got;
  for (const GenerationRequest& request : requests) {
    want.push_back(cold.run(request));
    got.push_back(warm.run(request));
  }
  expect_same(got, want, "prefix hits, " + kv_dtype);
  for (std::size_t i = 0; i < got.size(); ++i) {
    EXPECT_EQ(want[i].cached_tokens, 0);
    if (i > 0) {
      EXPECT_GE(got[i].cached_tokens, 1024) << "request " << i;
      EXPECT_EQ(got[i].cached_tokens % 64, 0);
    }
  }
}

TEST(Engine, PrefixHitsChangeNoBitAndAreReported) {
  expect_prefix_hits_change_nothing("f32", {1, 2, 63, 64, 65, 450});
}

// sglang#18904: rows that are narrow in the cache must mean the same to the request that wrote them and to
// the one that finds them.
TEST(Engine, PrefixHitsOnNarrowRowsChangeNoBit) {
  for (const char* dtype : {"bf16", "fp8", "fp8_ds_mla"})
    expect_prefix_hits_change_nothing(dtype, {1, 64, 65});
}

TEST(Engine, PreemptionChangesNoBit) {
  std::vector<GenerationRequest> requests;
  for (const GoldenPrompt& prompt : golden_prompts()) {
    if (prompt.ids.size() <= 64) requests.push_back(greedy(prompt.ids, 200));
  }
  LiveEngine roomy(small_flags());
  const std::vector<Answer> want = roomy.run(requests);
  ServeFlags flags = small_flags();
  flags.block_size = 16;
  flags.num_gpu_blocks_override = 24;  // 384 tokens for four requests of 200 and more
  LiveEngine tight(flags);
  const std::vector<Answer> got = tight.run(requests);
  expect_same(got, want, "a pool of 24 blocks");
  const EngineStats stats = tight.engine().stats();
  EXPECT_EQ(stats.finished, static_cast<std::int64_t>(requests.size()));
  EXPECT_EQ(stats.kv_usage, 0);
}

TEST(Engine, PromptLogprobsAreTheSameInChunksAndAfterACacheHit) {
  const auto prompts = golden_prompts();
  GenerationRequest request = greedy(std::ranges::find(prompts, "len300", &GoldenPrompt::name)->ids, 1);
  request.sampling.prompt_logprobs = 1;
  LiveEngine whole(small_flags());
  const Answer want = whole.run(request);
  ASSERT_EQ(want.prompt_logprobs.size(), request.prompt.size() - 1);
  EXPECT_EQ(whole.run(request).prompt_logprobs, want.prompt_logprobs) << "second time";
  ServeFlags flags = small_flags();
  flags.max_num_batched_tokens = 8;  // at least one token a sequence
  LiveEngine chunked(flags);
  EXPECT_EQ(chunked.run(request).prompt_logprobs, want.prompt_logprobs) << "in chunks of 8";
}

// Seeded sampling depends on the request alone.
TEST(Engine, ASeedGivesOneAnswerAloneAndInABatch) {
  std::vector<GenerationRequest> requests;
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    GenerationRequest request = greedy(golden_prompts()[1].ids, 24);
    request.sampling.temperature = 1.0F;
    request.sampling.top_p = 0.9F;
    request.sampling.repetition_penalty = 1.1F;
    request.sampling.seed = seed;
    requests.push_back(request);
  }
  LiveEngine live(small_flags());
  const std::vector<Answer> together = live.run(requests);
  for (std::size_t i = 0; i < requests.size(); ++i)
    EXPECT_EQ(live.run(requests[i]).tokens, together[i].tokens);
  EXPECT_NE(together[0].tokens, together[1].tokens);
}

// Without the batch-invariant mode decode and prefill use different forms of MLA: greedy tokens agree all the
// same.
TEST(Engine, TheFasterModeGivesTheSameGreedyTokens) {
  ServeFlags flags = small_flags();
  flags.batch_invariant = false;
  flags.max_num_batched_tokens = 50;
  LiveEngine live(flags);
  for (const GoldenPrompt& prompt : golden_prompts()) {
    if (prompt.ids.size() > 300) continue;
    EXPECT_EQ(live.run(greedy(prompt.ids, 48)).tokens, prompt.greedy) << prompt.name;
    EXPECT_EQ(live.run(greedy(prompt.ids, 48)).tokens, prompt.greedy) << prompt.name << " from the cache";
  }
}

TEST(Engine, TwoRanksGiveTheSameGreedyTokens) {
  ServeFlags flags = small_flags();
  flags.tensor_parallel_size = 2;
  LiveEngine live(flags);
  const auto prompts = golden_prompts();
  const std::vector<Answer> answers = live.run(golden_requests(24));
  std::size_t i = 0;
  for (const GoldenPrompt& prompt : prompts) {
    if (prompt.ids.size() > 300) continue;
    EXPECT_TRUE(std::ranges::equal(answers[i++].tokens, std::span(prompt.greedy).first(24))) << prompt.name;
  }
}

}  // namespace
}  // namespace tessera::test
