#include "model/rope.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tessera {
namespace {

ModelConfig kimi(float factor, float beta_fast) {
  ModelConfig config;
  config.rope_theta = 50000;
  config.mla = {.q_lora_rank = 1536, .kv_lora_rank = 512, .nope_dim = 128, .rope_dim = 64, .v_dim = 128};
  config.yarn = YarnScaling{.factor = factor,
                            .original_positions = 4096,
                            .beta_fast = beta_fast,
                            .beta_slow = 1,
                            .mscale = 1,
                            .mscale_all_dim = 1};
  return config;
}

void expect_close(float got, double want) {
  EXPECT_NEAR(got / want, 1.0, 1e-6) << got << " against " << want;
}

TEST(Rope, KimiK25FrequenciesRampOverPairs8To20) {
  const auto f = rope_frequencies(kimi(64, 32));
  ASSERT_EQ(f.size(), 32u);
  expect_close(f[0], 1.0);
  expect_close(f[7], 9.377785861e-02);
  expect_close(f[8], 6.687403050e-02);
  expect_close(f[9], 4.377665595e-02);
  expect_close(f[15], 2.670203391e-03);
  expect_close(f[19], 1.583749910e-04);
  expect_close(f[20], 1.807023387e-05);
  expect_close(f[31], 4.382206456e-07);
}

TEST(Rope, EqualBetasMakeAStepAtPair20) {
  const auto k2_0905 = rope_frequencies(kimi(64, 1));
  expect_close(k2_0905[19], 1.621759908e-03);
  expect_close(k2_0905[20], 1.807023387e-05);
  const auto k2_instruct = rope_frequencies(kimi(32, 1));
  expect_close(k2_instruct[20], 3.614046774e-05);
  expect_close(k2_instruct[31], 8.764412912e-07);
}

TEST(Rope, SoftmaxScaleCarriesTheSquaredMscaleAndCosSinDoNot) {
  expect_close(softmax_scale(kimi(64, 32)), 0.14467962580);
  expect_close(softmax_scale(kimi(32, 1)), 0.13086079996);
  EXPECT_EQ(rope_multiplier(kimi(64, 32)), 1.0F);
  ModelConfig plain = kimi(64, 32);
  plain.yarn.reset();
  expect_close(softmax_scale(plain), 0.07216878365);
}

TEST(Rope, Llama3ScalingKeepsFastPairsAndDividesSlowOnes) {
  ModelConfig config;
  config.architecture = Architecture::kLlama;
  config.rope_theta = 500000;
  config.head_dim = 128;
  const auto plain = rope_frequencies(config);
  config.llama3_rope =
      Llama3Scaling{.factor = 8, .low_freq_factor = 1, .high_freq_factor = 4, .original_positions = 8192};
  const auto scaled = rope_frequencies(config);
  EXPECT_EQ(scaled[0], plain[0]);
  expect_close(scaled[63], plain[63] / 8.0);
  EXPECT_TRUE(std::is_sorted(scaled.rbegin(), scaled.rend()));
}

}  // namespace
}  // namespace tessera
