// `tessera replay` against a server over a stub engine: that requests which were under way together are
// again.
#include "replay.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "base/scratch_folder.h"
#include "checkpoint/synthetic_checkpoint.h"
#include "server/record/recorded_request.h"
#include "server/server.h"
#include "server/stub/stub_engine.h"

namespace tessera {
namespace {

using namespace std::chrono_literals;

class ReplayCommand : public ::testing::Test {
 protected:
  ReplayCommand() : tokenizer_(*Tokenizer::load(TESSERA_SOURCE_DIR "/models/tessera-tiny")) {
    StubOptions stub;
    stub.info.vocab = tokenizer_.vocab_size();
    stub.info.max_model_len = 512;
    stub.info.kv_tokens = 100'000;
    stub.script = *tokenizer_.encode("The sea.", ControlTokens::kAsText);
    stub.paused = true;
    stub.on_submit = [this](const GenerationRequest&) {
      const std::lock_guard lock(mutex_);
      submitted_.push_back(std::chrono::steady_clock::now());
      if (submitted_.size() >= wanted_together_) engine_->resume();
    };
    engine_ = std::make_unique<StubEngine>(stub);
    ServerOptions options;
    options.http.host = "127.0.0.1";
    options.http.port = 0;
    options.served_names = {"stub"};
    options.access_log = false;
    server_ = std::make_unique<Server>(options, ready_);
    TS_CHECK(server_->start().ok());
    server_->attach({.engine = engine_.get(), .tokenizer = &tokenizer_, .chat_template = nullptr});
    ready_.set_ready();
    flags_.records = folder_.path().string();
    flags_.url = "http://127.0.0.1:" + std::to_string(server_->port());
    flags_.timeout_s = 20;
  }
  ~ReplayCommand() override { server_->stop(); }

  void add(const std::string& at) {
    RecordedRequest record;
    record.at = at;
    record.path = "/v1/completions";
    record.body = R"({"prompt":"x","max_tokens":2})";
    const std::string name = "20261130T180915123Z-00000" + std::to_string(++records_) + ".json";
    std::ofstream(folder_.path() / name) << to_json(record);
  }

  ScratchFolder folder_;
  Tokenizer tokenizer_;
  ReadyState ready_;
  std::mutex mutex_;
  std::vector<std::chrono::steady_clock::time_point> submitted_;
  std::size_t wanted_together_ = 1;  // the engine begins when so many have come
  std::unique_ptr<StubEngine> engine_;
  std::unique_ptr<Server> server_;
  ReplayFlags flags_;
  int records_ = 0;
};

TEST_F(ReplayCommand, KeepsThePaceAndTheConcurrencyOfTheRecords) {
  add("2026-11-30T18:09:15.000Z");
  add("2026-11-30T18:09:15.010Z");
  add("2026-11-30T18:09:15.400Z");
  wanted_together_ = 3;  // one after the other, the first would never be answered
  flags_.timing = "recorded";
  EXPECT_EQ(run_replay(flags_), 0);
  ASSERT_EQ(submitted_.size(), 3U);
  std::ranges::sort(submitted_);
  EXPECT_GE(submitted_[2] - submitted_[0], 350ms);  // never earlier; later as the machine pleases
}

TEST_F(ReplayCommand, OneAfterTheOtherIsTheDefault) {
  for (int i = 0; i < 3; ++i) add("2026-11-30T18:09:15.000Z");
  testing::internal::CaptureStdout();
  EXPECT_EQ(run_replay(flags_), 0);
  EXPECT_THAT(testing::internal::GetCapturedStdout(), ::testing::HasSubstr("at most 1 at a time"));
}

TEST_F(ReplayCommand, ATimeThatIsNoneIsRefused) {
  add("yesterday");
  flags_.timing = "recorded";
  EXPECT_EQ(run_replay(flags_), 2);
}

}  // namespace
}  // namespace tessera
