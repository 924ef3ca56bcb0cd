// The shipped model with each of its drafts: steps that are planned ahead, with random delays in every copy
// and hand-over, give the tokens of steps one after the other.
#include <gtest/gtest.h>

#include <chrono>
#include <map>
#include <mutex>
#include <random>
#include <string>
#include <thread>

#include "backend/cpu/cpu_backend.h"
#include "base/test_seed.h"
#include "engine/engine.h"
#include "support/golden.h"
#include "support/tiny_model.h"

namespace tessera::test {
namespace {

// Waits at random; from any thread.
class Delays {
 public:
  explicit Delays(unsigned seed) : random_(seed) {}
  void wait() {
    std::chrono::microseconds time(0);
    {
      const std::lock_guard lock(mutex_);
      if (random_() % 8 != 0) return;
      time = std::chrono::microseconds(random_() % 300);
    }
    std::this_thread::sleep_for(time);
  }

 private:
  std::mutex mutex_;
  std::mt19937 random_;
};

class Collector final : public RequestSink {
 public:
  void on_output(const RequestOutput& output) override {
    const std::lock_guard lock(mutex_);
    EXPECT_FALSE(output.error) << output.error->message();
    for (const SampledToken& token : output.tokens) {
      tokens_.push_back(token.token);
      logprobs_.push_back(token.logprob);
    }
  }
  std::pair<std::vector<std::int32_t>, std::vector<float>> answer() {
    const std::lock_guard lock(mutex_);
    return {tokens_, logprobs_};
  }

 private:
  std::mutex mutex_;
  std::vector<std::int32_t> tokens_;
  std::vector<float> logprobs_;
};

struct Layout {
  int ranks = 1;
  int dcp_ranks = 1;
};

class Served {
 public:
  Served(const std::string& draft, const Layout& layout, bool ahead, Delays* delays) {
    TinyOptions tiny{.ranks = layout.ranks,
                     .dcp_ranks = layout.dcp_ranks,
                     .kv_blocks = 40,  // too few for all: some are preempted
                     .block_size = 16,
                     .batch_invariant = true,
                     .always_logits = false,
                     .speculative_config = draft};
    if (delays != nullptr) {
      tiny.make_backend = [delays] {
        return make_cpu_backend({.threads = 1, .before_copy = [delays] { delays->wait(); }});
      };
    }
    TinyModel model = load_tiny(tiny);
    EngineOptions options;
    options.scheduler = {.max_num_seqs = model.options.max_num_seqs,
                         .max_num_batched_tokens = 90,
                         .max_model_len = model.options.max_model_len,
                         .block_size = model.options.block_size,
                         .kv_blocks = model.options.kv_blocks,
                         .dcp_ranks = layout.dcp_ranks,
                         .replicate_up_to = 120,
                         .vocab = static_cast<std::int32_t>(model.first->model().vocab()),
                         .most_drafts = model.options.most_drafts,
                         .draft_lookahead = model.draft_lookahead,
                         .shared_table = model.options.most_drafts > 0,
                         .hash_key = {}};
    options.pipeline.ahead = ahead;
    if (delays != nullptr) options.pipeline.before = [delays](HandOver) { delays->wait(); };
    if (model.options.most_drafts > 0)
      options.gate = GateOptions{.most_drafts = model.options.most_drafts, .adaptive = false};
    auto engine = Engine::create(std::move(options), std::move(model.runner));
    TS_CHECK(engine.ok(), engine.error().message());
    engine_ = *std::move(engine);
  }

  // Prompts cut from one text, greedy and seeded, ended by length, by a frequent token, or from outside.
  std::vector<std::pair<std::vector<std::int32_t>, std::vector<float>>> run() {
    const std::vector<std::int32_t> text = golden_prompts()[3].ids;
    std::vector<std::shared_ptr<Collector>> sinks;
    for (std::size_t i = 0; i < 24; ++i) {
      GenerationRequest request;
      const std::size_t length = 5 + i * 13 % 90;
      request.prompt.assign(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(length));
      request.sampling.max_tokens = static_cast<std::int32_t>(10 + i * 7 % 40);
      request.sampling.temperature = i % 3 == 0 ? 0.8F : 0.0F;
      request.sampling.seed = 1000 + i;
      request.sampling.logprobs = 0;
      if (i % 2 == 0) request.sampling.stop_token_ids = {text[40], text[50], text[60]};
      if (i % 5 == 0) request.sampling.repetition_penalty = 1.2F;
      if (i % 7 == 0) request.sampling.min_tokens = 8;
      sinks.push_back(std::make_shared<Collector>());
      EXPECT_TRUE(engine_->submit(std::move(request), sinks.back()).ok());
      if (i % 6 == 5) {  // one that leaves in the middle of a step
        GenerationRequest other;
        other.prompt.assign(text.begin() + 7, text.begin() + 60);
        other.sampling.max_tokens = 200;
        other.sampling.ignore_eos = true;
        const auto id = engine_->submit(std::move(other), std::make_shared<Collector>());
        EXPECT_TRUE(id.ok());
        std::this_thread::yield();
        engine_->cancel(*id);
      }
    }
    engine_->drain(std::chrono::minutes(5));
    std::vector<std::pair<std::vector<std::int32_t>, std::vector<float>>> answers;
    for (const auto& sink : sinks) answers.push_back(sink->answer());
    return answers;
  }
  EngineStats stats() const { return engine_->stats(); }

 private:
  std::unique_ptr<Engine> engine_;
};

class PlanningAhead : public testing::TestWithParam<std::string> {};

TEST_P(PlanningAhead, ChangesNoBitWithAnyDraftOnAnyRanks) {
  static const std::map<std::string, std::string> kDrafts = {
      {"none", ""},
      {"eagle3", R"({"model": "tessera-tiny-eagle3", "num_speculative_tokens": 3})"},
      {"eagle3_mla", R"({"model": "tessera-tiny-eagle3-mla", "num_speculative_tokens": 3})"},
      {"dflash", R"({"model": "tessera-tiny-dflash", "num_speculative_tokens": 7})"},
      {"draft_model", R"({"method": "draft_model", "model": "tessera-tiny", "num_speculative_tokens": 4})"},
      {"ngram", R"({"method": "ngram", "num_speculative_tokens": 5})"},
  };
  const unsigned seed = test_seed();
  SCOPED_TRACE("TESSERA_SEED=" + std::to_string(seed));
  for (const Layout layout : {Layout{1, 1}, Layout{2, 2}}) {
    Delays delays(seed);
    Served one_by_one(kDrafts.at(GetParam()), layout, false, nullptr);
    Served ahead(kDrafts.at(GetParam()), layout, true, &delays);
    const auto want = one_by_one.run();
    const auto got = ahead.run();
    ASSERT_EQ(got.size(), want.size());
    for (std::size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].first, want[i].first) << "request " << i << " on " << layout.ranks;
      EXPECT_EQ(got[i].second, want[i].second) << "request " << i << " on " << layout.ranks;
    }
    EXPECT_EQ(ahead.stats().kv_usage, 0);
    if (GetParam() != "none") {
      EXPECT_GT(ahead.stats().speculation.accepted_tokens, 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, PlanningAhead,
                         testing::Values("none", "eagle3", "eagle3_mla", "dflash", "draft_model", "ngram"),
                         [](const auto& param) { return param.param; });

}  // namespace
}  // namespace tessera::test
