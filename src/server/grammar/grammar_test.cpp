#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "server/grammar/grammar_matcher.h"
#include "server/grammar/schema_compiler.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;

// A vocabulary of all bytes and some longer texts that cross JSON's borders.
const std::vector<std::string>& texts() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> out;
    for (int byte = 0; byte < 256; ++byte) out.emplace_back(1, static_cast<char>(byte));
    for (const char* text : {"{\"", "\":", "\", \"", "\"}", "},{", "true", "null", "name", "  ", "\n  ", "12",
                             ".5", "é", "name"}) {
      out.emplace_back(text);
    }
    return out;
  }();
  return all;
}

struct Matcher {
  explicit Matcher(const Json& schema) : trie({texts().begin(), texts().end()}) {
    auto grammar = schema.is_null() ? Result<ByteGrammar>(any_json_object()) : compile_schema(schema);
    TS_CHECK(grammar.ok(), grammar.ok() ? "" : grammar.error().message());
    matcher = std::make_unique<GrammarMatcher>(*std::move(grammar), trie);
  }
  bool takes(std::string_view text) {
    const auto state = matcher->read(matcher->start(), text);
    return state != GrammarMatcher::kDead && matcher->may_end(state);
  }
  bool begins(std::string_view text) {
    return matcher->read(matcher->start(), text) != GrammarMatcher::kDead;
  }

  TokenTrie trie;
  std::unique_ptr<GrammarMatcher> matcher;
};

Json schema(const char* text) { return Json::parse(text); }

Error refusal(const char* text) {
  auto made = compile_schema(schema(text));
  return made ? Error{ErrorKind::kInternal, "", "accepted"} : made.error();
}

TEST(Schema, ObjectTakesItsPropertiesInOrderAndSkipsOptionalOnes) {
  Matcher m(schema(
      R"({"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"},"c":{"type":"null"}},
                       "required":["b"]})"));
  EXPECT_TRUE(m.takes(R"({"a":1,"b":"x","c":null})"));
  EXPECT_TRUE(m.takes(R"({"b":""})"));
  EXPECT_TRUE(m.takes("{\n  \"a\": -7,\n  \"b\": \"x\"\n}"));
  EXPECT_FALSE(m.takes(R"({"a":1})"));
  EXPECT_FALSE(m.takes(R"({"b":"x","a":1})"));
  EXPECT_FALSE(m.takes(R"({"b":"x",})"));
  EXPECT_FALSE(m.takes(R"({,"b":"x"})"));
  EXPECT_FALSE(m.takes(R"({"b":"x","d":1})"));
}

TEST(Schema, AllOptionalMayBeEmpty) {
  Matcher m(schema(R"({"type":"object","properties":{"a":{},"b":{}}})"));
  EXPECT_TRUE(m.takes("{}"));
  EXPECT_TRUE(m.takes(R"({"b":[1,{"x":[]}]})"));
}

TEST(Schema, AdditionalPropertiesCannotRepeatADeclaredName) {
  Matcher m(schema(
      R"({"properties":{"name":{"type":"string"}},"required":["name"],"additionalProperties":{"type":"integer"}})"));
  EXPECT_TRUE(m.takes(R"({"name":"x","other":1,"nam":2,"names":3,"":4})"));
  EXPECT_FALSE(m.takes(R"({"name":"x","name":1})"));
  EXPECT_FALSE(m.takes(R"({"name":"x","na\u006de":1})"));
  EXPECT_FALSE(m.takes(R"({"name":"x","other":"1"})"));
}

TEST(Schema, ArrayLengthIsWithinItsBounds) {
  Matcher m(schema(R"({"type":"array","items":{"type":"boolean"},"minItems":1,"maxItems":3})"));
  EXPECT_FALSE(m.takes("[]"));
  EXPECT_TRUE(m.takes("[true]"));
  EXPECT_TRUE(m.takes("[true, false,true]"));
  EXPECT_FALSE(m.takes("[true,true,true,true]"));
  Matcher open(schema(R"({"type":"array","items":{"type":"integer"},"minItems":2})"));
  EXPECT_FALSE(open.takes("[1]"));
  EXPECT_TRUE(open.takes("[1,2,3,4,5]"));
  Matcher none(schema(R"({"type":"array","maxItems":0})"));
  EXPECT_TRUE(none.takes("[]"));
  EXPECT_FALSE(none.begins("[1"));
}

TEST(Schema, StringLengthCountsCodePoints) {
  Matcher m(schema(R"({"type":"string","minLength":2,"maxLength":3})"));
  EXPECT_FALSE(m.takes(R"("a")"));
  EXPECT_TRUE(m.takes("\"\u00e9\U0001F999\""));
  EXPECT_TRUE(m.takes(R"("\n\ud83e\udd99x")"));
  EXPECT_FALSE(m.takes(R"("abcd")"));
}

TEST(Schema, StringsAreWhatParsersTake) {
  Matcher m(schema(R"({"type":"string"})"));
  EXPECT_FALSE(m.begins("\"\x01"));
  EXPECT_FALSE(m.begins("\"\n"));
  EXPECT_FALSE(m.begins("\"\xc0\xaf"));      // overlong
  EXPECT_FALSE(m.begins("\"\xed\xa0\x80"));  // surrogate
  EXPECT_FALSE(m.begins("\"\xf4\x90"));      // beyond U+10FFFF
  EXPECT_FALSE(m.begins("\"\\x"));
  EXPECT_FALSE(m.begins("\"\\udc00"));
  EXPECT_FALSE(m.begins("\"\\ud800\\n"));
  EXPECT_FALSE(m.begins("\"\\ud800x"));
}

TEST(Schema, NumbersAreWhatParsersTake) {
  Matcher m(schema(R"({"type":"number"})"));
  for (const char* good : {"0", "-0", "10", "3.25", "-1e5", "2E-10", "1.0e+99"})
    EXPECT_TRUE(m.takes(good)) << good;
  for (const char* bad : {"01", "-", "1.", ".5", "1e", "+1", "0x1", "1e100"})
    EXPECT_FALSE(m.takes(bad)) << bad;
  EXPECT_FALSE(m.begins("1234567890123456789"));
}

TEST(Schema, EnumConstAnyOfAndTypeLists) {
  Matcher m(schema(R"({"type":"object","properties":{"e":{"enum":["a",1,null,{"k":[2]}]},"c":{"const":"x\"y"},
                       "u":{"anyOf":[{"type":"string"},{"type":"array","items":{"type":"integer"}}]},
                       "t":{"type":["integer","null"]}},"required":["e","c","u","t"]})"));
  EXPECT_TRUE(m.takes(R"({"e":{"k":[2]},"c":"x\"y","u":[1],"t":null})"));
  EXPECT_TRUE(m.takes(R"({"e":1,"c":"x\"y","u":"s","t":5})"));
  EXPECT_FALSE(m.begins(R"({"e":2)"));
  EXPECT_FALSE(m.begins(R"({"e":"a","c":"z)"));
}

TEST(Schema, RecursionThroughRefs) {
  Matcher m(
      schema(R"({"$ref":"#/$defs/node","$defs":{"node":{"type":"object","properties":{"v":{"type":"integer"},
                       "next":{"anyOf":[{"$ref":"#/$defs/node"},{"type":"null"}]}},"required":["v","next"]}}})"));
  EXPECT_TRUE(m.takes(R"({"v":1,"next":{"v":2,"next":null}})"));
  EXPECT_FALSE(m.takes(R"({"v":1,"next":{"v":2}})"));
}

TEST(Schema, RefusesByNameWhatItDoesNotEnforce) {
  EXPECT_THAT(refusal(R"({"type":"string","pattern":"^a"})").what, testing::HasSubstr("'pattern'"));
  EXPECT_THAT(refusal(R"({"type":"object","properties":{"x":{"type":"integer","minimum":3}}})").where,
              testing::HasSubstr("/properties/x/minimum"));
  EXPECT_THAT(refusal(R"({"oneOf":[{"type":"string"}]})").what, testing::HasSubstr("'oneOf'"));
  EXPECT_THAT(refusal(R"({"anyOf":[{"type":"string"}],"properties":{}})").what,
              testing::HasSubstr("'properties'"));
  EXPECT_THAT(refusal(R"({"type":"strin"})").what, testing::HasSubstr("strin"));
  EXPECT_THAT(refusal(R"({"required":["a"]})").what, testing::HasSubstr("'a'"));
  EXPECT_THAT(refusal(R"({"$ref":"#/nowhere"})").what, testing::HasSubstr("nowhere"));
  EXPECT_THAT(refusal(R"({"$ref":"http://x/y"})").what, testing::HasSubstr("within the schema"));
  EXPECT_THAT(refusal(R"({"enum":[]})").what, testing::HasSubstr("None"));
  EXPECT_THAT(refusal(R"([1])").what, testing::HasSubstr("object"));
}

TEST(Schema, RefusesWhatNoFiniteTextSatisfies) {
  EXPECT_THAT(refusal(R"({"type":"object","properties":{"x":{"$ref":"#"}},"required":["x"]})").what,
              testing::HasSubstr("finite"));
  EXPECT_THAT(refusal(R"({"anyOf":[{"$ref":"#"},{"type":"string"}]})").what,
              testing::HasSubstr("begins with itself"));
  EXPECT_THAT(refusal(R"({"$ref":"#"})").what, testing::HasSubstr("finite"));
}

TEST(Schema, BlanksAreBounded) {
  Matcher m(nullptr);
  EXPECT_FALSE(m.begins("  "));
  EXPECT_FALSE(m.begins(" {"));
  EXPECT_FALSE(m.begins("{  "));
  EXPECT_FALSE(m.begins("{\"a\":1\n\n"));
  EXPECT_FALSE(m.begins("{\n" + std::string(17, ' ')));
  EXPECT_FALSE(m.begins("{} "));
}

TEST(Matcher, MaskAgreesWithReadingEachToken) {
  Matcher m(schema(
      R"({"type":"object","properties":{"name":{"type":"string"},"n":{"type":"number"}},"required":["name"]})"));
  const std::string document = "{\"name\": \"a\\n\u00e9\", \"n\":12.5}";
  for (std::size_t cut = 0; cut <= document.size(); ++cut) {
    const auto state = m.matcher->read(m.matcher->start(), document.substr(0, cut));
    ASSERT_NE(state, GrammarMatcher::kDead) << cut;
    const auto mask = m.matcher->allowed(state);
    for (std::size_t token = 0; token < texts().size(); ++token) {
      const bool in_mask = (((*mask)[token / 64] >> (token % 64)) & 1) != 0;
      EXPECT_EQ(in_mask, m.matcher->read(state, texts()[token]) != GrammarMatcher::kDead)
          << "after " << document.substr(0, cut) << " token " << token;
    }
  }
}

// Through every state of a nested document, at the limit of nesting, and with what other grammars left in the
// library: the mask is what reading each token says.
TEST(Matcher, MaskAgreesWithReadingAtAnyDepthAndWithASharedLibrary) {
  const TokenTrie trie({texts().begin(), texts().end()});
  const auto library = std::make_shared<MaskLibrary>();
  const std::string deep = "{\"a\":" + std::string(240, '[');
  for (const char* text :
       {R"({"type":"string"})", R"({"type":"array","items":{"type":"string","maxLength":3}})", R"({})",
        R"({"type":"object"})"}) {
    GrammarMatcher matcher(*compile_schema(schema(text)), trie, library);
    for (std::string document : {std::string(R"("a\n1")"), std::string(R"(["ab","",")"), deep + "[\"a\",1.5e",
                                 std::string(R"({"a\"":[{"b":12,"c":[)")}) {
      for (std::size_t cut = 0; cut <= document.size(); ++cut) {
        const auto state = matcher.read(matcher.start(), document.substr(0, cut));
        if (state == GrammarMatcher::kDead) break;
        const auto mask = matcher.allowed(state);
        for (std::size_t token = 0; token < texts().size(); ++token) {
          ASSERT_EQ((((*mask)[token / 64] >> (token % 64)) & 1) != 0,
                    matcher.read(state, texts()[token]) != GrammarMatcher::kDead)
              << text << " after " << document.substr(0, cut) << " token " << token;
        }
      }
    }
  }
}

// Every count from the first character to the last, in the middle of characters and of escapes, alone and
// beside alternatives that count otherwise or not at all.
TEST(Matcher, MasksOfBoundedStringsAgreeWithReadingAtEveryCount) {
  const TokenTrie trie({texts().begin(), texts().end()});
  const auto library = std::make_shared<MaskLibrary>();
  for (
      const char* text :
      {R"({"type":"string","minLength":3,"maxLength":9})", R"({"type":"string","minLength":4})",
       R"({"type":"array","items":{"type":"string","maxLength":2}})",
       R"({"anyOf":[{"type":"string","maxLength":4},{"type":"string","minLength":6,"maxLength":8},{"const":"namename1"}]})",
       R"({"type":"object","properties":{"a":{"type":"string","maxLength":0},"b":{"type":"string","maxLength":1}}})"}) {
    GrammarMatcher matcher(*compile_schema(schema(text)), trie, library);
    for (const std::string& document :
         {std::string("\"namename1\""), std::string("\"a\u00e9\U0001F999\\n\\u00e9\\ud83e\\udd99xyz\""),
          std::string("[\"ab\",\"\",\"1\"]"), std::string("{\"a\":\"\",\"b\":\"x\"}"),
          std::string("\"") + std::string(12, 'x')}) {
      for (std::size_t cut = 0; cut <= document.size(); ++cut) {
        const auto state = matcher.read(matcher.start(), document.substr(0, cut));
        if (state == GrammarMatcher::kDead) break;
        const auto mask = matcher.allowed(state);
        for (std::size_t token = 0; token < texts().size(); ++token) {
          ASSERT_EQ((((*mask)[token / 64] >> (token % 64)) & 1) != 0,
                    matcher.read(state, texts()[token]) != GrammarMatcher::kDead)
              << text << " after " << document.substr(0, cut) << " token " << texts()[token];
        }
      }
    }
  }
}

// What keeps a string of at most 100,000 characters from costing 100,000 masks.
TEST(Matcher, FarFromItsBoundsACountSharesOneMask) {
  Matcher m(schema(R"({"type":"string","minLength":2,"maxLength":100000})"));
  const auto mask_after = [&](std::size_t length) {
    return m.matcher->allowed(m.matcher->read(m.matcher->start(), "\"" + std::string(length, 'x'))).get();
  };
  EXPECT_EQ(mask_after(2), mask_after(50'000));
  EXPECT_EQ(mask_after(2), mask_after(99'990));
  EXPECT_NE(mask_after(1), mask_after(2));
  EXPECT_NE(mask_after(99'999), mask_after(2));
  EXPECT_FALSE(m.begins("\"" + std::string(100'001, 'x')));
  EXPECT_TRUE(m.takes("\"" + std::string(100'000, 'x') + "\""));
}

TEST(MaskLibrary, ForgetsInsteadOfGrowing) {
  MaskLibrary library;
  for (int i = 0; i < 1'000; ++i) library.keep(std::to_string(i), std::make_shared<const LocalMask>());
  EXPECT_NE(library.find("999"), nullptr);
  EXPECT_EQ(library.find("0"), nullptr);
}

TEST(Matcher, EndsOnlyWhereTheDocumentIsWhole) {
  Matcher m(nullptr);
  const auto state = m.matcher->read(m.matcher->start(), R"({"a":{}})");
  EXPECT_TRUE(m.matcher->must_end(state));
  EXPECT_FALSE(m.matcher->may_end(m.matcher->read(m.matcher->start(), R"({"a":{})")));
}

TEST(Matcher, NestingIsBoundedAndStaysCompletable) {
  Matcher m(nullptr);
  std::string text = "{\"a\":";
  while (m.begins(text + "[")) text += "[";
  EXPECT_GT(text.size(), 100U);
  EXPECT_LT(text.size(), 1000U);
  EXPECT_TRUE(m.begins(text + "1]"));
}

// Whatever is drawn under the mask is JSON when it may end.
TEST(Matcher, RandomWalksEndInValidDocuments) {
  Matcher m(schema(R"({"type":"array","minItems":2,"maxItems":4,"items":{"type":"object","properties":{
      "id":{"type":"integer"},"tags":{"type":"array","items":{"enum":["x","y"]},"maxItems":3},"note":{"type":"string","maxLength":8},
      "any":{}},"required":["id","tags"]}})"));
  for (std::uint32_t seed = 1; seed <= 60; ++seed) {
    std::mt19937 random(seed);
    std::string text;
    auto state = m.matcher->start();
    while (!m.matcher->must_end(state)) {
      const auto mask = m.matcher->allowed(state);
      std::vector<std::size_t> tokens;
      for (std::size_t t = 0; t < texts().size(); ++t) {
        if ((((*mask)[t / 64] >> (t % 64)) & 1) != 0) tokens.push_back(t);
      }
      ASSERT_FALSE(tokens.empty()) << "seed " << seed << " after " << text;
      // Past some length what closes is preferred, or nothing would ever end: in a string the quote,
      // elsewhere brackets.
      std::size_t pick = tokens[random() % tokens.size()];
      if (text.size() > 300) {
        const auto can = [&](char c) {
          return std::ranges::find(tokens, static_cast<std::size_t>(c)) != tokens.end();
        };
        const bool in_string = can('x') && can('(');
        for (const char c : in_string ? std::string("\"") : std::string("]}\"0")) {
          if (!can(c)) continue;
          pick = static_cast<std::size_t>(c);
          break;
        }
      }
      text += texts()[pick];
      state = m.matcher->read(state, texts()[pick]);
      ASSERT_LT(text.size(), 5000U) << "seed " << seed;
    }
    const Json parsed = Json::parse(text, nullptr, false);
    ASSERT_TRUE(parsed.is_array()) << "seed " << seed << ": " << text;
    EXPECT_GE(parsed.size(), 2U);
    EXPECT_LE(parsed.size(), 4U);
    for (const Json& item : parsed)
      EXPECT_TRUE(item["id"].is_number_integer() && item["tags"].is_array()) << text;
    EXPECT_EQ(text.find(std::string(20, ' ')), std::string::npos);
  }
}

TEST(Trie, TokensWithOneTextAreAllFound) {
  const TokenTrie trie({"ab", "", "a", "ab", "abc"});
  std::vector<std::int32_t> found;
  for (const auto& node : trie.nodes()) {
    for (auto token = node.token; token >= 0; token = trie.next_same(token)) found.push_back(token);
  }
  EXPECT_THAT(found, testing::UnorderedElementsAre(0, 2, 3, 4));
  EXPECT_EQ(trie.nodes().size(), 3U);
}

}  // namespace
}  // namespace tessera
