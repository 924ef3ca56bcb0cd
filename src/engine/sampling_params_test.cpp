#include "engine/sampling_params.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <string>

namespace tessera {
namespace {

using ::testing::HasSubstr;
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInf = std::numeric_limits<float>::infinity();

struct Refusal {
  std::function<void(SamplingParams&)> change;
  std::string expected;  // part of the sentence
};

TEST(SamplingParams, AcceptsItsDefaultsAndTheEdgesOfEachRange) {
  EXPECT_TRUE(SamplingParams{}.validate(10).ok());
  SamplingParams edges;
  edges.temperature = 0;
  edges.top_p = 1e-6F;
  edges.top_k = -1;
  edges.min_p = 1;
  edges.presence_penalty = -2;
  edges.frequency_penalty = 2;
  edges.repetition_penalty = 1e-3F;
  edges.logit_bias = {{0, -100.0F}, {9, 100.0F}};
  edges.max_tokens = 0;
  edges.stop_token_ids = {0, 9};
  edges.logprobs = 20;
  edges.prompt_logprobs = 0;
  EXPECT_TRUE(edges.validate(10).ok());
}

TEST(SamplingParams, RefusesWithFieldValueAndRange) {
  const Refusal refusals[] = {
      {[](auto& p) { p.temperature = -0.5F; }, "temperature is -0.5, but must be finite and at least 0"},
      {[](auto& p) { p.temperature = kNan; }, "temperature is nan"},
      {[](auto& p) { p.temperature = kInf; }, "temperature is inf"},
      {[](auto& p) { p.top_p = 0; }, "top_p is 0, but must be above 0 and at most 1"},
      {[](auto& p) { p.top_p = 1.5F; }, "top_p is 1.5"},
      {[](auto& p) { p.top_p = kNan; }, "top_p is nan"},
      {[](auto& p) { p.top_k = -2; }, "top_k is -2"},
      {[](auto& p) { p.min_p = -0.1F; }, "min_p is -0.1"},
      {[](auto& p) { p.min_p = kNan; }, "min_p is nan"},
      {[](auto& p) { p.presence_penalty = 2.1F; }, "presence_penalty is 2.1, but must be from -2 to 2"},
      {[](auto& p) { p.frequency_penalty = -3; }, "frequency_penalty is -3"},
      {[](auto& p) { p.repetition_penalty = 0; }, "repetition_penalty is 0"},
      {[](auto& p) { p.repetition_penalty = kInf; }, "repetition_penalty is inf"},
      {[](auto& p) {
         p.logit_bias = {{10, 1.0F}};
       },
       "logit_bias is 10, but must be a token id from 0 to 9"},
      {[](auto& p) {
         p.logit_bias = {{-1, 1.0F}};
       },
       "logit_bias is -1"},
      {[](auto& p) {
         p.logit_bias = {{3, 101.0F}};
       },
       "the logit_bias of token 3 is 101"},
      {[](auto& p) {
         p.logit_bias = {{3, kNan}};
       },
       "the logit_bias of token 3 is nan"},
      {[](auto& p) { p.logit_bias.resize(1025); }, "1025, but must be at most 1024"},
      {[](auto& p) { p.max_tokens = -1; }, "max_tokens is -1"},
      {[](auto& p) { p.min_tokens = -1; }, "min_tokens is -1"},
      {[](auto& p) { p.min_tokens = 17; }, "min_tokens is 17, but must be at most max_tokens, which is 16"},
      {[](auto& p) { p.stop_token_ids = {10}; }, "stop_token_ids is 10"},
      {[](auto& p) { p.stop_token_ids.resize(1025); }, "1025"},
      {[](auto& p) { p.logprobs = 21; }, "logprobs is 21, but must be from 0 to 20"},
      {[](auto& p) { p.logprobs = -1; }, "logprobs is -1"},
      {[](auto& p) { p.prompt_logprobs = -1; }, "prompt_logprobs is -1, but must be from 0 to 20"},
      {[](auto& p) { p.prompt_logprobs = 1000000; }, "prompt_logprobs is 1000000"},
  };
  for (const Refusal& refusal : refusals) {
    SamplingParams params;
    refusal.change(params);
    const auto checked = params.validate(10);
    ASSERT_FALSE(checked.ok()) << refusal.expected;
    EXPECT_EQ(checked.error().kind, ErrorKind::kInvalidArgument);
    EXPECT_THAT(checked.error().what, HasSubstr(refusal.expected));
  }
}

}  // namespace
}  // namespace tessera
