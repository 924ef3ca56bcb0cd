#include "checkpoint/model_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/scratch_folder.h"
#include "checkpoint/synthetic_checkpoint.h"

namespace tessera {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

Json small() { return Json::parse(std::string(synthetic::kSmallConfig) + "}"); }
Json llama() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"vocab_size", 100},
          {"hidden_size", 64},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 4},
          {"num_key_value_heads", 2},
          {"intermediate_size", 128},
          {"max_position_embeddings", 256}};
}
Result<ModelConfig> parse(const Json& json) { return parse_model_config(json.dump(), "config.json"); }

ModelConfig parsed(const Json& json) {
  auto config = parse(json);
  TS_CHECK(config.ok(), config.error().message());
  return *std::move(config);
}

void expect_refused(const Json& json, ErrorKind kind, const std::string& words) {
  const auto config = parse(json);
  ASSERT_FALSE(config.ok()) << json;
  EXPECT_EQ(config.error().kind, kind) << config.error().message();
  EXPECT_THAT(config.error().message(), HasSubstr(words));
  EXPECT_THAT(config.error().message(), HasSubstr("config.json"));
}

TEST(ModelConfig, KimiK26IsReadThroughItsTextConfig) {
  const auto read =
      read_model_config(std::filesystem::path(TESSERA_SOURCE_DIR) / "models/configs/kimi-k2.6.json");
  ASSERT_TRUE(read) << read.error().message();
  const ModelConfig& c = *read;
  EXPECT_EQ(c.architecture, Architecture::kDeepseekV3);
  EXPECT_EQ(c.architecture_name, "KimiK25ForConditionalGeneration");
  EXPECT_EQ(c.model_type, "kimi_k2");
  EXPECT_EQ(c.layers, 61);
  EXPECT_EQ(c.moe.experts, 384);
  EXPECT_EQ(c.moe.first_dense_layers, 1);
  EXPECT_FLOAT_EQ(c.moe.scaling, 2.827F);
  EXPECT_FLOAT_EQ(c.rms_eps, 1e-5F);
  EXPECT_FLOAT_EQ(c.latent_norm_eps, 1e-6F);  // the reference code's, not rms_norm_eps
  ASSERT_TRUE(c.yarn.has_value());
  EXPECT_FLOAT_EQ(c.yarn->factor, 64);
  EXPECT_FLOAT_EQ(c.yarn->beta_fast, 32);
  EXPECT_FLOAT_EQ(c.yarn->mscale_all_dim, 1);
  EXPECT_DOUBLE_EQ(c.rope_theta, 50000);
  EXPECT_THAT(c.end_tokens, ElementsAre(163585, 163586));  // one from each level
  EXPECT_EQ(c.quantisation.scheme, QuantisationScheme::kInt4Group32);
  EXPECT_EQ(c.quantisation.ignore.size(), 6u);
  EXPECT_THAT(c.notes, Contains(HasSubstr("1e-06 as the reference code does")));
}

TEST(ModelConfig, TinyEndsWithBothKimiTokensWhicheverTheConfigNames) {
  const auto tiny = read_model_config(std::filesystem::path(TESSERA_SOURCE_DIR) / "models/tessera-tiny");
  ASSERT_TRUE(tiny) << tiny.error().message();
  EXPECT_THAT(tiny->end_tokens, ElementsAre(4033, 4034));  // [EOS], <|im_end|>
}

TEST(ModelConfig, OuterQuantisationAndTyingAreInherited) {
  Json outer = {{"architectures", {"KimiK25ForConditionalGeneration"}},
                {"text_config", small()},
                {"tie_word_embeddings", true},
                {"quantization_config", {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}}}};
  const ModelConfig config = parsed(outer);
  EXPECT_TRUE(config.tied_embeddings);
  EXPECT_EQ(config.quantisation.scheme, QuantisationScheme::kFp8Block128);
  outer["text_config"]["tie_word_embeddings"] = false;
  EXPECT_FALSE(parsed(outer).tied_embeddings);
}

TEST(ModelConfig, BothSpellingsOfRopeGiveTheSame) {
  Json older = small();
  older["rope_theta"] = 50000.0;
  older["rope_scaling"] = {{"type", "yarn"}, {"factor", 4},   {"original_max_position_embeddings", 128},
                           {"beta_fast", 1}, {"mscale", 1.0}, {"mscale_all_dim", 1.0}};
  Json newer = small();
  newer["rope_parameters"] = older["rope_scaling"];
  newer["rope_parameters"].erase("type");
  newer["rope_parameters"]["rope_type"] = "yarn";
  newer["rope_parameters"]["rope_theta"] = 50000.0;
  for (const Json& json : {older, newer}) {
    const ModelConfig config = parsed(json);
    EXPECT_DOUBLE_EQ(config.rope_theta, 50000);
    ASSERT_TRUE(config.yarn.has_value());
    EXPECT_FLOAT_EQ(config.yarn->beta_fast, 1);
    EXPECT_EQ(config.yarn->original_positions, 128);
  }
}

TEST(ModelConfig, RopeWithoutScalingOrOfOtherKinds) {
  Json json = llama();
  json["rope_scaling"] = nullptr;
  EXPECT_FALSE(parsed(json).yarn || parsed(json).llama3_rope);
  EXPECT_DOUBLE_EQ(parsed(json).rope_theta, 10000);
  json["rope_scaling"] = {{"rope_type", "default"}};
  EXPECT_FALSE(parsed(json).yarn);
  json["rope_scaling"] = {{"rope_type", "llama3"},
                          {"factor", 8.0},
                          {"low_freq_factor", 1.0},
                          {"high_freq_factor", 4.0},
                          {"original_max_position_embeddings", 8192}};
  EXPECT_FLOAT_EQ(parsed(json).llama3_rope->factor, 8);
  json["rope_scaling"]["high_freq_factor"] = 1.0;
  expect_refused(json, ErrorKind::kInvalidArgument, "high_freq_factor");
  json["rope_scaling"] = {{"rope_type", "longrope"}, {"factor", 8.0}};
  expect_refused(json, ErrorKind::kUnsupported, "rope_scaling.rope_type is \"longrope\"");
  json["rope_scaling"] = {{"type", "yarn"}, {"factor", 8.0}};
  expect_refused(json, ErrorKind::kInvalidArgument, "original_max_position_embeddings is missing");
}

TEST(ModelConfig, LlamaAndQwen3Heads) {
  EXPECT_EQ(parsed(llama()).head_dim, 16);
  Json qwen = llama();
  qwen["architectures"] = {"Qwen3ForCausalLM"};
  qwen["head_dim"] = 32;
  EXPECT_EQ(parsed(qwen).head_dim, 32);
  EXPECT_TRUE(parsed(qwen).qk_norm);
  EXPECT_FALSE(parsed(llama()).qk_norm);
  Json odd = llama();
  odd["num_attention_heads"] = 6;
  expect_refused(odd, ErrorKind::kInvalidArgument, "num_attention_heads (6) must divide hidden_size (64)");
  odd = llama();
  odd["num_key_value_heads"] = 3;
  expect_refused(odd, ErrorKind::kInvalidArgument, "num_key_value_heads (3) must divide");
  odd = llama();
  odd["attention_bias"] = true;
  expect_refused(odd, ErrorKind::kUnsupported, "attention_bias is true");
}

TEST(ModelConfig, EndTokensAreANumberOrAListAndMustBeTokens) {
  Json json = small();
  json["eos_token_id"] = {9, 3, 9};
  EXPECT_THAT(parsed(json).end_tokens, ElementsAre(3, 9));
  json["eos_token_id"] = nullptr;
  EXPECT_TRUE(parsed(json).end_tokens.empty());
  json["eos_token_id"] = {3, 48, -1, "x", 1e30};
  EXPECT_THAT(parsed(json).end_tokens, ElementsAre(3));
  EXPECT_THAT(parsed(json).notes, Contains(HasSubstr("eos_token_id 48 is no token")));
}

TEST(ModelConfig, WhatCannotBeComputedIsRefusedByName) {
  const struct {
    const char* key;
    Json value;
  } cases[] = {{"scoring_func", "softmax"},
               {"topk_method", "greedy"},
               {"hidden_act", "gelu"},
               {"moe_layer_freq", 2},
               {"qk_rope_head_dim", 31}};
  for (const auto& [key, value] : cases) {
    Json json = small();
    json[key] = value;
    expect_refused(json, ErrorKind::kUnsupported, key);
  }
  Json json = small();
  json["architectures"] = {"MambaForCausalLM"};
  expect_refused(json, ErrorKind::kUnsupported, "\"MambaForCausalLM\"");
  json["architectures"] = {"evil\nname\x01"};
  const auto evil = parse(json);
  EXPECT_EQ(evil.error().message().find('\n'), std::string::npos);
}

TEST(ModelConfig, NumbersOutOfRangeAreRefusedWithTheRange) {
  for (const char* key :
       {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "kv_lora_rank",
        "moe_intermediate_size", "num_experts_per_tok", "max_position_embeddings"}) {
    for (const Json& value :
         {Json(0), Json(-1), Json(1.5), Json("7"), Json(1e18), Json(18446744073709551615u), Json::array()}) {
      Json json = small();
      json[key] = value;
      expect_refused(json, ErrorKind::kInvalidArgument, key);
    }
    Json json = small();
    json.erase(key);
    expect_refused(json, ErrorKind::kInvalidArgument, std::string(key) + " is missing");
  }
}

TEST(ModelConfig, ExpertCountsMustFitTogether) {
  Json json = small();
  json["num_experts_per_tok"] = 5;
  expect_refused(json, ErrorKind::kInvalidArgument, "5 > 4");
  json = small();
  json["n_group"] = 3;
  expect_refused(json, ErrorKind::kInvalidArgument, "n_group must divide");
  json = small();
  json["n_group"] = 4;
  json["topk_group"] = 1;
  expect_refused(json, ErrorKind::kInvalidArgument, "fewer experts");
  json = small();
  json["n_routed_experts"] = 65536;
  json["num_hidden_layers"] = 4096;
  expect_refused(json, ErrorKind::kTooLarge, "limit");
}

TEST(ModelConfig, QuantisationOtherThanOursIsRefusedByName) {
  const auto with = [](Json quantisation) {
    Json json = small();
    json["quantization_config"] = std::move(quantisation);
    return json;
  };
  expect_refused(with({{"quant_method", "awq"}}), ErrorKind::kUnsupported, "\"awq\"");
  expect_refused(with({{"quant_method", "compressed-tensors"}, {"format", "nvfp4-pack-quantized"}}),
                 ErrorKind::kUnsupported, "nvfp4-pack-quantized");
  expect_refused(with({{"quant_method", "fp8"}}), ErrorKind::kUnsupported, "weight_block_size is absent");
  expect_refused(with({{"quant_method", "fp8"}, {"weight_block_size", {64, 128}}}), ErrorKind::kUnsupported,
                 "[64,128]");
  const auto int4 = [&](const char* key, Json value) {
    Json weights = {
        {"num_bits", 4}, {"type", "int"}, {"symmetric", true}, {"strategy", "group"}, {"group_size", 32}};
    weights[key] = std::move(value);
    return with({{"quant_method", "compressed-tensors"},
                 {"format", "pack-quantized"},
                 {"config_groups", {{"g", {{"targets", {"Linear"}}, {"weights", weights}}}}}});
  };
  EXPECT_TRUE(parse(int4("actorder", nullptr)));
  expect_refused(int4("num_bits", 8), ErrorKind::kUnsupported, "num_bits is 8");
  expect_refused(int4("group_size", 128), ErrorKind::kUnsupported, "group_size is 128");
  expect_refused(int4("symmetric", false), ErrorKind::kUnsupported, "symmetric is false");
  expect_refused(int4("actorder", "group"), ErrorKind::kUnsupported, "actorder");
  expect_refused(int4("strategy", "channel"), ErrorKind::kUnsupported, "\"channel\"");
}

TEST(ModelConfig, StaleQuantisationBesideModelOptIsRefused) {
  const ScratchFolder folder;
  synthetic::write_file(folder.path() / "config.json", small().dump());
  EXPECT_TRUE(read_model_config(folder.path()));
  synthetic::write_file(folder.path() / "hf_quant_config.json", R"({"quantization":{"quant_algo":"NVFP4"}})");
  const auto config = read_model_config(folder.path());
  ASSERT_FALSE(config.ok());
  EXPECT_THAT(config.error().message(), HasSubstr("hf_quant_config.json: quant_algo is \"NVFP4\""));
}

TEST(ModelConfig, DraftsAreToldApartByWhatTheyHold) {
  Json json = llama();
  json["draft_vocab_size"] = 50;
  json["num_hidden_layers"] = 1;
  EXPECT_EQ(parsed(json).architecture, Architecture::kEagle3Llama);
  json["eagle_config"] = {{"eagle_aux_hidden_state_layer_ids", {1, 29, 57}}};
  ModelConfig config = parsed(json);
  EXPECT_EQ(config.draft->aux_source, AuxLayerSource::kEagleConfig);
  EXPECT_THAT(config.draft->aux_layers, ElementsAre(1, 29, 57));
  json["eagle_aux_hidden_state_layer_ids"] = {2, 30, 58};
  config = parsed(json);
  EXPECT_EQ(config.draft->aux_source, AuxLayerSource::kTopLevel);
  EXPECT_THAT(config.draft->aux_layers, ElementsAre(2, 30, 58));
  json["num_hidden_layers"] = 2;
  expect_refused(json, ErrorKind::kUnsupported, "num_hidden_layers");
  Json mla = small();
  mla["architectures"] = {"LlamaForCausalLMEagle3"};
  mla["num_hidden_layers"] = 1;
  EXPECT_EQ(parsed(mla).architecture, Architecture::kEagle3Mla);
  EXPECT_EQ(parsed(mla).moe.experts, 0);
}

TEST(ModelConfig, TextThatIsNoObjectIsCorrupt) {
  for (const char* text : {"", "[]", "{", "nul", "\xff\xfe", "{\"a\":1}x"}) {
    const auto config = parse_model_config(text, "config.json");
    ASSERT_FALSE(config.ok()) << text;
    EXPECT_EQ(config.error().kind, ErrorKind::kCorrupt) << text;
  }
}

}  // namespace
}  // namespace tessera
