#include "model/aux_layers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tessera {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

ModelConfig target_of(std::int64_t layers) {
  ModelConfig config;
  config.architecture_name = "DeepseekV3ForCausalLM";
  config.layers = layers;
  return config;
}

ModelConfig draft_of(AuxLayerSource source, std::vector<std::int64_t> ids) {
  ModelConfig config;
  config.draft = DraftConfig{.aux_layers = std::move(ids), .aux_source = source};
  return config;
}

TEST(AuxLayers, PublishedKimiDraftsNameOutputs) {
  const auto layers = aux_layers_of(draft_of(AuxLayerSource::kEagleConfig, {1, 29, 57}), target_of(61));
  ASSERT_TRUE(layers.ok());
  EXPECT_THAT(layers->after, ElementsAre(1, 29, 57));
}

TEST(AuxLayers, AnIdPastTheLastLayerShowsThatInputsAreNamed) {
  const auto layers = aux_layers_of(draft_of(AuxLayerSource::kEagleConfig, {1, 3, 5}), target_of(5));
  ASSERT_TRUE(layers.ok());
  EXPECT_THAT(layers->after, ElementsAre(0, 2, 4));
  EXPECT_EQ(layers->note, "after layers 0, 2, 4 (written as the input of layers 1, 3, 5)");
}

TEST(AuxLayers, ATopLevelListNamesInputsAsVllmReadsIt) {
  const auto layers = aux_layers_of(draft_of(AuxLayerSource::kTopLevel, {0, 30, 58}), target_of(61));
  ASSERT_TRUE(layers.ok());
  EXPECT_THAT(layers->after, ElementsAre(-1, 29, 57)) << "-1: the embedding";
}

// The default of vLLM means for 61 layers what the Kimi drafts spell out.
TEST(AuxLayers, NoListIsTheDefaultOfVllm) {
  const auto layers = aux_layers_of(draft_of(AuxLayerSource::kNone, {}), target_of(61));
  ASSERT_TRUE(layers.ok());
  EXPECT_THAT(layers->after, ElementsAre(1, 29, 57));
}

TEST(AuxLayers, DFlashNamesOutputs) {
  const auto layers = aux_layers_of(draft_of(AuxLayerSource::kDFlash, {0, 2, 4}), target_of(5));
  ASSERT_TRUE(layers.ok());
  EXPECT_THAT(layers->after, ElementsAre(0, 2, 4));
}

TEST(AuxLayers, AMissingLayerIsRefusedNamingBothSides) {
  for (const auto& draft :
       {draft_of(AuxLayerSource::kEagleConfig, {1, 29, 57}), draft_of(AuxLayerSource::kDFlash, {0, 5}),
        draft_of(AuxLayerSource::kTopLevel, {6})}) {
    const auto layers = aux_layers_of(draft, target_of(5));
    ASSERT_FALSE(layers.ok());
    EXPECT_EQ(layers.error().kind, ErrorKind::kMismatch);
    EXPECT_THAT(layers.error().what, HasSubstr("DeepseekV3ForCausalLM has 5 layers, 0 to 4"));
  }
}

}  // namespace
}  // namespace tessera
