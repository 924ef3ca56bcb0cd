#include "bench/load/repetition.h"

#include <gmock/gmock.h>

#include <string>

#include "bench/load/default_text.h"

namespace tessera::bench {
namespace {

TEST(Repetition, ProseHasHardlyAnyRepeatedPairs) {
  for (const std::size_t from : {1000u, 200'000u, 700'000u})
    EXPECT_GT(distinct_bigram_ratio(default_text().substr(from, 20'000)), 0.9);
}

TEST(Repetition, LoopsAreSeen) {
  std::string two, sentence, chinese;
  for (int i = 0; i < 400; ++i) {
    two += "yes no ";
    sentence += "And then the captain went on board again. ";
    chinese += "\u4f60\u597d";
  }
  for (const std::string& text : {two, sentence, chinese, std::string(500, 'a')})
    EXPECT_LT(distinct_bigram_ratio(text), 0.2) << text.substr(0, 40);
}

TEST(Repetition, ALongTextIsNoMoreRepetitiveThanAShortOne) {
  EXPECT_NEAR(distinct_bigram_ratio(default_text().substr(1000, 400'000)),
              distinct_bigram_ratio(default_text().substr(1000, 20'000)), 0.03);
}

TEST(Repetition, NothingRepeatsNothing) {
  EXPECT_EQ(distinct_bigram_ratio(""), 1);
  EXPECT_EQ(distinct_bigram_ratio("one"), 1);
}

}  // namespace
}  // namespace tessera::bench
