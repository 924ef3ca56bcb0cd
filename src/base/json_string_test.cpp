#include "base/json_string.h"

#include <gtest/gtest.h>

namespace tessera {
namespace {

std::string repaired(std::string_view raw) {
  std::string out = "before ";
  append_json_unescaped(out, raw);
  return out.substr(7);
}

TEST(JsonString, EveryEscapeStandsForItsCharacter) {
  const std::string_view raw = R"(a\"\\\/\b\f\n\r\t\u0041\u00e9\u20AC\ud83D\uDE00 é)";
  const std::string text = "a\"\\/\b\f\n\r\tA\u00e9\u20ac\U0001F600 é";
  EXPECT_EQ(json_unescaped(raw), text);
  EXPECT_EQ(repaired(raw), text);
  EXPECT_EQ(json_unescaped(""), "");
  EXPECT_EQ(json_unescaped(R"(\u0000)"), std::string(1, '\0'));
}

TEST(JsonString, WhatIsNoEscapeIsRefusedOrReplaced) {
  const struct {
    std::string_view raw, text;
  } cases[] = {
      {R"(x\)", "x\uFFFD"},                           // a backslash at the end
      {R"(\q)", "\uFFFDq"},                           // none of JSON's
      {R"(\é)", "\uFFFDé"},                           // a character of two bytes stays whole
      {R"(\u12)", "\uFFFD12"},                        // too short
      {R"(\u12g4)", "\uFFFD12g4"},                    // no number
      {R"(\u+123)", "\uFFFD+123"},                    // nor this
      {R"(\ud83d)", "\uFFFD"},                        // half a pair, at the end
      {R"(\ud83d\/)", "\uFFFD/"},                     // before another escape
      {R"(\ud83d\u0041)", "\uFFFDA"},                 // before another character
      {R"(\ude00\ud83d)", "\uFFFD\uFFFD"},            // the halves in the wrong order
      {R"(\ud83d\ud83d\ude00)", "\uFFFD\U0001F600"},  // one half too many
      {R"(\ud83d\u)", "\uFFFD\uFFFD"},
  };
  for (const auto& [raw, text] : cases) {
    EXPECT_EQ(json_unescaped(raw), std::nullopt) << raw;
    EXPECT_EQ(repaired(raw), text) << raw;
  }
}

}  // namespace
}  // namespace tessera
