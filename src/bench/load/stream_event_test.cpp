#include "bench/load/stream_event.h"

#include <gmock/gmock.h>

#include <vector>

namespace tessera::bench {
namespace {

using ::testing::ElementsAre;

StreamEvent read(std::string_view payload, std::string* text = nullptr) {
  std::string mine;
  return read_event(payload, text != nullptr ? *text : mine);
}

TEST(StreamEvent, ReadsACompletionsChunk) {
  std::string text;
  const StreamEvent event = read(
      R"({"id":"c","choices":[{"index":0,"text":" ship","logprobs":null,"finish_reason":"length"}],)"
      R"("usage":{"prompt_tokens":7,"completion_tokens":3,"prompt_tokens_details":{"cached_tokens":4}}})",
      &text);
  EXPECT_TRUE(event.has_text);
  EXPECT_EQ(text, " ship");
  EXPECT_EQ(event.prompt_tokens, 7);
  EXPECT_EQ(event.completion_tokens, 3);
  EXPECT_EQ(event.cached_tokens, 4);
  EXPECT_EQ(event.finish_reason, "length");
}

TEST(StreamEvent, ReadsAChatChunkWithBlanksAndAThought) {
  std::string text;
  const StreamEvent event = read(
      R"({ "choices" : [ { "delta" : { "reasoning_content" : "Hm" }, "finish_reason" : null } ] })", &text);
  EXPECT_TRUE(event.has_text);
  EXPECT_EQ(text, "Hm");
  EXPECT_EQ(event.finish_reason, "");
}

TEST(StreamEvent, EmptyTextIsNone) { EXPECT_FALSE(read(R"({"choices":[{"text":""}]})").has_text); }

// Generated text may spell anything, also what looks like our keys.
TEST(StreamEvent, TextCannotForgeFields) {
  std::string text;
  const StreamEvent event =
      read(R"({"choices":[{"text":"\"completion_tokens\":99,\"finish_reason\":\"stop\" \\"}]})", &text);
  EXPECT_EQ(text, R"("completion_tokens":99,"finish_reason":"stop" \)");
  EXPECT_FALSE(event.completion_tokens);
  EXPECT_EQ(event.finish_reason, "");
}

TEST(StreamEvent, UnescapesEverything) {
  std::string text;
  read("{\"text\":\"a\\n\\t\\u00e9\\ud83d\\ude00\\ud83d\\/\"}", &text);
  EXPECT_EQ(text, "a\n\t\u00e9\U0001F600\uFFFD/");
}

TEST(StreamEvent, KnowsErrorsAndTheEnd) {
  EXPECT_FALSE(read(R"({"error":{"message":"out of memory"}})").error.empty());
  EXPECT_TRUE(read(R"({"error":null,"choices":[]})").error.empty());
  EXPECT_TRUE(read("[DONE]").is_done);
}

TEST(StreamEvent, DamageIsAnEventOfWhichNothingIsKnown) {
  for (const char* payload : {"", "{", "\"", R"({"text":"un)", R"({"text":"\)", R"({"completion_tokens":)",
                              R"({"completion_tokens":-5})", R"({"completion_tokens":null})"}) {
    const StreamEvent event = read(payload);
    EXPECT_FALSE(event.has_text) << payload;
    EXPECT_FALSE(event.completion_tokens) << payload;
  }
}

TEST(EventLines, PayloadsSurviveAnyCut) {
  const std::string stream = ": ping\r\n\r\ndata: one\n\ndata:two\r\n\r\nevent: x\ndata: three\n\n";
  for (std::size_t cut = 1; cut < stream.size(); ++cut) {
    EventLines lines;
    std::vector<std::string> payloads;
    const auto keep = [&](std::string_view payload) { payloads.emplace_back(payload); };
    lines.feed(std::string_view(stream).substr(0, cut), keep);
    lines.feed(std::string_view(stream).substr(cut), keep);
    ASSERT_THAT(payloads, ElementsAre("one", "two", "three")) << cut;
  }
}

}  // namespace
}  // namespace tessera::bench
