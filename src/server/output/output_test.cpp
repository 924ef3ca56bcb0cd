// The output pipeline, scripted: a fixed list of tokens, pushed under many bundlings, must always give one
// result.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "server/output/choice_output.h"

namespace tessera {
namespace {

const Tokenizer& tokenizer() {
  static const Tokenizer loaded = [] {
    auto made = Tokenizer::load(std::string(TESSERA_SOURCE_DIR) + "/models/tessera-tiny");
    TS_CHECK(made.ok(), made.ok() ? "" : made.error().message());
    return *std::move(made);
  }();
  return loaded;
}

std::vector<std::int32_t> tokens_of(std::string_view text) {
  auto ids = tokenizer().encode(text, ControlTokens::kRecognise);
  TS_CHECK(ids.ok());
  return *std::move(ids);
}

constexpr std::string_view kBegin = "<|tool_calls_section_begin|>";
constexpr std::string_view kEnd = "<|tool_calls_section_end|>";
std::string call(std::string_view id, std::string_view arguments) {
  return "<|tool_call_begin|>" + std::string(id) + "<|tool_call_argument_begin|>" + std::string(arguments) +
         "<|tool_call_end|>";
}

struct Message {
  std::string reasoning, content;
  std::vector<ToolDelta> tools;
  std::string stopped_by;
  bool reasoning_was_content = false;
  friend bool operator==(const Message&, const Message&) = default;
};

void take(Message& message, ChoiceDelta& delta) {
  message.reasoning += delta.reasoning;
  message.content += delta.content;
  message.reasoning_was_content |= delta.reasoning_was_content;
  for (ToolDelta& tool : delta.tools) {
    if (!tool.id.empty()) {
      EXPECT_EQ(static_cast<std::size_t>(tool.index), message.tools.size());
      message.tools.push_back(std::move(tool));
    } else {
      ASSERT_EQ(static_cast<std::size_t>(tool.index) + 1, message.tools.size());
      message.tools.back().arguments += tool.arguments;
    }
  }
  delta = {};
}

// `bundles`: how many tokens each step brings, repeated as needed.
Message run(const std::vector<std::int32_t>& tokens, const ChoiceOptions& options,
            const std::vector<std::size_t>& bundles, bool complete = true) {
  ChoiceOutput output(tokenizer(), options);
  Message message;
  std::size_t at = 0;
  for (std::size_t step = 0; at < tokens.size(); ++step) {
    ChoiceDelta delta;
    for (std::size_t i = 0; i < bundles[step % bundles.size()] && at < tokens.size(); ++i)
      output.push(tokens[at++], delta);
    take(message, delta);
  }
  ChoiceDelta delta;
  output.finish(complete, delta);
  take(message, delta);
  message.stopped_by = output.stopped_by().value_or("");
  return message;
}

// One token a step, all at once, every fixed size to 7, and random sizes as speculation makes them.
Message run_all(const std::vector<std::int32_t>& tokens, const ChoiceOptions& options, bool complete = true) {
  const Message one = run(tokens, options, {1}, complete);
  for (std::size_t size = 2; size <= 7; ++size)
    EXPECT_EQ(run(tokens, options, {size}, complete), one) << size;
  EXPECT_EQ(run(tokens, options, {tokens.size() + 1}, complete), one);
  for (std::uint32_t seed = 1; seed <= 5; ++seed) {
    std::mt19937 random(seed);
    std::vector<std::size_t> bundles(50);
    for (auto& bundle : bundles) bundle = 1 + random() % 6;
    EXPECT_EQ(run(tokens, options, bundles, complete), one) << "seed " << seed;
  }
  return one;
}

ChoiceOptions kimi(SplitterOptions::Start start) {
  ChoiceOptions options;
  options.splitter = {.ids = find_markers(tokenizer()),
                      .thinking = MarkerMode::kParse,
                      .tools = MarkerMode::kParse,
                      .start = start};
  options.tool_names = {"f", "get_weather", "a.b"};
  return options;
}

TEST(ToolCalls, LongArgumentsArriveWholeAndWithoutMarkers) {  // vllm#37184
  std::string text;
  while (text.size() < 200'000) text += "line \\n \\\" \\\\ \xF0\x9F\xA6\x99 <|tool_call_begin> ";
  const std::string arguments = R"({"path":"a.py","text":")" + text + "\"}";
  auto tokens =
      tokens_of(std::string(kBegin) + "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>");
  const auto body = tokenizer().encode(arguments, ControlTokens::kAsText);
  tokens.insert(tokens.end(), body->begin(), body->end());
  for (const auto id : tokens_of("<|tool_call_end|>" + std::string(kEnd))) tokens.push_back(id);
  const Message message = run_all(tokens, kimi(SplitterOptions::kInContent));
  ASSERT_EQ(message.tools.size(), 1U);
  EXPECT_EQ(message.tools[0].arguments, arguments);
  EXPECT_EQ(message.tools[0].id, "functions.f:0");
  EXPECT_EQ(message.tools[0].name, "f");
  EXPECT_EQ(message.content, "");
}

TEST(ToolCalls, SectionEndsReasoningWithoutItsCloser) {  // Kimi-K2#89
  const Message message =
      run_all(tokens_of("I should look." + std::string(kBegin) +
                        call("functions.get_weather:0", R"({"city":"Oslo"})") + std::string(kEnd)),
              kimi(SplitterOptions::kInReasoning));
  EXPECT_EQ(message.reasoning, "I should look.");
  EXPECT_EQ(message.content, "");
  ASSERT_EQ(message.tools.size(), 1U);
  EXPECT_EQ(message.tools[0].name, "get_weather");
}

TEST(ToolCalls, ArgumentsAreForwardedWithEachToken) {  // vllm#50604
  ChoiceOutput output(tokenizer(), kimi(SplitterOptions::kInContent));
  ChoiceDelta delta;
  for (const auto id :
       tokens_of(std::string(kBegin) + "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>")) {
    output.push(id, delta);
  }
  ASSERT_EQ(delta.tools.size(), 1U);
  EXPECT_EQ(delta.tools[0].name, "f");
  for (const auto id : tokens_of(R"({"text":"some words that are quite plain"})")) {
    ChoiceDelta next;
    output.push(id, next);
    ASSERT_EQ(next.tools.size(), 1U);
    EXPECT_FALSE(next.tools[0].arguments.empty());
  }
}

TEST(ToolCalls, IdsContinueTheConversation) {  // vllm#46344
  ChoiceOptions options = kimi(SplitterOptions::kInContent);
  options.first_tool = 3;
  const Message message =
      run_all(tokens_of(std::string(kBegin) + call("functions.f:3", "{}") + call("f", "{}") +
                        call("functions.f:0", "{}") + call("functions.f:9", "{}") +
                        call(" functions.f:10 ", "{}") + std::string(kEnd)),
              options);
  std::vector<std::string> ids;
  for (const auto& tool : message.tools) ids.push_back(tool.id);
  EXPECT_THAT(ids, testing::ElementsAre("functions.f:3", "functions.f:4", "functions.f:5", "functions.f:9",
                                        "functions.f:10"));
}

TEST(ToolCalls, MissingClosersAreImplied) {
  const std::string open = "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\":1}";
  for (const std::string& text :
       {std::string(kBegin) + open, std::string(kBegin) + open + std::string(kEnd), open,
        open + "<|tool_call_end|>",
        "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{\"a\":1}" + std::string(kEnd)}) {
    const Message message = run_all(tokens_of(text), kimi(SplitterOptions::kInContent));
    ASSERT_EQ(message.tools.size(), 1U) << text;
    EXPECT_EQ(message.tools[0].arguments, "{\"a\":1}") << text;
    EXPECT_EQ(message.content, "") << text;
  }
  const Message two =
      run_all(tokens_of(std::string(kBegin) + open + open), kimi(SplitterOptions::kInContent));
  EXPECT_EQ(two.tools.size(), 2U);
}

TEST(ToolCalls, TextAroundTheSectionIsContent) {
  const Message message =
      run_all(tokens_of("Before." + std::string(kBegin) + " \n" + call("functions.f:0", "{}") + "\n" +
                        std::string(kEnd) + "After."),
              kimi(SplitterOptions::kInContent));
  EXPECT_EQ(message.content, "Before.After.");
  EXPECT_EQ(message.tools.size(), 1U);
}

TEST(ToolCalls, CallWithoutArgumentsIsStillACall) {
  const Message message =
      run_all(tokens_of(std::string(kBegin) + "<|tool_call_begin|>functions.f:0<|tool_call_end|>"),
              kimi(SplitterOptions::kInContent));
  ASSERT_EQ(message.tools.size(), 1U);
  EXPECT_EQ(message.tools[0].name, "f");
  EXPECT_EQ(message.tools[0].arguments, "");
}

TEST(ToolCalls, CutInsideACharacterGivesOneReplacement) {
  auto tokens =
      tokens_of(std::string(kBegin) + "<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>");
  tokens.push_back(*tokenizer().id_of("\xF0"));
  const Message message = run_all(tokens, kimi(SplitterOptions::kInContent), false);
  ASSERT_EQ(message.tools.size(), 1U);
  EXPECT_EQ(message.tools[0].arguments, "\xEF\xBF\xBD");
}

TEST(ToolCalls, UnwantedMarkersVanishAndTheirTextStays) {
  ChoiceOptions options = kimi(SplitterOptions::kInContent);
  options.splitter.tools = MarkerMode::kSwallow;
  const Message message =
      run_all(tokens_of("Hm. " + std::string(kBegin) + call("f", "{}") + std::string(kEnd)), options);
  EXPECT_EQ(message.content, "Hm. f{}");
  EXPECT_TRUE(message.tools.empty());
}

TEST(ToolCalls, NamesWithDotsFollowTheDeclaration) {
  const std::vector<std::string> declared = {"f", "a.b"};
  EXPECT_EQ(tool_name_of("functions.f:0", declared), "f");
  EXPECT_EQ(tool_name_of("functions.a.b:12", declared), "a.b");
  EXPECT_EQ(tool_name_of("tools.f:1", declared), "f");
  EXPECT_EQ(tool_name_of("functions.unknown:1", declared), "unknown");
  EXPECT_EQ(tool_name_of("f", declared), "f");
  EXPECT_EQ(tool_name_of("x:y", declared), "x:y");
  EXPECT_EQ(tool_name_of("", declared), "");
}

TEST(Reasoning, EndsAtItsCloser) {
  const Message message =
      run_all(tokens_of("<think>thought</think>answer"), kimi(SplitterOptions::kInReasoning));
  EXPECT_EQ(message.reasoning, "thought");
  EXPECT_EQ(message.content, "answer");
}

TEST(Reasoning, FirstTokenDecidesWhenThePromptDoesNot) {
  EXPECT_EQ(run_all(tokens_of("<think>t</think>c"), kimi(SplitterOptions::kUndecided)).reasoning, "t");
  const Message plain = run_all(tokens_of("just c"), kimi(SplitterOptions::kUndecided));
  EXPECT_EQ(plain.content, "just c");
  EXPECT_EQ(plain.reasoning, "");
}

TEST(Reasoning, SwitchedOffEverythingIsContent) {  // ik_llama.cpp#1685
  ChoiceOptions options = kimi(SplitterOptions::kInContent);
  options.splitter.thinking = MarkerMode::kSwallow;
  const Message message = run_all(tokens_of("<think></think>hi there"), options);
  EXPECT_EQ(message.content, "hi there");
  EXPECT_EQ(message.reasoning, "");
}

TEST(Reasoning, WithoutAnyMarkerIsContentWhenTheAnswerIsComplete) {  // sglang#33995
  const Message complete = run_all(tokens_of("Paris."), kimi(SplitterOptions::kInReasoning));
  EXPECT_EQ(complete.content, "Paris.");
  EXPECT_TRUE(complete.reasoning_was_content);
  const Message cut = run_all(tokens_of("Paris."), kimi(SplitterOptions::kInReasoning), false);
  EXPECT_EQ(cut.content, "");
  EXPECT_EQ(cut.reasoning, "Paris.");
}

TEST(Reasoning, StopStringsApplyToTheContentOnly) {  // vllm#14170
  ChoiceOptions options = kimi(SplitterOptions::kInReasoning);
  options.stop = {"END"};
  const Message message = run_all(tokens_of("think END more</think>fine END more"), options);
  EXPECT_EQ(message.reasoning, "think END more");
  EXPECT_EQ(message.content, "fine ");
  EXPECT_EQ(message.stopped_by, "END");
}

TEST(Reasoning, WithoutParsersMarkersAreTokensLikeOthers) {
  ChoiceOptions options;
  options.skip_special = false;
  EXPECT_EQ(run_all(tokens_of("<think>a</think>b"), options).content, "<think>a</think>b");
}

TEST(Streaming, CharactersAreNeverSplit) {  // dynamo#12630
  const std::string text = "삼겹살 👩‍👩‍👧‍👦 naïve 𝔘 ď 日本語";
  const Message message = run_all(tokens_of(text), {});
  EXPECT_EQ(message.content, text);
  auto cut = tokens_of("a");
  cut.push_back(*tokenizer().id_of("\xEC"));
  EXPECT_EQ(run_all(cut, {}, false).content, "a\xEF\xBF\xBD");
}

std::string stopped(std::string_view text, std::vector<std::string> stops, std::size_t piece,
                    bool include = false) {
  StopMatcher matcher(std::move(stops), include);
  std::string out;
  for (std::size_t i = 0; i < text.size(); i += piece) out += matcher.push(text.substr(i, piece));
  return out + (matcher.matched() ? "" : matcher.flush());
}

TEST(StopStrings, AreCutExactlyWhereverPiecesEnd) {  // vllm#3574
  for (std::size_t piece = 1; piece <= 12; ++piece) {
    EXPECT_EQ(stopped("ABCDEFGHIJK", {"DEFGHIJ"}, piece), "ABC");
    EXPECT_EQ(stopped("ABCDEFGHIJK", {"DEFGHIJ"}, piece, true), "ABCDEFGHIJ");
    EXPECT_EQ(stopped("ABCDEFGHIJK", {"DEFGX"}, piece), "ABCDEFGHIJK");
    EXPECT_EQ(stopped("aaab", {"aab", "ab"}, piece), "a");
    EXPECT_EQ(stopped("abcabcabd!", {"abcabd"}, piece), "abc");
    EXPECT_EQ(stopped("xé y", {"é "}, piece), "x");
    EXPECT_EQ(stopped("one two", {"two", "on", "one two"}, piece), "");
    std::vector<std::string> four;
    for (const char c : {'p', 'q', 'r', 's'}) four.push_back(std::string(199, c) + "!");
    EXPECT_EQ(stopped(std::string(198, 'q') + "!" + std::string(250, 'r') + "!tail", four, piece),
              std::string(198, 'q') + "!" + std::string(51, 'r'));
  }
}

TEST(StopStrings, OnlyWhatMayBecomeOneIsHeldBack) {
  StopMatcher matcher({"abc"});
  EXPECT_EQ(matcher.push("xab"), "x");
  EXPECT_EQ(matcher.push("a"), "ab");
  EXPECT_EQ(matcher.push("z"), "az");
  EXPECT_EQ(matcher.push("ab"), "");
  EXPECT_EQ(matcher.flush(), "ab");
}

TEST(StopStrings, AreNotLookedForBeforeMinTokens) {
  ChoiceOptions options;
  options.stop = {"b"};
  const auto tokens = tokens_of("a b c b");
  options.min_tokens = 3;
  const Message message = run_all(tokens, options);
  EXPECT_EQ(message.content, "a b c ");
}

}  // namespace
}  // namespace tessera
