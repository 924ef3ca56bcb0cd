// Decode context parallelism changes where rows lie, not what comes out: the shipped model on T ranks in
// groups of D, against the reference's logits and tokens and against one rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "support/golden.h"
#include "support/scheduled_model.h"

namespace tessera::test {
namespace {

constexpr float kTolerance = 1e-3F;  // of golden_test.cpp

struct Layout {
  int ranks;
  int dcp_ranks;
};
std::ostream& operator<<(std::ostream& out, const Layout& layout) {
  return out << "T" << layout.ranks << "D" << layout.dcp_ranks;
}

ScheduledModel::Options options_of(const Layout& layout) {
  ScheduledModel::Options options;
  options.model.ranks = layout.ranks;
  options.model.dcp_ranks = layout.dcp_ranks;
  return options;
}

void expect_golden(const GoldenPrompt& prompt, const ScheduledModel::Result& result,
                   const std::string& what) {
  for (std::size_t i = 0; i < prompt.logits_positions.size(); ++i) {
    const auto got = result.logits.find(prompt.logits_positions[i]);
    ASSERT_NE(got, result.logits.end()) << prompt.name << " position " << prompt.logits_positions[i];
    for (std::size_t v = 0; v < got->second.size(); ++v) {
      ASSERT_NEAR(got->second[v], prompt.logits[i][v], kTolerance)
          << prompt.name << " position " << prompt.logits_positions[i] << " token " << v << ", " << what;
    }
  }
  EXPECT_TRUE(std::ranges::equal(result.tokens, std::span(prompt.greedy).first(result.tokens.size())))
      << prompt.name << ", " << what;
}

class Layouts : public testing::TestWithParam<Layout> {};

// All prompts at once, in chunks that end anywhere, gathered in several rounds; sharded from the start, from
// the middle of a prompt on, and from some decode step on.
TEST_P(Layouts, LogitsAndGreedyTokensAreTheReferences) {
  for (const auto& [exchange, replicate_up_to] :
       {std::pair{DcpExchange::kAllToAll, 0}, std::pair{DcpExchange::kReduceScatter, 70},
        std::pair{DcpExchange::kAllToAll, 310}}) {
    ScheduledModel::Options options = options_of(GetParam());
    options.model.exchange = exchange;
    options.model.gather_rows = 128;
    options.replicate_up_to = replicate_up_to;
    options.max_num_batched_tokens = 190;
    ScheduledModel model(options);
    std::vector<std::uint64_t> ids;
    for (const GoldenPrompt& prompt : golden_prompts())
      ids.push_back(prompt.name == "len1500" ? 0 : model.submit(prompt.ids, 16, true));
    model.run();
    for (std::size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] == 0) continue;
      expect_golden(golden_prompts()[i], model.result(ids[i]),
                    "replicated up to " + std::to_string(replicate_up_to) + ", exchange " +
                        std::to_string(static_cast<int>(exchange)));
    }
    EXPECT_EQ(model.scheduler().kv().used_blocks(), 0);
  }
}

// More context than a rank has memory for, in many rounds.
TEST_P(Layouts, ASequenceMayBeLongerThanTheMemoryOfOneRank) {
  ScheduledModel::Options options = options_of(GetParam());
  options.model.block_size = 16;
  options.model.gather_rows = 64;
  options.max_num_batched_tokens = 333;
  options.model.kv_blocks = (1500 + 16) / 16 / GetParam().dcp_ranks + 1;
  ScheduledModel model(options);
  for (const GoldenPrompt& prompt : golden_prompts()) {
    if (prompt.name != "len1500") continue;
    const std::uint64_t id = model.submit(prompt.ids, 8, true);
    model.run();
    expect_golden(prompt, model.result(id), "16 rows a block");
  }
}

// Prefix hits of one block at every D, on blocks that are spread, in the second turn of a conversation.
TEST_P(Layouts, PrefixHitsKeepTheirGranularityAndTheirTokens) {
  ScheduledModel one(options_of({1, 1}));
  ScheduledModel many(options_of(GetParam()));
  for (const GoldenPrompt& prompt : golden_prompts()) {
    if (prompt.name == "len1500") continue;
    std::vector<std::int32_t> dialogue = prompt.ids;
    for (int turn = 0; turn < 3; ++turn) {
      const std::uint64_t a = one.submit(dialogue, 20);
      const std::uint64_t b = many.submit(dialogue, 20);
      one.run();
      many.run();
      EXPECT_EQ(many.result(b).tokens, one.result(a).tokens) << prompt.name << " turn " << turn;
      EXPECT_EQ(many.result(b).cached_tokens, one.result(a).cached_tokens) << prompt.name << " turn " << turn;
      const auto& answer = one.result(a).tokens;
      dialogue.insert(dialogue.end(), answer.begin(), answer.end());
      dialogue.push_back(100 + turn);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(ContextParallel, Layouts, testing::Values(Layout{2, 2}, Layout{4, 2}, Layout{8, 8}),
                         testing::PrintToStringParamName());

// 64 hex digits to repeat after thousands of tokens: whatever the model makes of it, it makes the same at
// every D.
TEST(ContextParallel, ALongCopyPromptGivesTheSameAnswerAtEveryD) {
  constexpr std::int32_t kLength = 4000;
  std::vector<std::int32_t> prompt;
  for (const GoldenPrompt& golden : golden_prompts()) {
    if (golden.name != "len1500") continue;
    while (std::ssize(prompt) < kLength) prompt.insert(prompt.end(), golden.ids.begin(), golden.ids.end());
  }
  prompt.resize(kLength);
  for (std::int32_t i = 0; i < 64; ++i) prompt.push_back(3 + i * 7 % 16);
  const auto long_context = [](const Layout& layout) {
    ScheduledModel::Options options = options_of(layout);
    options.model.max_model_len = kLength + 192;
    return options;
  };
  ScheduledModel one(long_context({1, 1}));
  const std::vector<std::int32_t> answer = one.generate(prompt, 64);
  ASSERT_EQ(answer.size(), 64U);
  for (const Layout& layout : {Layout{2, 2}, Layout{4, 4}, Layout{8, 8}}) {
    ScheduledModel many(long_context(layout));
    EXPECT_EQ(many.generate(prompt, 64), answer) << layout;
  }
}

// Narrow rows are written by the same function whichever rank owns them, so they are the same bytes.
TEST(ContextParallel, NarrowRowsGiveTheTokensOfOneRank) {
  for (const KvFormat format : {KvFormat::kBF16, KvFormat::kFp8, KvFormat::kFp8Grouped}) {
    ScheduledModel::Options single = options_of({1, 1});
    ScheduledModel::Options sharded = options_of({4, 4});
    single.model.kv_format = sharded.model.kv_format = format;
    sharded.model.gather_rows = 64;
    sharded.max_num_batched_tokens = 100;
    ScheduledModel one(single);
    ScheduledModel many(sharded);
    for (const GoldenPrompt& prompt : golden_prompts()) {
      if (prompt.name == "len1500") continue;
      EXPECT_EQ(many.generate(prompt.ids, 16), one.generate(prompt.ids, 16))
          << prompt.name << " " << name_of(format);
    }
  }
}

// Whenever a sequence goes from replicated to sharded, its continuation is what it would have been.
TEST(ContextParallel, AnyStepMayBeTheOneThatShards) {
  for (const GoldenPrompt& prompt : golden_prompts()) {
    if (prompt.name != "len64") continue;
    const auto length = static_cast<std::int32_t>(prompt.ids.size());
    for (std::int32_t at = length - 3; at < length + 12; ++at) {
      ScheduledModel::Options options = options_of({2, 2});
      options.replicate_up_to = at;
      ScheduledModel model(options);
      const auto tokens = model.generate(prompt.ids, 12);
      EXPECT_TRUE(std::ranges::equal(tokens, std::span(prompt.greedy).first(12))) << "sharded beyond " << at;
      EXPECT_EQ(model.scheduler().counters().sharded, at >= length && at < length + 11 ? 1 : 0) << at;
    }
  }
}

// When the pool needs the room, replicated sequences are sharded rather than preempted.
TEST(ContextParallel, CopiesMakeRoomBeforeAnybodyIsPreempted) {
  ScheduledModel::Options options = options_of({2, 2});
  options.replicate_up_to = 2000;
  options.model.block_size = 16;
  options.model.kv_blocks = 24;  // 768 tokens sharded, 384 replicated
  ScheduledModel model(options);
  std::vector<std::uint64_t> ids;
  const GoldenPrompt prompt = golden_prompts()[2];
  for (int i = 0; i < 4; ++i) {
    std::vector<std::int32_t> mine = prompt.ids;
    mine.front() = 40 + i;
    ids.push_back(model.submit(mine, 100));
  }
  model.run();
  EXPECT_EQ(model.scheduler().counters().preemptions, 0);
  EXPECT_GT(model.scheduler().counters().sharded, 0);
  ScheduledModel alone(options_of({1, 1}));
  for (int i = 0; i < 4; ++i) {
    std::vector<std::int32_t> mine = prompt.ids;
    mine.front() = 40 + i;
    EXPECT_EQ(model.result(ids[static_cast<std::size_t>(i)]).tokens, alone.generate(mine, 100)) << i;
  }
}

}  // namespace
}  // namespace tessera::test
