#include "tokenizer/unicode/utf8.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <cstdlib>
#include <random>

#include "tokenizer/unicode/characters.h"

namespace tessera {
namespace {

// Expected values are what CPython 3.11 gives for bytes.decode("utf-8", "replace"), U+FFFD written as ?.
TEST(Utf8, RepairsBrokenBytesAsPythonDoes) {
  const auto repaired = [](std::string_view text) {
    std::string out;
    for (const char32_t point : utf8_to_points(text)) {
      if (point == U'\uFFFD') {
        out += '?';
      } else {
        append_utf8(out, point);
      }
    }
    return out;
  };
  EXPECT_EQ(repaired("a\xE4\xB8z"), "a?z");
  EXPECT_EQ(repaired("\xED\xA0\x80"), "???");
  EXPECT_EQ(repaired("\xF0\x80\x80\x80"), "????");
  EXPECT_EQ(repaired("\xF0\x9F\x98"), "?");
  EXPECT_EQ(repaired("\xF0\x9F\x98\xF0\x9F\x98\x80"), "?\xF0\x9F\x98\x80");
  EXPECT_EQ(repaired("\xC0\xAF\xFE\xFF"), "????");
  EXPECT_EQ(repaired("\xF4\x90\x80\x80"), "????");
  EXPECT_EQ(repaired("\xE1\x80\xC3\xA9\x80"), "?\xC3\xA9?");
}

TEST(Utf8, StreamedRepairEqualsRepairOfTheWholeForEveryCut) {
  std::mt19937 random(7);
  const std::string_view alphabet = "a\xC3\xA9\xE4\xB8\xAD\xF0\x9F\x98\x80\xED\xA0\xFF\xF4\x90\x80";
  for (int round = 0; round < 3000; ++round) {
    std::string text;
    for (auto left = random() % 14; left > 0; --left) text += alphabet[random() % alphabet.size()];
    std::string streamed;
    Utf8Repair repair;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t bytes = 1 + random() % 4;
      repair.push(std::string_view(text).substr(at, bytes), streamed);
      EXPECT_TRUE(is_utf8(streamed));
      at += bytes;
    }
    streamed += repair.flush();
    ASSERT_EQ(streamed, repair_utf8(text)) << "round " << round;
    ASSERT_EQ(streamed, points_to_utf8(utf8_to_points(text))) << "round " << round;
  }
}

TEST(Utf8, FlushOfAFinishedStreamIsEmpty) {
  Utf8Repair repair;
  std::string out;
  repair.push("\xE4\xB8", out);
  EXPECT_EQ(repair.held_bytes(), 2U);
  repair.push("\xAD", out);
  EXPECT_EQ(out, "\xE4\xB8\xAD");
  EXPECT_EQ(repair.flush(), "");
}

TEST(Characters, SpaceIsPythonsSpace) {
  EXPECT_TRUE(is_python_space(0x1C));
  EXPECT_TRUE(is_python_space(0x85));
  EXPECT_TRUE(is_python_space(0x3000));
  EXPECT_FALSE(is_python_space(0x200B));
  EXPECT_FALSE(is_python_space(0x180E));
  EXPECT_FALSE(is_python_space('a'));
}

TEST(Characters, CaseMappingsGoBeyondAscii) {
  EXPECT_EQ(to_upper("straße é я"), "STRASSE É Я");
  EXPECT_EQ(to_lower("ÀÉ Я ABC"), "àé я abc");
  EXPECT_EQ(to_title("they're bill's ǆ x1y"), "They'Re Bill'S ǅ X1Y");
}

TEST(Characters, NfcComposesAndOrdersMarks) {
  EXPECT_EQ(to_nfc("e\xCC\x81"), "\xC3\xA9");
  EXPECT_EQ(to_nfc("plain"), "plain");
  EXPECT_EQ(to_nfc("\xE1\x84\x80\xE1\x85\xA1"), "\xEA\xB0\x80");
}

// utf8proc's own composition judges, on texts short enough for its quadratic ordering of marks.
TEST(Characters, NfcIsWhatUtf8procComposes) {
  const std::u32string alphabet =
      U"ae\u0301\u0316\u0327\u0344\u0f71\u0f73\u0f80\u1100\u1161\u11a8\u00e9\u1f82\u212b\u0340\u4e2d";
  for (std::uint32_t seed = 1; seed <= 2'000; ++seed) {
    std::mt19937 random(seed);
    std::u32string points;
    for (std::size_t n = random() % 12; n > 0; --n) points += alphabet[random() % alphabet.size()];
    const std::string text = points_to_utf8(points);
    utf8proc_uint8_t* made = utf8proc_NFC(reinterpret_cast<const utf8proc_uint8_t*>(text.c_str()));
    const std::string expected(reinterpret_cast<const char*>(made));
    std::free(made);
    ASSERT_EQ(to_nfc(text), expected) << "seed " << seed;
  }
}

// Ordered by swapping neighbours, as utf8proc does it, this takes hours.
TEST(Characters, MillionsOfMarksInTheWrongOrderAreOrdered) {
  std::string text = "a";
  std::string expected = "a";
  constexpr int kPairs = 1'000'000;
  for (int i = 0; i < kPairs; ++i) text += "\xCC\x88\xCC\x96";  // above (class 230), below (220)
  for (int i = 0; i < kPairs; ++i) expected += "\xCC\x96";
  expected.replace(0, 1, "\xC3\xA4");  // the first mark above composes
  for (int i = 1; i < kPairs; ++i) expected += "\xCC\x88";
  EXPECT_TRUE(to_nfc(text) == expected);
  std::string vowels;  // one point of class 0 that decomposes to marks of two classes
  for (int i = 0; i < kPairs; ++i) vowels += "\xE0\xBD\xB3";
  EXPECT_EQ(to_nfc(vowels).size(), 2U * 3U * kPairs);
}

TEST(Characters, WhatReprEscapesIsNotPrintable) {
  EXPECT_TRUE(is_python_printable(U'é'));
  EXPECT_TRUE(is_python_printable(U'😀'));
  EXPECT_FALSE(is_python_printable(0xA0));
  EXPECT_FALSE(is_python_printable(0x200B));
  EXPECT_FALSE(is_python_printable(0xE000));
}

}  // namespace
}  // namespace tessera
