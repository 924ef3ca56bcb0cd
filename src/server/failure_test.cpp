// An exception that a request meets ends that request, with an answer, and nothing else.
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <stdexcept>

#include "server/server_fixture.h"

namespace tessera {
namespace {

// The log as text, while it lives.
struct CapturedLog {
  CapturedLog() {
    before = spdlog::default_logger();
    spdlog::set_default_logger(std::make_shared<spdlog::logger>(
        "test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text, /*force_flush=*/true)));
  }
  ~CapturedLog() { spdlog::set_default_logger(before); }

  std::ostringstream text;
  std::shared_ptr<spdlog::logger> before;  // shared by spdlog's design
};

std::size_t count(const std::string& text, std::string_view part) {
  std::size_t out = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != std::string::npos; at += part.size()) ++out;
  return out;
}

struct FailureTest : ServerTest {
  // Reading nothing after this: the server's threads write to the log until they have stopped.
  std::string stopped_log() {
    server->stop();
    return log.text.str();
  }
  static constexpr const char* kSecret = R"({"messages":[{"role":"user","content":"my secret"}]})";
  CapturedLog log;
};

TEST_F(FailureTest, AnEngineThatThrowsIsA500AndTheConnectionGoesOn) {
  std::atomic<int> submitted = 0;
  stub.on_submit = [&](const GenerationRequest&) {
    if (submitted++ == 0) throw std::runtime_error("the queue is on fire");
  };
  start("fine");
  HttpClient client(server->port());
  const Answer failed{client.call("POST", "/v1/chat/completions", kSecret, {{"X-Request-Id", "first"}})};
  EXPECT_EQ(failed.status, 500);
  EXPECT_EQ(failed.json()["error"]["type"], "server_error");
  EXPECT_EQ(failed.json()["error"]["code"], "internal_error");
  EXPECT_EQ(failed.header("X-Request-Id"), "first");
  const Answer next{client.call("POST", "/v1/chat/completions", kSecret)};
  EXPECT_EQ(next.json()["choices"][0]["message"]["content"], "fine");
  EXPECT_TRUE(eventually([&] { return server->in_flight() == 0; }));
  const std::string text = stopped_log();
  EXPECT_EQ(count(text, "[error]"), 1U) << text;
  EXPECT_THAT(text, HasSubstr("id=first: answering the request failed: the queue is on fire"));
  EXPECT_THAT(text, testing::Not(HasSubstr("secret")));
}

TEST_F(FailureTest, TheChoicesBeforeTheOneThatThrewAreCancelled) {
  std::atomic<int> submitted = 0;
  stub.paused = true;
  stub.on_submit = [&](const GenerationRequest&) {
    if (++submitted == 3) throw std::bad_alloc();
  };
  start("x");
  EXPECT_EQ(chat(R"("n":4)").status, 500);
  EXPECT_TRUE(eventually([&] { return engine->stats().aborted == 2; }));
  EXPECT_EQ(metric("tessera:requests_in_flight"), 0);
  EXPECT_EQ(metric("tessera:requests_received_total"), 2);
}

TEST_F(FailureTest, ATaskThatThrowsEndsOnlyItsRequest) {
  std::atomic<int> cancelled = 0;
  stub.on_cancel = [&] {
    if (cancelled++ < 2) throw std::runtime_error("cancelling failed");
  };
  start("one two three");
  HttpClient client(server->port());
  const std::string body = R"({"messages":[{"role":"user","content":"my secret"}],"stop":"two","stream":)";
  const Answer whole{client.call("POST", "/v1/chat/completions", body + "false}")};
  EXPECT_EQ(whole.status, 500);
  const Answer streamed{client.call("POST", "/v1/chat/completions", body + "true}")};
  EXPECT_EQ(streamed.status, 200);
  EXPECT_EQ(streamed.events().back()["error"]["code"], "internal_error");
  const Answer good{client.call("POST", "/v1/chat/completions", body + "false}")};
  EXPECT_EQ(good.json()["choices"][0]["message"]["content"], "one ");
  const std::string text = stopped_log();
  EXPECT_EQ(count(text, "[error]"), 2U) << text;
  EXPECT_THAT(text, testing::Not(HasSubstr("secret")));
}

}  // namespace
}  // namespace tessera
