// The plan that is made before a byte is read, against what the ranks have then really taken: item by item,
// for every way to split and every kind of draft, and as /metrics shows it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine_setup.h"
#include "server/metrics.h"
#include "support/golden.h"

namespace tessera::test {
namespace {

struct Layout {
  std::string name = "";
  int ranks = 1;
  int context_ranks = 1;
  bool expert_parallel = false;
  std::string draft = "";  // of --speculative-config; empty: none
  std::string kv = "auto";
  std::string exchange = "auto";
};

std::string draft_of(const std::string& method, const std::string& model) {
  return R"({"method": ")" + method + R"(", "model": ")" + source_path("models/" + model) +
         R"(", "num_speculative_tokens": 3})";
}

ServeFlags flags_of(const Layout& layout) {
  ServeFlags flags;
  flags.model = source_path("models/tessera-tiny");
  flags.device = "cpu";
  flags.max_model_len = 512;
  flags.max_num_seqs = 4;
  flags.max_num_batched_tokens = 128;
  flags.num_gpu_blocks_override = 24;
  flags.tensor_parallel_size = layout.ranks;
  flags.decode_context_parallel_size = layout.context_ranks;
  flags.expert_parallel = layout.expert_parallel;
  flags.speculative_config = layout.draft;
  flags.kv_cache_dtype = layout.kv;
  flags.dcp_comm_backend = layout.exchange;
  return flags;
}

LaunchedEngine launch(const Layout& layout) {
  const ServeFlags flags = flags_of(layout);
  const auto checkpoint = Checkpoint::open(flags.model);
  TS_CHECK(checkpoint.ok(), checkpoint.error().message());
  auto launched = launch_engine(flags, *checkpoint, {});
  TS_CHECK(launched.ok(), launched.error().message());
  return *std::move(launched);
}

class MemoryPlan : public testing::TestWithParam<Layout> {};

// The plan is the fullest rank's: no rank takes more of anything, and of each thing some rank takes as much.
TEST_P(MemoryPlan, IsWhatTheFullestRankTakes) {
  const LaunchedEngine launched = launch(GetParam());
  const std::vector<MemoryItem> planned = items_of(launched.plan.rank);
  ASSERT_EQ(launched.memory.size(), static_cast<std::size_t>(GetParam().ranks));
  for (std::size_t i = 0; i < planned.size(); ++i) {
    std::int64_t most = 0;
    for (const auto& [rank, memory] : launched.memory) most = std::max(most, items_of(memory)[i].bytes);
    EXPECT_EQ(most, planned[i].bytes) << planned[i].key;
  }
  EXPECT_GT(launched.plan.rank.kv_cache, 0);
  EXPECT_EQ(launched.plan.rank.draft_cache > 0,
            !GetParam().draft.empty() && GetParam().draft.find("ngram") == std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(
    , MemoryPlan,
    testing::Values(
        Layout{.name = "OfOneRank"}, Layout{.name = "OfTwoRanks", .ranks = 2},
        Layout{.name = "OfWholeExperts", .ranks = 4, .expert_parallel = true},
        Layout{.name = "OfSharedRows", .ranks = 4, .context_ranks = 4, .kv = "fp8"},
        Layout{.name = "OfTwoGroups", .ranks = 4, .context_ranks = 2, .exchange = "ag_rs"},
        Layout{.name = "OfSharedRowsSentAtOnce", .ranks = 2, .context_ranks = 2, .exchange = "a2a"},
        Layout{.name = "WithEagle", .ranks = 2, .draft = draft_of("eagle3", "tessera-tiny-eagle3")},
        Layout{.name = "WithEagleOverRanks",
               .ranks = 2,
               .context_ranks = 2,
               .draft = draft_of("eagle3", "tessera-tiny-eagle3-mla")},
        Layout{.name = "WithDFlash", .draft = draft_of("dflash", "tessera-tiny-dflash")},
        Layout{.name = "WithADraftModel", .ranks = 2, .draft = draft_of("draft_model", "tessera-tiny")},
        Layout{.name = "WithNgram", .draft = R"({"method": "ngram", "num_speculative_tokens": 3})"}),
    [](const auto& layout) { return layout.param.name; });

TEST(RankMetrics, ShowPlanAndUseOfEveryRankSideBySide) {
  const LaunchedEngine launched = launch({.ranks = 2, .context_ranks = 2});
  Metrics metrics("tiny", "0");
  metrics.attach(launched.engine.get());
  const std::string text = metrics.render();
  const auto shows = [&](const std::string& sample) { return text.find(sample + '\n') != std::string::npos; };
  const std::string pool = std::to_string(launched.plan.rank.kv_cache);
  for (const std::string rank : {"0", "1"}) {
    EXPECT_TRUE(
        shows(R"(tessera:kv_cache_usage_perc{engine="0",model_name="tiny",rank=")" + rank + R"("} 0)"));
    for (const std::string source : {"plan", "used"}) {
      EXPECT_TRUE(shows(R"(tessera:memory_bytes{engine="0",item="kv cache",model_name="tiny",rank=")" + rank +
                        R"(",source=")" + source + R"("} )" + pool))
          << rank << ' ' << source;
    }
  }
  EXPECT_EQ(text.find(R"(item="draft cache")"), std::string::npos);
  // What was measured at start has been counted too; nothing has been served.
  for (const std::string rank : {"0", "1"}) {
    const std::string labels =
        R"({engine="0",group="tp",model_name="tiny",operation="all_reduce",rank=")" + rank;
    EXPECT_THAT(text, testing::HasSubstr("tessera:collective_seconds_count" + labels));
  }
  EXPECT_THAT(text, testing::ContainsRegex("tessera:all_reduce_start_seconds.bytes=\"1024\""));
}

}  // namespace
}  // namespace tessera::test
