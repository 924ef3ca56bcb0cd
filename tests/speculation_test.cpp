// Speculation changes how fast tokens come, not which: every draft over ranks, placements, row formats and
// sampling settings, under the scheduler, against the same without speculation.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <string>

#include "base/test_seed.h"
#include "support/golden.h"
#include "support/scheduled_model.h"

namespace tessera::test {
namespace {

const std::map<std::string, std::string>& configs() {
  static const std::map<std::string, std::string> all = {
      {"eagle3", R"({"model": "tessera-tiny-eagle3", "num_speculative_tokens": 3})"},
      {"eagle3_mla", R"({"model": "tessera-tiny-eagle3-mla", "num_speculative_tokens": 3})"},
      {"dflash", R"({"model": "tessera-tiny-dflash", "num_speculative_tokens": 7})"},
      {"draft_model", R"({"method": "draft_model", "model": "tessera-tiny", "num_speculative_tokens": 4})"},
      {"ngram", R"({"method": "ngram", "num_speculative_tokens": 5})"},
  };
  return all;
}

struct Layout {
  int ranks = 1;
  int dcp_ranks = 1;
};

ScheduledModel::Options options_of(const std::string& method, const Layout& layout = {}) {
  ScheduledModel::Options options;
  options.model.ranks = layout.ranks;
  options.model.dcp_ranks = layout.dcp_ranks;
  options.model.always_logits = false;
  if (!method.empty()) options.model.speculative_config = configs().at(method);
  return options;
}

std::vector<GoldenPrompt> prompts() {
  std::vector<GoldenPrompt> chosen = golden_prompts();
  std::erase_if(chosen, [](const GoldenPrompt& prompt) { return prompt.name == "len1500"; });
  return chosen;
}

class Drafts : public testing::TestWithParam<std::string> {};

// All prompts at once, cut into chunks, over ranks and placements; draft lengths change from step to step,
// also to none.
TEST_P(Drafts, GreedyTokensAreThoseOfTheTargetAlone) {
  for (const Layout layout : {Layout{1, 1}, Layout{2, 2}, Layout{4, 4}}) {
    for (const std::int32_t replicate_up_to : {0, 80}) {
      if ((layout.dcp_ranks == 2) != (replicate_up_to > 0)) continue;
      ScheduledModel::Options options = options_of(GetParam(), layout);
      options.replicate_up_to = replicate_up_to;
      options.max_num_batched_tokens = 190;
      ScheduledModel model(options);
      std::mt19937 random(test_seed());
      model.before_step = [&] {
        if (random() % 3 == 0) model.drafts.drafts = static_cast<std::int32_t>(random() % 8);
        model.drafts.drafts = std::min(model.drafts.drafts, model.scheduler().options().most_drafts);
      };
      std::vector<std::uint64_t> ids;
      for (const GoldenPrompt& prompt : prompts())
        ids.push_back(model.submit(prompt.ids, static_cast<std::int32_t>(prompt.greedy.size())));
      model.run();
      for (std::size_t i = 0; i < ids.size(); ++i) {
        EXPECT_EQ(model.result(ids[i]).tokens, prompts()[i].greedy)
            << prompts()[i].name << " on " << layout.ranks << " ranks in groups of " << layout.dcp_ranks;
      }
      EXPECT_GT(model.scheduler().counters().speculation.accepted_tokens, 0)
          << layout.ranks << " " << layout.dcp_ranks;
      EXPECT_EQ(model.scheduler().kv().used_blocks(), 0);
    }
  }
}

// Prompts that end around the edges of blocks.
TEST_P(Drafts, BlockBoundariesDoNotShow) {
  ScheduledModel plain(options_of(""));
  ScheduledModel drafted(options_of(GetParam(), {2, 2}));
  const std::vector<std::int32_t> text = golden_prompts()[3].ids;
  for (const std::size_t length : {62U, 63U, 64U, 65U, 66U, 127U, 128U, 129U, 191U, 192U, 193U}) {
    const auto prompt = std::span(text).first(length);
    EXPECT_EQ(drafted.generate(prompt, 12), plain.generate(prompt, 12)) << length;
  }
}

// Each turn finds as much in the prefix cache as without speculation.
TEST_P(Drafts, AGrowingConversationKeepsItsPrefixHits) {
  ScheduledModel plain(options_of(""));
  ScheduledModel drafted(options_of(GetParam()));
  std::vector<std::int32_t> dialogue = golden_prompts()[2].ids;
  for (int turn = 0; turn < 20; ++turn) {
    const std::uint64_t a = plain.submit(dialogue, 20);
    const std::uint64_t b = drafted.submit(dialogue, 20);
    plain.run();
    drafted.run();
    ASSERT_EQ(drafted.result(b).tokens, plain.result(a).tokens) << "turn " << turn;
    ASSERT_EQ(drafted.result(b).cached_tokens, plain.result(a).cached_tokens) << "turn " << turn;
    const auto& answer = plain.result(a).tokens;
    dialogue.insert(dialogue.end(), answer.begin(), answer.end());
    for (std::int32_t i = 0; i < 15; ++i) dialogue.push_back(300 + (turn * 31 + i * 7) % 200);
  }
}

// A target with narrow rows and a draft with wide ones, and the reverse.
TEST_P(Drafts, TargetAndDraftChooseTheirRowsApart) {
  for (const auto& [target, draft] : {std::pair{KvFormat::kFp8, "bf16"}, std::pair{KvFormat::kBF16, "fp8"},
                                      std::pair{KvFormat::kFp8Grouped, "auto"}}) {
    ScheduledModel::Options single = options_of("");
    single.model.kv_format = target;
    ScheduledModel::Options options = options_of(GetParam(), {2, 2});
    options.model.kv_format = target;
    if (GetParam() != "ngram") {
      std::string& config = options.model.speculative_config;
      config.insert(config.size() - 1, std::string(R"(, "draft_kv_cache_dtype": ")") + draft + "\"");
    }
    ScheduledModel plain(single);
    ScheduledModel drafted(options);
    for (const GoldenPrompt& prompt : prompts())
      EXPECT_EQ(drafted.generate(prompt.ids, 24), plain.generate(prompt.ids, 24))
          << prompt.name << " " << name_of(target);
  }
}

// A request's own seed gives the same tokens with and without drafts, whatever the sampling options.
TEST_P(Drafts, SeededSamplingIsTheSameWithDrafts) {
  ScheduledModel plain(options_of(""));
  ScheduledModel drafted(options_of(GetParam(), {2, 1}));
  const auto each = [&](const auto& set) {
    set(plain.sampling);
    set(drafted.sampling);
    for (const GoldenPrompt& prompt : prompts())
      EXPECT_EQ(drafted.generate(prompt.ids, 24), plain.generate(prompt.ids, 24)) << prompt.name;
  };
  each([](SamplingParams& sampling) {
    sampling.temperature = 0.8F;
    sampling.seed = 17;
  });
  each([](SamplingParams& sampling) {
    sampling.top_p = 0.9F;
    sampling.top_k = 20;
    sampling.repetition_penalty = 1.2F;
    sampling.frequency_penalty = 0.3F;
    sampling.min_tokens = 5;
  });
  each([](SamplingParams& sampling) {
    sampling.temperature = 0;
    sampling.logprobs = 2;
  });
}

// Blocks run out: sequences are preempted with drafts in the air and come back.
TEST_P(Drafts, PreemptionLosesNothing) {
  ScheduledModel::Options options = options_of(GetParam());
  options.model.block_size = 16;
  options.model.kv_blocks = 26;
  options.forecast_admission = false;
  ScheduledModel tight(options);
  ScheduledModel plain(options_of(""));
  std::vector<std::vector<std::int32_t>> mine;
  std::vector<std::uint64_t> ids;
  for (int i = 0; i < 4; ++i) {
    mine.push_back(golden_prompts()[2].ids);
    mine.back().front() = 40 + i;
    ids.push_back(tight.submit(mine.back(), 120));
  }
  tight.run();
  EXPECT_GT(tight.scheduler().counters().preemptions, 0);
  for (std::size_t i = 0; i < ids.size(); ++i)
    EXPECT_EQ(tight.result(ids[i]).tokens, plain.generate(mine[i], 120)) << i;
}

INSTANTIATE_TEST_SUITE_P(Speculation, Drafts,
                         testing::Values("eagle3", "eagle3_mla", "dflash", "draft_model", "ngram"),
                         [](const auto& test) { return test.param; });

}  // namespace
}  // namespace tessera::test
