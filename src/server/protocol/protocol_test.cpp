#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "server/protocol/chat_history.h"
#include "server/protocol/chat_request.h"
#include "server/protocol/completion_request.h"
#include "server/protocol/json_body.h"
#include "server/protocol/json_writer.h"

namespace tessera {
namespace {

using testing::HasSubstr;

GenerationLimits limits() { return {.vocab = 100, .default_sampling = {}}; }

Json parsed(std::string_view text) {
  auto made = parse_json_body(text);
  TS_CHECK(made.ok(), made.ok() ? "" : made.error().message, text);
  return *std::move(made);
}

// A chat request with these fields besides a message.
ApiResult<ChatRequest> chat(std::string fields) {
  if (!fields.empty()) fields = "," + fields;
  return read_chat_request(parsed(R"({"messages":[{"role":"user","content":"hi"}])" + fields + "}"),
                           limits());
}
std::string chat_refusal(const std::string& fields) {
  const auto made = chat(fields);
  return made ? "accepted" : made.error().param;
}
ApiResult<CompletionRequest> completion(const std::string& fields) {
  return read_completion_request(parsed("{" + fields + "}"), limits());
}
std::string completion_refusal(const std::string& fields) {
  const auto made = completion(fields);
  return made ? "accepted" : made.error().param;
}

TEST(JsonBody, NamesTheFieldThatIsGivenTwice) {
  const auto made = parse_json_body(R"({"a":1,"b":{"x":1,"x":2}})");
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().param, "x");
  EXPECT_EQ(made.error().status, 400);
}

TEST(JsonBody, RefusesWhatIsNotJsonWithThePlace) {
  for (const char* text :
       {"", "{", "nul", R"({"a":1}})", R"({"a":"\ud800"})", "{\"a\":\"\xff\"}", "[1,]", R"({"a":01})"}) {
    const auto made = parse_json_body(text);
    ASSERT_FALSE(made.ok()) << text;
    EXPECT_EQ(made.error().code, "invalid_json") << text;
    EXPECT_THAT(made.error().message, HasSubstr("byte")) << text;
  }
}

TEST(JsonBody, DepthIsBoundedAndDeepBodiesCostNothing) {
  EXPECT_TRUE(parse_json_body(std::string(100, '[') + std::string(100, ']')).ok());
  EXPECT_FALSE(parse_json_body(std::string(101, '[') + std::string(101, ']')).ok());
  EXPECT_FALSE(parse_json_body(std::string(5'000'000, '[')).ok());
}

TEST(JsonBody, NumberOfValuesAndFieldsIsBounded) {
  EXPECT_FALSE(parse_json_body("[1,2,3]", {.values = 3}).ok());
  EXPECT_TRUE(parse_json_body("[1,2]", {.values = 3}).ok());
  EXPECT_FALSE(parse_json_body(R"({"a":1,"b":2})", {.keys_per_object = 1}).ok());
}

TEST(JsonBody, KeepsOrderAndText) {
  const std::string text = R"({"z":1,"a":[true,null,-2,1.5,"é\n"],"m":{}})";
  EXPECT_EQ(parsed(text).dump(), text);
}

TEST(JsonWriter, WritesWhatParsersReadBack) {
  const std::string text =
      "quote \" back \\ line \n tab \t bell \a del \x7f é 🦙 nul " + std::string(1, '\0');
  std::string out;
  append_json_string(out, text);
  EXPECT_EQ(Json::parse(out).get<std::string>(), text);
  std::string numbers = "[";
  append_json_number(numbers, -0.1F);
  numbers += ',';
  append_json_number(numbers, 3.0F);
  numbers += ',';
  append_json_number(numbers, -std::numeric_limits<float>::infinity());
  EXPECT_EQ(numbers, "[-0.1,3.0,-9999.0");
}

TEST(Chat, ReadsEveryFieldOfSampling) {
  const auto made =
      chat(R"("model":"m","temperature":0,"top_p":0.5,"top_k":7,"min_p":0.1,"presence_penalty":-2,
      "frequency_penalty":2,"repetition_penalty":1.1,"seed":-3,"logit_bias":{"5":-100},"max_completion_tokens":9,
      "max_tokens":8,"min_tokens":2,"ignore_eos":true,"stop":["a","b"],"stop_token_ids":[3],"logprobs":true,
      "top_logprobs":20,"n":2,"priority":-1,"stream":true,"stream_options":{"include_usage":true,"continuous_usage_stats":true},
      "include_stop_str_in_output":true,"skip_special_tokens":false,"cache_salt":"s","unknown_field":{"x":1},"user":"u")");
  ASSERT_TRUE(made.ok()) << made.error().message;
  const GenerationOptions& o = (*made).options;
  EXPECT_EQ(o.sampling.temperature, 0.0F);
  EXPECT_EQ(o.sampling.top_k, 7);
  EXPECT_EQ(o.sampling.seed, static_cast<std::uint64_t>(-3));
  EXPECT_EQ(o.sampling.logit_bias, (std::vector<std::pair<std::int32_t, float>>{{5, -100.0F}}));
  EXPECT_EQ(o.max_tokens, 9);
  EXPECT_EQ(o.sampling.min_tokens, 2);
  EXPECT_TRUE(o.sampling.ignore_eos);
  EXPECT_EQ(o.stop, (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(o.sampling.logprobs, 20);
  EXPECT_EQ(o.n, 2);
  EXPECT_EQ(o.priority, -1);
  EXPECT_TRUE(o.stream && o.include_usage && o.continuous_usage && o.include_stop && !o.skip_special);
  EXPECT_EQ(o.cache_salt, "s");
}

TEST(Chat, NamesTheFieldAtFault) {
  for (const auto& [fields, param] : std::vector<std::pair<std::string, std::string>>{
           {R"("temperature":"hot")", "temperature"},
           {R"("temperature":-0.1)", "temperature"},
           {R"("top_p":0)", "top_p"},
           {R"("top_p":1.1)", "top_p"},
           {R"("top_k":-2)", "top_k"},
           {R"("n":0)", "n"},
           {R"("n":1.5)", "n"},
           {R"("n":true)", "n"},
           {R"("n":1e30)", "n"},
           {R"("seed":18446744073709551615)", "seed"},
           {R"("max_tokens":0)", "max_tokens"},
           {R"("max_tokens":5,"min_tokens":6)", "min_tokens"},
           {R"("stop":[""])", "stop"},
           {R"("stop":[1])", "stop"},
           {R"("stop_token_ids":[100])", "stop_token_ids"},
           {R"("logit_bias":{"100":1})", "logit_bias"},
           {R"("logit_bias":{"x":1})", "logit_bias"},
           {R"("logit_bias":{"1":101})", "logit_bias"},
           {R"("logprobs":true,"top_logprobs":21)", "top_logprobs"},
           {R"("top_logprobs":3)", "top_logprobs"},
           {R"("prompt_logprobs":-1)", "prompt_logprobs"},
           {R"("prompt_logprobs":1000000)", "prompt_logprobs"},
           {R"("prompt_logprobs":1,"stream":true)", "prompt_logprobs"},
           {R"("stream":1)", "stream"},
           {R"("stream_options":{"include_usage":true})", "stream_options"},
           {R"("stream":true,"stream_options":{"include_usage":3})", "stream_options.include_usage"},
           {R"("tool_choice":"maybe")", "tool_choice"},
           {R"("tool_choice":"required")", "tool_choice"},
           {R"("tool_choice":{"type":"function","function":{"name":"f"}})", "tool_choice.function.name"},
           {R"("tools":[{"type":"function"}])", "tools[0].function"},
           {R"("tools":[{"type":"retrieval","function":{"name":"f"}}])", "tools[0].type"},
           {R"("tools":[{"function":{"name":""}}])", "tools[0].function.name"},
           {R"("tools":{})", "tools"},
           {R"("response_format":{"type":"xml"})", "response_format.type"},
           {R"("response_format":{"type":"json_schema"})", "response_format.json_schema"},
           {R"("guided_regex":"a")", "guided_regex"},
           {R"("use_beam_search":true)", "use_beam_search"},
           {R"("functions":[])", "functions"},
           {R"("chat_template_kwargs":"x")", "chat_template_kwargs"},
           {R"("continue_final_message":true)", "continue_final_message"},
           {R"("modalities":["audio"])", "modalities"},
       }) {
    EXPECT_EQ(chat_refusal(fields), param) << fields;
  }
}

TEST(Chat, AcceptsWhatClientsSendWithoutAMeaningHere) {
  for (const char* fields :
       {R"("logprobs":true)", R"("logprobs":true,"top_logprobs":0)", R"("n":1.0)", R"("stop":null)",
        R"("tools":[])", R"("tool_choice":"none")", R"("tool_choice":"auto")",
        R"("response_format":{"type":"text"})", R"("modalities":["text"])", R"("metadata":{"a":1})"}) {
    EXPECT_EQ(chat_refusal(fields), "accepted") << fields;
  }
}

TEST(Chat, ChecksTheShapeOfMessages) {
  const auto refusal = [](const char* messages) {
    const auto made = read_chat_request(parsed(std::string(R"({"messages":)") + messages + "}"), limits());
    return made ? "accepted" : made.error().param;
  };
  EXPECT_EQ(refusal("[]"), "messages");
  EXPECT_EQ(refusal("\"hi\""), "messages");
  EXPECT_EQ(refusal("[1]"), "messages[0]");
  EXPECT_EQ(refusal(R"([{"content":"x"}])"), "messages[0].role");
  EXPECT_EQ(refusal(R"([{"role":"wizard","content":"x"}])"), "messages[0].role");
  EXPECT_EQ(refusal(R"([{"role":"user"}])"), "messages[0].content");
  EXPECT_EQ(refusal(R"([{"role":"user","content":5}])"), "messages[0].content");
  EXPECT_EQ(refusal(R"([{"role":"user","content":[{"type":"image_url"}]}])"), "messages[0].content[0].type");
  EXPECT_EQ(refusal(R"([{"role":"user","content":[{"type":"text"}]}])"), "messages[0].content[0].text");
  EXPECT_EQ(refusal(R"([{"role":"assistant"},{"role":"user","content":[]}])"), "accepted");
  const auto missing = read_chat_request(parsed("{}"), limits());
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().param, "messages");
}

TEST(Chat, NeverRefusesAConversationForItsPast) {  // vllm#43995
  for (const std::string& arguments :
       {std::string(R"("{\"cmd\": \"ls -")"), std::string(R"("\"Paris\"")"), std::string(R"("[\"x\"]")"),
        std::string(R"("")"), std::string(R"("{\"a\":1}{\"b\":2}")"), std::string("null"),
        std::string(R"({"a":1})"), "\"\\\"" + std::string(40'000, 'x') + "\""}) {
    const auto made = read_chat_request(
        parsed(
            R"({"messages":[{"role":"user","content":"u"},{"role":"assistant","content":null,"tool_calls":[{"id":"x",
               "type":"function","function":{"name":"f","arguments":)" +
            arguments + R"(}}]},
               {"role":"tool","tool_call_id":"x","content":"r"}]})"),
        limits());
    ASSERT_TRUE(made.ok()) << arguments.substr(0, 50) << made.error().message;
    for (const bool objects : {false, true}) {
      const auto history = prepare_history((*made).prompt.messages, {.arguments_as_objects = objects});
      EXPECT_EQ(history.messages.size(), 3U);
    }
  }
}

TEST(Completion, ReadsThePromptsFourForms) {
  EXPECT_EQ((*completion(R"("prompt":"a")")).prompts.size(), 1U);
  EXPECT_EQ((*completion(R"("prompt":["a","b"])")).prompts.size(), 2U);
  const auto ids = completion(R"("prompt":[1,2,3])");
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(std::get<std::vector<std::int32_t>>((*ids).prompts[0]), (std::vector<std::int32_t>{1, 2, 3}));
  EXPECT_EQ((*completion(R"("prompt":[[1],[2,3]])")).prompts.size(), 2U);
}

TEST(Completion, NamesTheFieldAtFault) {
  for (const char* prompt :
       {"null", "[]", "5", "{}", "[1,\"a\"]", "[100]", "[-1]", "[1.5]", "[[1],true]", "[[]]x"}) {
    if (std::string_view(prompt).ends_with('x')) continue;
    EXPECT_EQ(completion_refusal(std::string(R"("prompt":)") + prompt), "prompt") << prompt;
  }
  EXPECT_EQ(completion_refusal(R"("prompt":"a","suffix":"b")"), "suffix");
  EXPECT_EQ(completion_refusal(R"("prompt":"a","max_tokens":0)"), "max_tokens");
  EXPECT_EQ(completion_refusal(R"("prompt":"a","logprobs":21)"), "logprobs");
  EXPECT_EQ(completion_refusal(R"("prompt":"a","n":2,"best_of":3)"), "best_of");
  EXPECT_EQ(completion_refusal(R"("prompt":["a","b"],"n":65)"), "prompt");
  EXPECT_EQ(completion_refusal(R"("prompt":"a","suffix":"")"), "accepted");
}

TEST(Completion, EchoWithLogprobsAsksForThePromptsToo) {  // llama.cpp#27174
  const auto made = completion(R"("prompt":"a","max_tokens":0,"echo":true,"logprobs":1)");
  ASSERT_TRUE(made.ok());
  EXPECT_EQ((*made).options.sampling.prompt_logprobs, 1);
}

Json history(const char* messages, HistoryOptions options = {}) {
  return prepare_history(Json::parse(messages), options).messages;
}

TEST(History, RenamesToolIdsOverTheWholeConversation) {  // llxprt-code#713
  const auto made = prepare_history(Json::parse(R"([{"role":"user","content":"u"},
      {"role":"assistant","content":"","tool_calls":[{"id":"call_ab12","function":{"name":"read","arguments":"{}"}},
                                                     {"id":"call_cd34","function":{"name":"write","arguments":"{}"}}]},
      {"role":"tool","tool_call_id":"call_cd34","content":"2"},{"role":"tool","tool_call_id":"call_ab12","content":"1"}])"),
                                    {});
  EXPECT_EQ(made.messages[1]["tool_calls"][0]["id"], "functions.read:0");
  EXPECT_EQ(made.messages[1]["tool_calls"][1]["id"], "functions.write:1");
  EXPECT_EQ(made.messages[2]["tool_call_id"], "functions.write:1");
  EXPECT_EQ(made.messages[3]["tool_call_id"], "functions.read:0");
  EXPECT_EQ(made.next_tool, 2);
}

TEST(History, KeepsIdsThatHaveTheForm) {
  const auto made = prepare_history(Json::parse(R"([{"role":"assistant","content":"","tool_calls":[
      {"id":"functions.f:7","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"functions.f:7","content":"r"}])"),
                                    {});
  EXPECT_EQ(made.messages[0]["tool_calls"][0]["id"], "functions.f:7");
  EXPECT_EQ(made.messages[1]["tool_call_id"], "functions.f:7");
  EXPECT_EQ(made.next_tool, 8);
}

TEST(History, AReusedIdMeansTheLatestCall) {
  const Json made = history(
      R"([{"role":"assistant","content":"","tool_calls":[{"id":"c","function":{"name":"f","arguments":""}}]},
      {"role":"tool","tool_call_id":"c","content":"1"},
      {"role":"assistant","content":"","tool_calls":[{"id":"c","function":{"name":"g","arguments":""}}]},
      {"role":"tool","tool_call_id":"c","content":"2"}])");
  EXPECT_EQ(made[1]["tool_call_id"], "functions.f:0");
  EXPECT_EQ(made[3]["tool_call_id"], "functions.g:1");
}

TEST(History, ReasoningMayBeMissingEmptyOrSpeltOtherwise) {  // continue#11711
  const Json made = history(
      R"([{"role":"assistant","content":"a"},{"role":"assistant","content":"a","reasoning_content":""},
      {"role":"assistant","content":"a","reasoning":"r"},{"role":"assistant","content":"a","reasoning_content":null}])");
  EXPECT_FALSE(made[0].contains("reasoning_content"));
  EXPECT_EQ(made[1]["reasoning_content"], "");
  EXPECT_EQ(made[2]["reasoning_content"], "r");
  EXPECT_FALSE(made[3].contains("reasoning_content"));
}

TEST(History, PartsBecomeText) {
  const Json made =
      history(R"([{"role":"developer","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]},
                                {"role":"user","content":[]}])");
  EXPECT_EQ(made[0]["content"], "ab");
  EXPECT_EQ(made[0]["role"], "system");
  EXPECT_EQ(made[1]["content"], "");
}

TEST(History, ArgumentsBecomeObjectsOnlyWhereTheyAre) {
  const Json made = history(
      R"([{"role":"assistant","content":"","tool_calls":[{"id":"1","function":{"name":"f","arguments":"{\"a\": 1}"}},
      {"id":"2","function":{"name":"f","arguments":"{\"a\": "}},{"id":"3","function":{"name":"f","arguments":"[1]"}}]}])",
      {.arguments_as_objects = true});
  EXPECT_TRUE(made[0]["tool_calls"][0]["function"]["arguments"].is_object());
  EXPECT_EQ(made[0]["tool_calls"][1]["function"]["arguments"], "{\"a\": ");
  EXPECT_EQ(made[0]["tool_calls"][2]["function"]["arguments"], "[1]");
}

TEST(ApiError, HasTheShapeThatClientsExpect) {
  const Json made = Json::parse(bad_request("messages[0].role", "bad \"role\"").to_json());
  EXPECT_EQ(made["error"]["message"], "bad \"role\"");
  EXPECT_EQ(made["error"]["type"], "invalid_request_error");
  EXPECT_EQ(made["error"]["param"], "messages[0].role");
  EXPECT_TRUE(made["error"]["code"].is_null());
}

}  // namespace
}  // namespace tessera
