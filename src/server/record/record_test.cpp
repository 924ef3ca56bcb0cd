#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "server/record/answer_text.h"
#include "server/record/arrivals.h"
#include "server/record/base64.h"
#include "server/record/record_folder.h"
#include "server/record/recorded_request.h"
#include "server/record/replay.h"
#include "server/record/secrets.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST(Base64, IsInverseOverAllLengthsAndBytes) {
  EXPECT_EQ(to_base64("any carnal pleas"), "YW55IGNhcm5hbCBwbGVhcw==");
  std::string bytes;
  for (int i = 0; i < 300; ++i) {
    EXPECT_EQ(from_base64(to_base64(bytes)), bytes);
    bytes += static_cast<char>(i * 7);
  }
}

TEST(Base64, RefusesWhatIsNoneOfItsOwn) {
  for (const char* text : {"A", "AA", "AAA", "A===", "AA=A", "AB==", "AAB=", "A A=", "====", "AA==AA=="}) {
    EXPECT_EQ(from_base64(text), std::nullopt) << text;
  }
}

RecordedRequest example() {
  return {.at = "2026-11-30T18:09:15.123Z",
          .version = "0.1.0",
          .model = "M",
          .fingerprint = "fp",
          .id = "abc",
          .user_agent = "curl",
          .path = "/v1/chat/completions",
          .body = R"({"temperature":0})",
          .status = 200,
          .ended = "complete",
          .answer = R"({"choices":[{"index":0,"message":{"content":"The sea."}}]})",
          .first_byte_ms = 1.5,
          .total_ms = 2.5};
}

TEST(RecordedRequest, IsReadBackAsItWasWritten) {
  RecordedRequest record = example();
  for (const std::string& body :
       {std::string("{\"a\": \"\\u00e9 é\"}\n"), std::string("\xff\x00{", 3), std::string()}) {
    record.body = body;
    const auto read = parse_record(to_json(record), "file");
    ASSERT_TRUE(read.ok()) << read.error().message();
    EXPECT_EQ(read->body, body);
    EXPECT_EQ(to_json(*read), to_json(record));
  }
}

TEST(RecordedRequest, RefusalsNameTheField) {
  const auto refusal = [](const std::function<void(nlohmann::json&)>& change) {
    auto json = nlohmann::json::parse(to_json(example()));
    change(json);
    const auto read = parse_record(json.dump(), "file");
    return read ? "accepted" : read.error().message();
  };
  EXPECT_THAT(refusal([](auto& json) { json.erase("tessera_record"); }), HasSubstr("tessera_record"));
  EXPECT_THAT(refusal([](auto& json) { json["tessera_record"] = 2; }), HasSubstr("version 2"));
  EXPECT_THAT(refusal([](auto& json) { json["answer"] = 1; }), HasSubstr("'answer'"));
  EXPECT_THAT(refusal([](auto& json) { json["request"].erase("body"); }), HasSubstr("request: 'body'"));
  EXPECT_THAT(refusal([](auto& json) { json["request"]["body_base64"] = "?"; }), HasSubstr("body_base64"));
  EXPECT_THAT(refusal([](auto& json) { json["request"]["path"] = "/x HTTP/1.1\r\nEvil: 1"; }),
              HasSubstr("POST"));
  EXPECT_THAT(refusal([](auto& json) { json["request"]["method"] = "DELETE"; }), HasSubstr("POST"));
  EXPECT_FALSE(parse_record("{", "file").ok());
}

TEST(RecordedRequest, AFolderIsReadInTheOrderOfItsNames) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "records";
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  EXPECT_THAT(load_records(folder).error().message(), HasSubstr("no *.json"));
  for (const char* id : {"b", "a", "c"}) {
    RecordedRequest record = example();
    record.id = id;
    std::ofstream(folder / (std::string(id) + ".json")) << to_json(record);
  }
  std::ofstream(folder / "d.json.part") << "{";  // being written
  const auto records = load_records(folder);
  ASSERT_TRUE(records.ok()) << records.error().message();
  ASSERT_EQ(records->size(), 3U);
  EXPECT_EQ(records->front().id, "a");
  EXPECT_EQ(load_records((folder / "b.json").string())->front().id, "b");
  EXPECT_FALSE(load_records((folder / "missing.json").string()).ok());
}

std::string cleaned(const std::string& text) {
  const std::vector<std::string> own = {"my-own-key"};
  return remove_secrets(text, own);
}

TEST(Secrets, KeysAreRemovedByTheirShape) {
  EXPECT_EQ(cleaned("take my-own-key, please"), "take [removed], please");
  EXPECT_EQ(cleaned("Authorization: Bearer abc.def-12345"), "Authorization: Bearer [removed]");
  EXPECT_EQ(cleaned("sk-proj-0123456789abcdefXY and hf_0123456789abcdefXY."), "[removed] and [removed]");
  EXPECT_EQ(cleaned("AKIAIOSFODNN7EXAMPLE"), "[removed]");
  EXPECT_EQ(cleaned("-----BEGIN RSA PRIVATE KEY-----\\nMIIE\\n-----END RSA PRIVATE KEY----- x"),
            "-----BEGIN RSA PRIVATE KEY-----[removed]-----END RSA PRIVATE KEY----- x");
}

TEST(Secrets, ProseStays) {
  for (const char* text :
       {"ask-me-anything-about-the-weather-today", "sk-short", "Bearer of news", "hf_ prefix",
        "-----BEGIN PUBLIC KEY-----\nMIIE\n-----END PUBLIC KEY-----", R"({"token":"Hello"})",
        R"({"properties":{"password":{"type":"string"}}})", R"("password", "is a word")"}) {
    EXPECT_EQ(cleaned(text), text);
  }
}

TEST(Secrets, NamedValuesAreRemovedAtAnyDepthOfQuotes) {
  EXPECT_EQ(cleaned(R"({"password": "a\"b\\", "x": "y"})"), R"({"password": "[removed]", "x": "y"})");
  EXPECT_EQ(cleaned(R"({"API_Key":""})"), R"({"API_Key":"[removed]"})");
  nlohmann::json inner = {{"password", "p\"q\\"}, {"city", "Oslo"}};
  for (int depth = 0; depth < 3; ++depth) {
    const std::string text = inner.dump();
    const std::string out = cleaned(text);
    EXPECT_THAT(out, Not(HasSubstr("p\\")));
    auto read = nlohmann::json::parse(out, nullptr, false);
    ASSERT_FALSE(read.is_discarded()) << out;
    for (int i = 0; i < depth; ++i) read = nlohmann::json::parse(read["arguments"].get<std::string>());
    EXPECT_EQ(read["password"], "[removed]") << out;
    EXPECT_EQ(read["city"], "Oslo");
    inner = {{"arguments", text}};
  }
  EXPECT_EQ(cleaned(R"({"a":"\"secret\": \"cut off here"})"), R"({"a":"\"secret\": \"cut off here"})");
}

TEST(AnswerText, StreamsAndWholeAnswersSayTheSame) {
  const auto whole = texts_of_answer(
      R"({"choices":[{"index":0,"message":{"reasoning_content":"Hm.","content":"Yes","tool_calls":)"
      R"([{"function":{"name":"f","arguments":"{}"}}]}},{"index":1,"message":{"content":"No"}}]})");
  const auto streamed = texts_of_answer(
      ": ping\n\ndata: {\"choices\":[{\"index\":1,\"delta\":{\"content\":\"No\"}}]}\n\n"
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"reasoning_content\":\"Hm.\"}}]}\n\n"
      "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Yes\"}}]}\n\n"
      "data: "
      "{\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"function\":{\"name\":\"f\",\"arguments\":\"{"
      "\"}}]}}]}\n\n"
      "data: "
      "{\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"function\":{\"arguments\":\"}\"}}]}}]}"
      "\n\ndata: [DONE]\n\n");
  EXPECT_EQ(whole, streamed);
  EXPECT_THAT(whole, ElementsAre("<thought>Hm.</thought>Yes\ncall of f: {}", "No"));
  EXPECT_THAT(texts_of_answer(R"({"error":{"message":"No."}})"), ElementsAre("No."));
  EXPECT_THAT(texts_of_answer(R"({"tokens":[1]})"), ElementsAre(R"({"tokens":[1]})"));
}

std::string chat_answer(const std::string& text) {
  return nlohmann::json{{"id", "other"}, {"choices", {{{"index", 0}, {"message", {{"content", text}}}}}}}
      .dump();
}

TEST(Replay, ComparesWhatIsSaid) {
  RecordedRequest record = example();
  const auto outcome = [&](int status, const std::string& body) {
    return judge(record, ReplayAnswer{status, body}, 1);
  };
  EXPECT_EQ(outcome(200, chat_answer("The sea.")).outcome, ReplayOutcome::kSame);
  EXPECT_EQ(outcome(200, chat_answer("The sky.")).outcome, ReplayOutcome::kOtherText);
  EXPECT_EQ(outcome(200, chat_answer("The sky.")).finding, R"(differs at byte 5: recorded "ea.", now "ky.")");
  EXPECT_EQ(outcome(200, chat_answer("The sea. And more")).outcome, ReplayOutcome::kOtherText);
  EXPECT_EQ(outcome(503, R"({"error":{"message":"Full."}})").outcome, ReplayOutcome::kOtherStatus);
  record.body = R"({"temperature":1})";
  EXPECT_EQ(outcome(200, chat_answer("The sky.")).outcome, ReplayOutcome::kMayDiffer);
  record.body = R"({"temperature":1,"seed":3})";
  EXPECT_EQ(outcome(200, chat_answer("The sky.")).outcome, ReplayOutcome::kOtherText);
}

TEST(Replay, AnAnswerThatWasCutIsComparedAsFarAsItWent) {
  RecordedRequest record = example();
  record.ended = "client left";
  record.answer = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"The s\"}}]}\n\ndata: {\"choi";
  EXPECT_EQ(judge(record, ReplayAnswer{200, chat_answer("The sea.")}, 1).outcome, ReplayOutcome::kSame);
  EXPECT_EQ(judge(record, ReplayAnswer{200, chat_answer("The")}, 1).outcome, ReplayOutcome::kOtherText);
  record.answer = R"({"choices":[{"ind)";
  record.answer_is_whole = false;
  EXPECT_EQ(judge(record, ReplayAnswer{200, chat_answer("The sea.")}, 1).outcome, ReplayOutcome::kSame);
}

TEST(Replay, AServerThatDoesNotAnswerIsAFinding) {
  const auto out = judge(example(), Error{ErrorKind::kIo, "http://x", "Connection refused."}, 1);
  EXPECT_EQ(out.outcome, ReplayOutcome::kNoAnswer);
  EXPECT_THAT(out.finding, HasSubstr("Connection refused"));
}

TEST(Arrivals, AreCountedFromTheFirstWhateverTheOrder) {
  std::vector<RecordedRequest> records(3);
  records[0].at = "2026-12-31T23:59:59.900Z";
  records[1].at = "2027-01-01T00:00:01.150Z";
  records[2].at = "2026-12-31T23:59:59.400Z";
  const auto times = arrivals_of(records);
  ASSERT_TRUE(times.ok());
  EXPECT_THAT(*times, ElementsAre(testing::DoubleNear(0.5, 1e-9), testing::DoubleNear(1.75, 1e-9), 0));
  for (const char* bad : {"", "2026-13-01T00:00:00.000Z", "2026-02-30T00:00:00.000Z",
                          "2026-02-20T24:00:00.000Z", "2026-02-20T00:00:00Z", "2026-02-20T00:00:00.000+"}) {
    records[1].at = bad;
    EXPECT_EQ(arrivals_of(records).error().kind, ErrorKind::kCorrupt) << bad;
  }
}

class RecordFolderTest : public testing::Test {
 protected:
  RecordFolderTest() { fs::remove_all(path); }
  std::string add(RecordFolder& folder, const char* at, std::size_t bytes) {
    const std::string file = folder.next_file(at);
    std::ofstream(file) << std::string(bytes, 'x');
    deleted += folder.added(file, static_cast<std::int64_t>(bytes));
    return file;
  }
  const std::string path =
      testing::TempDir() + "/record_folder_" + testing::UnitTest::GetInstance()->current_test_info()->name();
  std::int64_t deleted = 0;
};

TEST_F(RecordFolderTest, TheOldestMakeRoomAndNothingElseIsTouched) {
  fs::create_directories(path);
  std::ofstream(path + "/notes.json") << std::string(5000, 'n');
  auto folder = RecordFolder::open(path, 250);
  ASSERT_TRUE(folder.ok());
  const std::string second = add(*folder, "2026-11-30T18:09:16.000Z", 100);
  const std::string first = add(*folder, "2026-11-30T18:09:15.123Z", 100);  // answered later
  const std::string third = add(*folder, "2026-11-30T18:09:17.000Z", 100);
  EXPECT_EQ(deleted, 1);
  EXPECT_FALSE(fs::exists(first));
  EXPECT_TRUE(fs::exists(second) && fs::exists(third) && fs::exists(path + "/notes.json"));
  EXPECT_EQ(folder->bytes(), 200);
  // One that is larger than the folder may be stays alone.
  const std::string large = add(*folder, "2026-11-30T18:09:14.000Z", 300);
  EXPECT_TRUE(fs::exists(large));
  EXPECT_EQ(folder->bytes(), 300);
}

TEST_F(RecordFolderTest, WhatEarlierServersLeftCountsAndIsNotOverwritten) {
  std::string old;
  {
    auto folder = RecordFolder::open(path, 1000);
    old = add(*folder, "2026-11-30T18:09:16.000Z", 600);
  }
  auto folder = RecordFolder::open(path, 1000);
  ASSERT_TRUE(folder.ok());
  EXPECT_EQ(folder->bytes(), 600);
  const std::string again = add(*folder, "2026-11-30T18:09:16.000Z", 300);
  EXPECT_NE(again, old);
  EXPECT_EQ(deleted, 0);
  add(*folder, "2026-11-30T18:09:17.000Z", 300);
  EXPECT_FALSE(fs::exists(old));
}

TEST(RecordNames, AreToldFromOtherFiles) {
  EXPECT_TRUE(is_record_name("20261130T180915123Z-000001.json"));
  EXPECT_TRUE(is_record_name("20261130T180915123Z-1000001.json"));
  for (const char* other : {"notes.json", "20261130T180915123Z-000001.json.part", "20261130T180915123Z.json",
                            "20261130T180915123Z-00001.json", "20261130T180915123Z-00000a.json"}) {
    EXPECT_FALSE(is_record_name(other)) << other;
  }
}

}  // namespace
}  // namespace tessera
