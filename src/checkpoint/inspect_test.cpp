#include "checkpoint/inspect.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/scratch_folder.h"
#include "checkpoint/synthetic_checkpoint.h"

namespace tessera {
namespace {

using ::testing::HasSubstr;

std::filesystem::path models() { return std::filesystem::path(TESSERA_SOURCE_DIR) / "models"; }

ModelConfig kimi_k26() {
  auto config = read_model_config(models() / "configs" / "kimi-k2.6.json");
  TS_CHECK(config.ok(), config.error().message());
  return *std::move(config);
}

const ClassSummary& class_of(const Inspection& inspection, ModuleClass module_class) {
  for (const ClassSummary& sum : inspection.classes) {
    if (sum.module_class == module_class) return sum;
  }
  TS_CHECK(false, name_of(module_class));
  return inspection.classes.front();
}

// The published census of Kimi-K2.6: 208,550 tensors, 335 of them of the vision part.
TEST(InspectKimiK26, CountsTheTensorsOfTheCensus) {
  const Inspection k26 = inspect(kimi_k26());
  EXPECT_EQ(k26.tensors, 208'550 - 335);
  EXPECT_EQ(class_of(k26, ModuleClass::kRoutedExpert).tensors, 207'360);
  EXPECT_EQ(class_of(k26, ModuleClass::kRoutedExpert).format, "int4 g32");
  EXPECT_EQ(class_of(k26, ModuleClass::kDenseMlp).tensors, 3);
}

TEST(InspectKimiK26, AddsUpToTheKnownParametersAndBytes) {
  const Inspection k26 = inspect(kimi_k26());
  EXPECT_EQ(k26.parameters, 1'026'408'232'448);
  EXPECT_EQ(k26.active_parameters, 31'687'095'808);
  EXPECT_EQ(class_of(k26, ModuleClass::kAttention).parameters, 61 * 101'122'048LL);
  EXPECT_EQ(class_of(k26, ModuleClass::kDenseMlp).parameters, 396'361'728);
  EXPECT_EQ(class_of(k26, ModuleClass::kNorm).parameters, 1'006'592);
  EXPECT_EQ(class_of(k26, ModuleClass::kRoutedExpert).bytes, 23'040 * 24'772'608LL);
  EXPECT_NEAR(static_cast<double>(k26.bytes), 594.2e9, 0.05e9);
  EXPECT_NEAR(static_cast<double>(k26.active_bytes), 32.986e9, 0.001e9);
}

TEST(InspectKimiK26, KvBytesPerTokenAreThoseOfTheThreeLayouts) {
  const ModelConfig config = kimi_k26();
  EXPECT_EQ(kv_bytes_per_token(config, KvFormat::kBF16), 70'272);
  EXPECT_EQ(kv_bytes_per_token(config, KvFormat::kFp8), 35'136);
  EXPECT_EQ(kv_bytes_per_token(config, KvFormat::kFp8Grouped), 40'016);
}

TEST(InspectKimiK26, OnlyTheDenseMlpMatchesTheDenseRule) {
  const Inspection k26 = inspect(kimi_k26());
  ASSERT_EQ(k26.rules.size(), 6u);
  EXPECT_EQ(k26.rules[0].modules, 61 * 5);  // self_attn
  EXPECT_EQ(k26.rules[1].modules, 60 * 3);  // shared_experts
  EXPECT_EQ(k26.rules[2].modules, 3);       // mlp.gate_proj and not mlp.experts.N.gate_proj
  EXPECT_EQ(k26.rules[2].example, "model.layers.0.mlp.gate_proj");
  EXPECT_EQ(k26.rules[3].modules, 1);  // lm_head
}

TEST(Inspect, GroupedFp8CacheNeedsMla) {
  ModelConfig llama;
  llama.kv_heads = 8;
  llama.head_dim = 128;
  llama.layers = 32;
  EXPECT_EQ(kv_bytes_per_token(llama, KvFormat::kBF16), 32 * 2 * 8 * 128 * 2);
  EXPECT_FALSE(kv_bytes_per_token(llama, KvFormat::kFp8Grouped).has_value());
}

TEST(InspectTiny, TextAndJsonAgreeWithTheModelCard) {
  auto tiny = Checkpoint::open(models() / "tessera-tiny");
  ASSERT_TRUE(tiny) << tiny.error().message();
  const Inspection inspection = inspect(*tiny);
  EXPECT_EQ(inspection.parameters, 21'108'608 + 4 * 16);  // the card leaves out the router biases
  EXPECT_EQ(inspection.tensors, 647);
  EXPECT_EQ(inspection.bytes + 192 * 8,
            24'131'072);  // total_size of the index, with the weight_shape tensors
  const std::string text = inspect_text(inspection);
  EXPECT_THAT(text, HasSubstr("DeepseekV3ForCausalLM (kimi_k2)"));
  EXPECT_THAT(text, HasSubstr("21,108,672"));
  EXPECT_THAT(text, HasSubstr("\"lm_head\": 1 module, lm_head"));
  EXPECT_THAT(text, HasSubstr("bf16 5,760 B"));
  const auto json = nlohmann::json::parse(inspect_json(inspection));
  EXPECT_EQ(json["parameters"], 21'108'672);
  EXPECT_EQ(json["kv_bytes_per_token"]["fp8_ds_mla"], 5 * 656);
  EXPECT_EQ(json["ignore_rules"].size(), 4u);
  EXPECT_EQ(json["from_files"], true);
}

// What the config promises is what the files hold.
TEST(InspectTiny, ConfigAloneGivesTheSameClassesAsTheFiles) {
  auto tiny = Checkpoint::open(models() / "tessera-tiny");
  ASSERT_TRUE(tiny) << tiny.error().message();
  const Inspection files = inspect(*tiny);
  const Inspection config = inspect(tiny->config());
  ASSERT_EQ(files.classes.size(), config.classes.size());
  for (std::size_t i = 0; i < files.classes.size(); ++i) {
    EXPECT_EQ(files.classes[i].format, config.classes[i].format) << i;
    EXPECT_EQ(files.classes[i].tensors, config.classes[i].tensors) << i;
    EXPECT_EQ(files.classes[i].parameters, config.classes[i].parameters) << i;
    EXPECT_EQ(files.classes[i].bytes, config.classes[i].bytes) << i;
  }
  EXPECT_EQ(files.active_bytes, config.active_bytes);
}

TEST(InspectModel, TakesFoldersWithAndWithoutWeightsAndConfigFiles) {
  const auto tiny = inspect_model(models() / "tessera-tiny");
  ASSERT_TRUE(tiny) << tiny.error().message();
  EXPECT_TRUE(tiny->from_files);
  const ScratchFolder folder;
  std::filesystem::copy_file(models() / "configs" / "kimi-k2.6.json", folder.path() / "config.json");
  for (const auto& path : {folder.path(), models() / "configs" / "kimi-k2.6.json"}) {
    const auto config = inspect_model(path);
    ASSERT_TRUE(config) << config.error().message();
    EXPECT_FALSE(config->from_files);
    EXPECT_EQ(config->tensors, 208'215);
    EXPECT_THAT(inspect_text(*config), HasSubstr("there are no weights beside the config"));
  }
  EXPECT_EQ(inspect_model(folder.path() / "nothing").error().kind, ErrorKind::kNotFound);
}

// A missing tensor is kNotFound too; it must not pass for a folder without weights.
TEST(InspectModel, IncompleteWeightsAreAnErrorNotAReportOfTheConfig) {
  const ScratchFolder folder;
  std::filesystem::copy_file(models() / "configs" / "kimi-k2.6.json", folder.path() / "config.json");
  synthetic::write_file(folder.path() / "model.safetensors", synthetic::safetensors("{}", ""));
  const auto inspection = inspect_model(folder.path());
  ASSERT_FALSE(inspection.ok());
  EXPECT_THAT(inspection.error().message(), HasSubstr("model.embed_tokens.weight"));
  std::filesystem::remove(folder.path() / "model.safetensors");
  synthetic::write_file(folder.path() / "model.safetensors.index.json",
                        R"({"weight_map":{"a":"model-1.safetensors"}})");
  EXPECT_THAT(inspect_model(folder.path()).error().message(), HasSubstr("model-1.safetensors"));
}

TEST(Inspect, TextOfEveryShippedModelHasNoWarning) {
  for (const char* name :
       {"tessera-tiny", "tessera-tiny-eagle3", "tessera-tiny-eagle3-mla", "tessera-tiny-dflash"}) {
    auto checkpoint = Checkpoint::open(models() / name);
    ASSERT_TRUE(checkpoint) << checkpoint.error().message();
    EXPECT_THAT(inspect_text(*checkpoint), ::testing::Not(HasSubstr("warning"))) << name;
  }
}

}  // namespace
}  // namespace tessera
