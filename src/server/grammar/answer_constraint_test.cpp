// Constraints over the shipped model's vocabulary, token by token.
#include "server/grammar/answer_constraint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "server/grammar/grammar_cache.h"

namespace tessera {
namespace {

using Json = nlohmann::ordered_json;
using Start = SplitterOptions::Start;

struct ConstraintTest : testing::Test {
  static const Tokenizer& tokenizer() {
    static const Tokenizer loaded =
        *Tokenizer::load(std::string(TESSERA_SOURCE_DIR) + "/models/tessera-tiny");
    return loaded;
  }
  static std::int32_t id(std::string_view text) { return *tokenizer().id_of(text); }
  static std::vector<std::int32_t> tokens(const std::string& text) {
    return *tokenizer().encode(text, ControlTokens::kRecognise);
  }

  std::shared_ptr<GrammarMatcher> grammar(const char* schema) {
    return *grammars.of_schema(schema == nullptr ? Json() : Json::parse(schema));
  }
  std::shared_ptr<TokenConstraint> json(const char* schema, Start start, LeastLength least = {}) {
    return make_json_constraint(vocabulary, grammar(schema), start, std::move(least));
  }
  std::shared_ptr<TokenConstraint> tools(bool several, Start start) {
    return make_tool_constraint(
        vocabulary,
        {.functions = {{"look", grammar(R"({"properties":{"at":{"type":"string"}}})")},
                       {"look_up", grammar(nullptr)}},
         .first_index = 3,
         .several = several},
        start);
  }
  static std::vector<std::uint64_t> mask_of(TokenConstraint& constraint) {
    std::vector<std::uint64_t> mask;
    constraint.allowed(mask);
    return mask;
  }
  static bool allows(TokenConstraint& constraint, std::int32_t token) {
    return ((mask_of(constraint)[static_cast<std::size_t>(token) / 64] >> (token % 64)) & 1) != 0;
  }
  static void feed(TokenConstraint& constraint, const std::string& text) {
    for (const std::int32_t token : tokens(text)) {
      ASSERT_TRUE(allows(constraint, token)) << tokenizer().bytes_of(token) << " of " << text;
      constraint.accept(token);
    }
  }

  const std::int32_t end = id("<|im_end|>");
  std::shared_ptr<const ConstraintVocabulary> vocabulary = std::make_shared<const ConstraintVocabulary>(
      tokenizer(), tokenizer().vocab_size(), std::vector<std::int32_t>{end});
  GrammarCache grammars{vocabulary->trie};
};

constexpr const char* kCalls =
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.look:3<|tool_call_argument_begin|>"
    "{\"at\": \"a\"}<|tool_call_end|><|tool_call_begin|>functions.look_up:4<|tool_call_argument_begin|>"
    "{\"x\":[1,2]}<|tool_call_end|><|tool_calls_section_end|>";

TEST_F(ConstraintTest, AThoughtIsFreeTextAndThenComesTheAnswer) {
  const auto constraint = json(R"({"type":"object","properties":{"a":{"type":"integer"}},"required":["a"]})",
                               SplitterOptions::kInReasoning);
  feed(*constraint, "Perhaps } or \" or anything.");
  EXPECT_FALSE(allows(*constraint, end));
  EXPECT_FALSE(allows(*constraint, id("<|tool_calls_section_begin|>")));
  EXPECT_FALSE(constraint->is_complete());
  feed(*constraint, "</think>");
  EXPECT_FALSE(allows(*constraint, id("</think>")));
  EXPECT_FALSE(allows(*constraint, tokens("x").front()));
  feed(*constraint, "{\"a\":12}");
  EXPECT_TRUE(constraint->is_complete());
  EXPECT_TRUE(allows(*constraint, end));
  EXPECT_FALSE(allows(*constraint, tokens("{").front()));
}

TEST_F(ConstraintTest, AnUndecidedAnswerMayThinkOrNot) {
  for (const char* text : {"<think>so</think>{}", "{}"}) {
    const auto constraint = json(nullptr, SplitterOptions::kUndecided);
    EXPECT_FALSE(allows(*constraint, end));
    feed(*constraint, text);
    EXPECT_TRUE(constraint->is_complete()) << text;
  }
  const auto constraint = json(nullptr, SplitterOptions::kInContent);
  EXPECT_FALSE(allows(*constraint, id("<think>")));
}

TEST_F(ConstraintTest, ForcedCallsComeAfterAThought) {
  const auto constraint = tools(true, SplitterOptions::kInReasoning);
  feed(*constraint, std::string("I must look.</think>") + kCalls);
  EXPECT_TRUE(constraint->is_complete());
  const auto one = tools(false, SplitterOptions::kInContent);
  const std::string all = kCalls;
  feed(*one, all.substr(0, all.find("<|tool_call_end|>") + 17));
  EXPECT_FALSE(allows(*one, id("<|tool_call_begin|>")));
  EXPECT_TRUE(allows(*one, id("<|tool_calls_section_end|>")));
}

// Every mask on the way is the same again after any number of tokens was taken back, as rejected drafts are.
TEST_F(ConstraintTest, RollbackRestoresEveryStage) {
  const std::string thought = "<think>hm</think>";
  const auto with_tools = tools(true, SplitterOptions::kUndecided);
  const auto with_json = json(nullptr, SplitterOptions::kUndecided);
  const std::pair<TokenConstraint*, std::string> cases[] = {
      {with_tools.get(), thought + kCalls + "<|im_end|>"},
      {with_json.get(), thought + "{\"a\": [1, \"x\\n\", null]}<|im_end|>"}};
  for (const auto& [constraint, text] : cases) {
    const auto all = tokens(text);
    std::vector<std::vector<std::uint64_t>> masks;
    for (const std::int32_t token : all) {
      masks.push_back(mask_of(*constraint));
      ASSERT_TRUE(allows(*constraint, token)) << masks.size();
      constraint->accept(token);
    }
    masks.push_back(mask_of(*constraint));
    std::mt19937 random(1);
    std::size_t at = all.size();
    for (int round = 0; round < 400; ++round) {
      const std::size_t back = random() % (at + 1);
      constraint->rollback(static_cast<std::int32_t>(back));
      at -= back;
      ASSERT_EQ(mask_of(*constraint), masks[at]) << "round " << round << " at token " << at;
      for (std::size_t steps = random() % (all.size() - at + 1); steps > 0; --steps)
        constraint->accept(all[at++]);
      ASSERT_EQ(mask_of(*constraint), masks[at]) << "round " << round << " at token " << at;
    }
  }
}

TEST_F(ConstraintTest, ACompleteDocumentMayEndBeforeMinTokens) {
  const auto constraint = json(R"({"const":"x"})", SplitterOptions::kInContent, {.tokens = 50});
  feed(*constraint, "\"x\"");
  EXPECT_TRUE(allows(*constraint, end));
}

TEST_F(ConstraintTest, MinTokensHoldsWhileThereIsAnotherWayOn) {
  const std::int32_t one = tokens("1").front();
  const auto constraint =
      json(R"({"type":"integer"})", SplitterOptions::kInContent, {.tokens = 3, .stop_tokens = {one}});
  EXPECT_FALSE(allows(*constraint, one));
  feed(*constraint, "2");
  EXPECT_FALSE(allows(*constraint, end));
  feed(*constraint, "2");
  constraint->rollback(1);
  feed(*constraint, "3");
  EXPECT_FALSE(allows(*constraint, end));
  feed(*constraint, "4");
  EXPECT_TRUE(allows(*constraint, end));
  EXPECT_TRUE(allows(*constraint, one));
}

TEST_F(ConstraintTest, ATokenThatTheMaskForbidsIsRefusedAndChangesNothing) {
  const auto constraint = json(nullptr, SplitterOptions::kInContent);
  const auto before = mask_of(*constraint);
  EXPECT_THROW(constraint->accept(tokens("x").front()), std::runtime_error);
  EXPECT_EQ(mask_of(*constraint), before);
}

}  // namespace
}  // namespace tessera
