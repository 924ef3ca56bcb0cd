#include "speculative/speculative_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace tessera {
namespace {

using testing::HasSubstr;

ModelConfig config_of(const std::string& name) {
  auto config = read_model_config(std::string(TESSERA_SOURCE_DIR) + "/models/" + name);
  EXPECT_TRUE(config.ok());
  return *std::move(config);
}

std::string refusal(const std::string& json) {
  const auto config = parse_speculative_config(json);
  return config.ok() ? "accepted" : config.error().message();
}

SpeculativeConfig parsed(const std::string& json) {
  auto config = parse_speculative_config(json);
  EXPECT_TRUE(config.ok()) << config.error().message();
  return config.ok() ? *std::move(config) : SpeculativeConfig{};
}

std::string refusal(const std::string& json, const ModelConfig& target, const ModelConfig* draft,
                    std::int32_t ranks = 1) {
  const auto config = resolve_speculation(parsed(json), target, draft, ranks);
  return config.ok() ? "accepted" : config.error().message();
}

constexpr const char* kEagle = R"({"method":"eagle3","model":"d","num_speculative_tokens":3})";

TEST(SpeculativeConfig, ReadsTheKeysOfVllm) {
  const SpeculativeConfig config = parsed(
      R"({"method":"eagle3","model":"d","num_speculative_tokens":3,"draft_attention_backend":"TRITON_MLA",
          "draft_kv_cache_dtype":"fp8","draft_tensor_parallel_size":1,"rejection_sample_method":"probabilistic",
          "disable_by_batch_size":32,"max_model_len":4096})");
  EXPECT_EQ(config.method, SpeculativeMethod::kEagle3);
  EXPECT_EQ(config.model, "d");
  EXPECT_EQ(config.num_speculative_tokens, 3);
  EXPECT_EQ(config.draft_kv_format, KvFormat::kFp8);
  EXPECT_EQ(config.draft_tensor_parallel_size, 1);
  EXPECT_TRUE(config.draws_drafts);
  EXPECT_FALSE(config.local_argmax);
  EXPECT_EQ(config.disable_by_batch_size, 32);
  EXPECT_EQ(config.draft_max_model_len, 4096);
  EXPECT_EQ(config.draft_attention_backend, "TRITON_MLA");
  EXPECT_THAT(config.notes, testing::ElementsAre(HasSubstr("draft_attention_backend")));
}

TEST(SpeculativeConfig, DraftsAreChosenByLocalArgmaxUnlessAskedOtherwise) {
  const SpeculativeConfig config = parsed(kEagle);
  EXPECT_FALSE(config.draws_drafts);
  EXPECT_TRUE(config.local_argmax);
  EXPECT_TRUE(config.adaptive);
  EXPECT_FALSE(config.draft_kv_format.has_value());
  EXPECT_FALSE(parsed(R"({"model":"d","use_local_argmax_reduction":false})").local_argmax);
  EXPECT_FALSE(parsed(R"({"model":"d","rejection_sample_method":"standard"})").draws_drafts);
  EXPECT_TRUE(parsed(R"({"model":"d","draft_sample_method":"probabilistic"})").draws_drafts);
}

TEST(SpeculativeConfig, KeysThatMeanNothingHereGetANote) {
  EXPECT_THAT(parsed(R"({"model":"d","enforce_eager":true,"revision":"x"})").notes,
              testing::UnorderedElementsAre(HasSubstr("enforce_eager has no effect"), HasSubstr("revision")));
}

TEST(SpeculativeConfig, RefusesWhatItCannotRead) {
  EXPECT_THAT(refusal("eagle3"), HasSubstr("no JSON object"));
  EXPECT_THAT(refusal("[]"), HasSubstr("no JSON object"));
  EXPECT_THAT(refusal(R"({"method":"eagle3","model":"d","num_speculative_token":3})"),
              HasSubstr("did you mean num_speculative_tokens?"));
  EXPECT_THAT(refusal(R"({"model":"d","zzzzzzzz":3})"), HasSubstr("which is unknown."));
  EXPECT_THAT(refusal(R"({"method":"medusa","model":"d"})"),
              HasSubstr(R"(method is "medusa"; supported: eagle3, dflash, draft_model, ngram)"));
  EXPECT_THAT(refusal("{}"), HasSubstr("neither a method nor a model"));
  EXPECT_THAT(refusal(R"({"method":"dflash"})"), HasSubstr("method is dflash, which needs a model"));
  EXPECT_THAT(refusal(R"({"method":"ngram","model":"d"})"), HasSubstr("uses no model"));
  EXPECT_THAT(refusal(R"({"model":"d","num_speculative_tokens":0})"), HasSubstr("from 1 to 128"));
  EXPECT_THAT(refusal(R"({"model":"d","num_speculative_tokens":"3"})"), HasSubstr("whole number"));
  EXPECT_THAT(refusal(R"({"model":"d","draft_kv_cache_dtype":"int3"})"), HasSubstr("fp8_ds_mla"));
  EXPECT_THAT(refusal(R"({"model":"d","rejection_sample_method":"synthetic"})"),
              HasSubstr("supported: standard"));
  EXPECT_THAT(
      refusal(R"({"model":"d","rejection_sample_method":"probabilistic","draft_sample_method":"greedy"})"),
      HasSubstr("rejection_sample_method is probabilistic, but draft_sample_method is greedy"));
  EXPECT_THAT(
      refusal(R"({"model":"d","rejection_sample_method":"probabilistic","use_local_argmax_reduction":true})"),
      HasSubstr("need all logits"));
  EXPECT_THAT(refusal(R"({"method":"ngram","prompt_lookup_min":5,"prompt_lookup_max":2})"),
              HasSubstr("prompt_lookup_min (5) is over prompt_lookup_max (2)"));
}

TEST(ResolveSpeculation, TheShippedDraftsFitTheShippedModel) {
  const ModelConfig target = config_of("tessera-tiny");
  for (const char* name : {"tessera-tiny-eagle3", "tessera-tiny-eagle3-mla"}) {
    const ModelConfig draft = config_of(name);
    const auto config =
        resolve_speculation(parsed(R"({"model":"d","num_speculative_tokens":3})"), target, &draft, 4);
    ASSERT_TRUE(config.ok()) << config.error().message();
    EXPECT_EQ(config->method, SpeculativeMethod::kEagle3);
  }
  const ModelConfig block = config_of("tessera-tiny-dflash");
  const auto config = resolve_speculation(parsed(R"({"model":"d"})"), target, &block, 1);
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->method, SpeculativeMethod::kDFlash);
  EXPECT_EQ(config->num_speculative_tokens, 7) << "a block of 8";
  const auto own =
      resolve_speculation(parsed(R"({"model":"d","num_speculative_tokens":2})"), target, &target, 1);
  ASSERT_TRUE(own.ok());
  EXPECT_EQ(own->method, SpeculativeMethod::kDraftModel);
  const auto ngram =
      resolve_speculation(parsed(R"({"method":"ngram","num_speculative_tokens":2})"), target, nullptr, 1);
  ASSERT_TRUE(ngram.ok());
  EXPECT_EQ(ngram->prompt_lookup_min, 1);
  EXPECT_EQ(ngram->prompt_lookup_max, 3);
}

TEST(ResolveSpeculation, RefusalsNameBothSides) {
  const ModelConfig target = config_of("tessera-tiny");
  const ModelConfig draft = config_of("tessera-tiny-eagle3");
  const ModelConfig block = config_of("tessera-tiny-dflash");

  ModelConfig other = target;
  other.vocab = 163840;
  other.architecture_name = "KimiK25ForConditionalGeneration";
  EXPECT_THAT(
      refusal(kEagle, other, &draft),
      HasSubstr("(LlamaForCausalLMEagle3) has vocab_size 4096, the target (KimiK25ForConditionalGeneration) "
                "has 163840"));
  EXPECT_THAT(refusal(R"({"model":"d","num_speculative_tokens":2})", target, &other), HasSubstr("163840"));

  other = target;
  other.hidden = 512;
  EXPECT_THAT(refusal(kEagle, other, &draft), HasSubstr("hidden states of width 256"));
  EXPECT_THAT(refusal(kEagle, other, &draft), HasSubstr("has 512"));

  other = target;
  other.layers = 3;
  EXPECT_THAT(refusal(kEagle, other, &draft), HasSubstr("3 layers, 0 to 2"));
  EXPECT_THAT(refusal(R"({"model":"d"})", other, &block), HasSubstr("num_target_layers 5"));

  EXPECT_THAT(refusal(R"({"method":"dflash","model":"d","num_speculative_tokens":3})", target, &draft),
              HasSubstr("method is dflash, but LlamaForCausalLMEagle3 is of the method eagle3"));
  EXPECT_THAT(refusal(R"({"method":"draft_model","model":"d","num_speculative_tokens":3})", target, &draft),
              HasSubstr("its method is eagle3"));
  EXPECT_THAT(refusal(kEagle, target, &target), HasSubstr("Use the method draft_model"));
}

TEST(ResolveSpeculation, RefusesMoreDraftsThanTheMethodAllows) {
  const ModelConfig target = config_of("tessera-tiny");
  const ModelConfig draft = config_of("tessera-tiny-eagle3");
  ModelConfig block = config_of("tessera-tiny-dflash");
  EXPECT_THAT(refusal(R"({"model":"d","num_speculative_tokens":8})", target, &draft), HasSubstr("at most 7"));
  EXPECT_THAT(refusal(R"({"model":"d"})", target, &draft), HasSubstr("num_speculative_tokens is missing"));
  block.draft->block_size = 4;
  EXPECT_THAT(refusal(R"({"model":"d","num_speculative_tokens":4})", target, &block),
              HasSubstr("a block of DFlashDraftModel is 4 tokens, of which the first is known: at most 3"));
  block.draft->block_size = 16;
  const auto config = resolve_speculation(parsed(R"({"model":"d"})"), target, &block, 1);
  ASSERT_TRUE(config.ok());
  EXPECT_EQ(config->num_speculative_tokens, 7) << "a step verifies no more";
}

TEST(ResolveSpeculation, RefusesCachesAndRanksThatCannotBe) {
  const ModelConfig target = config_of("tessera-tiny");
  const ModelConfig draft = config_of("tessera-tiny-eagle3");
  const ModelConfig mla = config_of("tessera-tiny-eagle3-mla");
  const std::string grouped =
      R"({"model":"d","num_speculative_tokens":1,"draft_kv_cache_dtype":"fp8_ds_mla"})";
  EXPECT_THAT(refusal(grouped, target, &draft), HasSubstr("keys and values for each head"));
  EXPECT_EQ(refusal(grouped, target, &mla), "accepted");
  const std::string two = R"({"model":"d","num_speculative_tokens":1,"draft_tensor_parallel_size":2})";
  EXPECT_THAT(refusal(two, target, &draft, 4), HasSubstr("draft_tensor_parallel_size is 2"));
  EXPECT_EQ(refusal(two, target, &draft, 2), "accepted");
  EXPECT_THAT(
      refusal(R"({"method":"ngram","num_speculative_tokens":1,"draft_sample_method":"probabilistic"})",
              target, nullptr),
      HasSubstr("no distribution to draw from"));
}

TEST(ResolveSpeculation, ADraftWithFewerPositionsIsNoted) {
  const ModelConfig target = config_of("tessera-tiny");
  ModelConfig draft = config_of("tessera-tiny-eagle3");
  draft.max_positions = 100;
  const auto config = resolve_speculation(parsed(kEagle), target, &draft, 1);
  ASSERT_TRUE(config.ok());
  EXPECT_THAT(config->notes, testing::ElementsAre(HasSubstr("knows 100 positions, the target 8192")));
}

}  // namespace
}  // namespace tessera
