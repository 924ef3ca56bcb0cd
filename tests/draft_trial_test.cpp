// A server that starts with a draft tries it, and says loudly when it reads hidden states of the wrong
// layers.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "base/check.h"
#include "engine_setup.h"
#include "support/golden.h"

namespace tessera::test {
namespace {

// The report of a start with the shipped EAGLE-3 draft, whose config names its layers as given.
DraftTrialReport started_with(const std::string& layers, int ranks) {
  namespace fs = std::filesystem;
  const fs::path shipped = source_path("models/tessera-tiny-eagle3-mla");
  const fs::path folder =
      fs::path(testing::TempDir()) / ("draft-" + layers.substr(0, 1) + std::to_string(ranks));
  fs::remove_all(folder);
  fs::create_directories(folder);
  fs::create_symlink(shipped / "model.safetensors", folder / "model.safetensors");
  std::stringstream text;
  text << std::ifstream(shipped / "config.json").rdbuf();
  std::string config = text.str();
  const auto first = config.find('[', config.find("eagle_aux_hidden_state_layer_ids"));
  config.replace(first, config.find(']', first) + 1 - first, "[" + layers + "]");
  std::ofstream(folder / "config.json") << config;

  ServeFlags flags;
  flags.model = source_path("models/tessera-tiny");
  flags.device = "cpu";
  flags.tensor_parallel_size = ranks;
  flags.max_model_len = 512;
  flags.max_num_seqs = 2;
  flags.speculative_config =
      R"({"method": "eagle3", "model": ")" + folder.string() + R"(", "num_speculative_tokens": 3})";
  const auto checkpoint = Checkpoint::open(flags.model);
  TS_CHECK(checkpoint.ok(), checkpoint.error().message());
  const auto launched = launch_engine(flags, *checkpoint, {});
  TS_CHECK(launched.ok(), launched.error().message());
  TS_CHECK(launched->draft_trial.has_value());
  return *launched->draft_trial;
}

TEST(DraftTrialAtStart, TakesTheDraftThatFits) {
  for (const int ranks : {1, 2}) {
    const DraftTrialReport report = started_with("1, 3, 5", ranks);
    EXPECT_FALSE(warning_of(report)) << warning_of(report).value_or("");
    EXPECT_GT(report.rate(), 0.3);
  }
}

TEST(DraftTrialAtStart, WarnsOfADraftWhoseLayersAreSwapped) {
  EXPECT_TRUE(warning_of(started_with("5, 3, 1", 1)));
  EXPECT_TRUE(warning_of(started_with("3, 5, 1", 2)));
}

}  // namespace
}  // namespace tessera::test
