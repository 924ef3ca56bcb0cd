// How much a text repeats itself: looped output is cheap to predict and to draft for, and measures nothing.
#pragma once

#include <string_view>

namespace tessera::bench {

// Distinct pairs of neighbouring words over all pairs, averaged over stretches of 128 words (a longer stretch
// of anybody's prose repeats more); characters stand for words in text without blanks. 1 for less than two
// words. English prose has 0.97 and more, a sentence that goes round in circles below 0.2.
double distinct_bigram_ratio(std::string_view text);
inline constexpr double kDegenerateBelow = 0.5;

}  // namespace tessera::bench
