#include "bench/load/prompt_pool.h"

#include <gmock/gmock.h>

#include <set>

#include "bench/load/default_text.h"

namespace tessera::bench {
namespace {

// A token a byte.
Result<std::vector<std::int32_t>> bytes(std::string_view text) {
  return std::vector<std::int32_t>(text.begin(), text.end());
}

PromptPool pool(std::uint64_t seed = 1) { return *PromptPool::make(default_text(), bytes, seed); }

TEST(PromptPool, PromptsHaveExactlyTheLengthAskedFor) {
  const PromptPool prompts = pool();
  for (const std::int64_t length : {1, 7, 8, 9, 64, 131'072, 2'000'000})
    EXPECT_EQ(static_cast<std::int64_t>(prompts.prompt(3, length).size()), length);
}

TEST(PromptPool, NoPromptBeginsLikeAnother) {
  const PromptPool prompts = pool();
  const PromptPool other_run = pool(2);
  std::set<std::vector<std::int32_t>> beginnings;
  for (std::uint64_t serial = 0; serial < 500; ++serial) {
    beginnings.insert(prompts.prompt(serial, 16));
    beginnings.insert(other_run.prompt(serial, 16));
  }
  EXPECT_EQ(beginnings.size(), 1000u);
}

TEST(PromptPool, TheSameSerialIsTheSamePrompt) { EXPECT_EQ(pool().prompt(5, 300), pool().prompt(5, 300)); }

TEST(PromptPool, TheTextIsAllThereAndProse) {
  EXPECT_GT(default_text().size(), 850'000u);
  EXPECT_TRUE(default_text().starts_with("EMMA"));
  EXPECT_TRUE(default_text().substr(default_text().size() - 10).find("FINIS") != std::string_view::npos);
}

TEST(PromptPool, ATextOfAFewWordsIsRefused) {
  const auto made = PromptPool::make("too short", bytes, 1);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().where, "--text");
}

TEST(PromptPool, PiecesTogetherAreTheText) {
  std::string joined;
  const auto keep = [&](std::string_view text) -> Result<std::vector<std::int32_t>> {
    joined += text;
    return bytes(text);
  };
  ASSERT_TRUE(PromptPool::make(default_text(), keep, 1));
  EXPECT_TRUE(joined == default_text());
}

}  // namespace
}  // namespace tessera::bench
