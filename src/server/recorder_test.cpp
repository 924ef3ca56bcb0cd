// A server that records, from the request to the file, and the file asked again.
#include <filesystem>
#include <fstream>

#include "server/record/replay.h"
#include "server/server_fixture.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;

struct RecorderTest : ServerTest {
  RecorderTest() {
    fs::remove_all(folder);
    options.record_folder = folder;
  }
  // Everything that is waiting is written when the server has stopped.
  std::vector<RecordedRequest> records() {
    server->stop();
    auto out = load_records(folder);
    EXPECT_TRUE(out.ok()) << out.error().message();
    return out ? *std::move(out) : std::vector<RecordedRequest>();
  }

  const std::string folder =
      testing::TempDir() + "/records_" + testing::UnitTest::GetInstance()->current_test_info()->name();
};

TEST_F(RecorderTest, WholeAnswersStreamsAndRefusalsAreRecorded) {
  start("The sea.");
  chat(R"("temperature":0)");
  chat(R"("stream":true)");
  chat(R"("temperature":-1)");
  post("/tokenize", "\xff{");
  get("/metrics");
  const auto all = records();
  ASSERT_EQ(all.size(), 4U);
  for (const RecordedRequest& record : all) EXPECT_EQ(record.ended, "complete");
  EXPECT_EQ(all[0].path, "/v1/chat/completions");
  EXPECT_EQ(all[0].status, 200);
  EXPECT_EQ(all[0].model, "M");
  EXPECT_EQ(all[0].fingerprint, "fp_stub");
  EXPECT_THAT(all[0].answer, HasSubstr("The sea."));
  EXPECT_GE(all[0].total_ms, all[0].first_byte_ms);
  EXPECT_THAT(all[1].answer, testing::EndsWith("data: [DONE]\n\n"));
  EXPECT_EQ(all[2].status, 400);
  EXPECT_EQ(all[3].body, "\xff{");
}

TEST_F(RecorderTest, KeysNeverReachTheDisk) {
  options.api_keys = {"sesame-open"};
  start("The key is sesame-open, and sk-0123456789abcdefgh too.");
  request(
      "POST", "/v1/chat/completions",
      R"({"messages":[{"role":"user","content":"My key is sesame-open and {\"password\":\"hunter2\"}"}]})",
      {{"Authorization", "Bearer sesame-open"},
       {"Cookie", "session=abc123"},
       {"User-Agent", "x sesame-open"}});
  ASSERT_EQ(records().size(), 1U);
  const fs::path file = fs::directory_iterator(folder)->path();
  std::ifstream in(file);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  for (const char* secret : {"sesame", "abc123", "sk-0123", "ookie", "earer"}) {
    EXPECT_THAT(text, testing::Not(HasSubstr(secret)));
  }
  EXPECT_THAT(text, HasSubstr("My key is [removed]"));
  EXPECT_EQ(fs::status(file).permissions(), fs::perms::owner_read | fs::perms::owner_write);
  EXPECT_EQ(fs::status(folder).permissions(), fs::perms::owner_all);
}

TEST_F(RecorderTest, AClientThatLeavesIsRecordedAsFarAsItGot) {
  stub.step_delay = 20ms;
  start(std::string(4000, 'x'));
  {
    HttpClient client(server->port());
    const std::string body =
        R"({"messages":[{"role":"user","content":"hi"}],"stream":true,"max_tokens":400})";
    client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: " +
                std::to_string(body.size()) + "\r\n\r\n" + body);
    ASSERT_TRUE(eventually([&] { return metric("vllm:time_to_first_token_seconds_count") == 1; }));
  }
  ASSERT_TRUE(eventually([&] { return metric("tessera:requests_aborted_total") == 1; }));
  const auto all = records();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].ended, "client left");
  EXPECT_THAT(all[0].answer, HasSubstr("chat.completion.chunk"));
  EXPECT_THAT(all[0].answer, testing::Not(HasSubstr("[DONE]")));
}

TEST_F(RecorderTest, ALargeBodyIsRecordedOnceAndWhole) {
  options.inline_body_bytes = 64;  // prepared by a worker
  start("ok");
  const std::string words(300, 'w');
  chat(R"("max_tokens":1,"user":")" + words + "\"");
  const auto all = records();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_THAT(all[0].body, HasSubstr(words));
  EXPECT_EQ(all[0].ended, "complete");
}

TEST_F(RecorderTest, RecordsAskedAgainGiveTheSameAnswers) {
  start("The sea.");
  chat(R"("temperature":0)");
  chat(R"("temperature":0,"stream":true,"report_drafts":true)");
  post("/v1/completions", R"({"prompt":"x","temperature":0,"max_tokens":2})");
  post("/tokenize", R"({"prompt":"x"})");
  const auto all = records();
  ASSERT_EQ(all.size(), 4U);
  options.record_folder.clear();
  const auto ask_again = [&](const RecordedRequest& record) {
    const Answer answer = post(record.path, record.body);
    return judge(record, ReplayAnswer{.status = answer.status, .body = answer.body}, 1);
  };
  start("The sea.");
  for (const RecordedRequest& record : all) {
    const Replayed again = ask_again(record);
    EXPECT_EQ(again.outcome, ReplayOutcome::kSame) << record.path << ": " << again.finding;
  }
  server->stop();
  start("The sky.");
  EXPECT_EQ(ask_again(all[0]).outcome, ReplayOutcome::kOtherText);
}

TEST_F(RecorderTest, TheFolderStaysBelowItsSize) {
  options.record_folder_bytes = 4000;  // a record of these is about 1,000
  start("The sea.");
  for (int i = 0; i < 12; ++i) chat(R"("temperature":0,"user":")" + std::to_string(i) + "\"");
  const auto all = records();
  ASSERT_FALSE(all.empty());
  EXPECT_LT(all.size(), 12U);
  EXPECT_THAT(all.back().body, HasSubstr("\"user\":\"11\""));  // the newest stay
  std::uintmax_t bytes = 0;
  for (const auto& entry : fs::directory_iterator(folder)) bytes += entry.file_size();
  EXPECT_LE(bytes, 4000U);
}

TEST_F(RecorderTest, AFolderThatCannotBeHadIsNamedAtTheStart) {
  std::ofstream(folder) << "a file";
  Server refused(options, ready);
  const auto started = refused.start();
  ASSERT_FALSE(started.ok());
  EXPECT_THAT(started.error().message(), HasSubstr("--record-requests"));
  EXPECT_THAT(started.error().message(), HasSubstr(folder));
  fs::remove(folder);
}

}  // namespace
}  // namespace tessera
