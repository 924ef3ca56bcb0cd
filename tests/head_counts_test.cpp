// Any number of query heads on a rank gives what one rank computes: 12, 16 and 64 heads, alone and gathered
// over decode context parallelism, with small random models in Kimi's architecture.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/scratch_folder.h"
#include "checkpoint/synthetic_checkpoint.h"
#include "support/scheduled_model.h"

namespace tessera::test {
namespace {

// Of the largest logit. Weights between -1 and 1 make attention steep, which lends rounding some weight.
constexpr float kRounding = 1e-3F;

struct Heads {
  int on_a_rank;
  int ranks;
  int dcp_ranks;
};
std::string name_of(const testing::TestParamInfo<Heads>& heads) {
  return std::to_string(heads.param.on_a_rank) + "HeadsT" + std::to_string(heads.param.ranks) + "D" +
         std::to_string(heads.param.dcp_ranks);
}

void write_model(const std::filesystem::path& folder, int heads) {
  synthetic::Model model;
  const std::string two = "\"num_attention_heads\": 2";
  model.config.replace(model.config.find(two), two.size(),
                       "\"num_attention_heads\": " + std::to_string(heads));
  const auto config = parse_model_config(model.config, "config.json");
  TS_CHECK(config.ok());
  model.files["model.safetensors"] =
      synthetic::tensors_of_model(*config, [](const Parameter&) { return WeightFormat::kF32; });
  model.write(folder);
}

class HeadCounts : public testing::TestWithParam<Heads> {};

// A prompt in several chunks, cut within blocks, then decode steps.
TEST_P(HeadCounts, GiveTheLogitsAndTokensOfOneRank) {
  const auto [on_a_rank, ranks, dcp_ranks] = GetParam();
  const ScratchFolder folder;
  write_model(folder.path(), on_a_rank * ranks);
  std::vector<std::int32_t> prompt;
  for (std::int32_t i = 0; i < 75; ++i) prompt.push_back(8 + i * 11 % 40);

  const auto answer_of = [&](int t, int d) {
    ScheduledModel::Options options;
    options.model.folder = folder.path();
    options.model.ranks = t;
    options.model.dcp_ranks = d;
    options.model.block_size = 16;
    options.max_num_batched_tokens = 29;
    ScheduledModel model(options);
    const std::uint64_t id = model.submit(prompt, 24, true);
    model.run();
    return model.result(id);
  };
  const ScheduledModel::Result one = answer_of(1, 1);
  const ScheduledModel::Result many = answer_of(ranks, dcp_ranks);
  EXPECT_EQ(many.tokens, one.tokens);
  ASSERT_EQ(many.logits.size(), one.logits.size());
  for (const auto& [position, row] : one.logits) {
    const float largest = std::abs(*std::ranges::max_element(row, {}, [](float v) { return std::abs(v); }));
    const auto& got = many.logits.at(position);
    for (std::size_t v = 0; v < row.size(); ++v)
      ASSERT_NEAR(got[v], row[v], kRounding * largest) << "position " << position << " token " << v;
  }
}

INSTANTIATE_TEST_SUITE_P(PerRank, HeadCounts,
                         testing::Values(Heads{12, 2, 1}, Heads{12, 2, 2}, Heads{12, 4, 2}, Heads{16, 4, 4},
                                         Heads{16, 2, 2}, Heads{64, 2, 1}, Heads{64, 2, 2}),
                         name_of);

}  // namespace
}  // namespace tessera::test
