// What clients see of the service: routes, keys, limits, metrics, leaving and draining.
#include <ctime>
#include <random>

#include "base/slowdown.h"
#include "base/test_seed.h"
#include "server/server_fixture.h"

namespace tessera {
namespace {

TEST_F(ServerTest, AClientThatLeavesFreesItsRequest) {  // vllm#54947
  stub.paused = true;
  start("x");
  std::vector<std::unique_ptr<HttpClient>> clients;
  for (int i = 0; i < 50; ++i) {
    const std::string body =
        std::string(R"({"messages":[{"role":"user","content":"Count upward."}],"stream":)") +
        (i % 2 == 0 ? "true}" : "false}");
    clients.push_back(std::make_unique<HttpClient>(server->port()));
    const std::string text =
        "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) +
        "\r\n\r\n" + body;
    clients.back()->send(text);
  }
  ASSERT_TRUE(eventually([&] { return engine->stats().waiting == 50; }));
  clients.clear();
  EXPECT_TRUE(eventually([&] { return engine->stats().waiting == 0; }));
  EXPECT_TRUE(eventually([&] { return server->in_flight() == 0; }));
  EXPECT_EQ(metric("tessera:requests_aborted_total"), 50);
  EXPECT_EQ(metric("vllm:request_success_total", "finished_reason=\"abort\""), 50);
}

TEST_F(ServerTest, TheBooksBalance) {  // vllm#8115
  start("some words");
  for (int i = 0; i < 20; ++i) chat(i % 2 == 0 ? R"("max_tokens":1)" : "");
  for (int i = 0; i < 5; ++i) chat(R"("temperature":-1)");
  EXPECT_EQ(metric("tessera:requests_received_total"), 20);
  EXPECT_EQ(metric("tessera:requests_finished_total"), 20);
  EXPECT_EQ(metric("tessera:requests_in_flight"), 0);
  EXPECT_EQ(metric("vllm:time_to_first_token_seconds_count"), 20);
  EXPECT_EQ(metric("vllm:time_to_first_token_seconds_bucket", "le=\"+Inf\""), 20);
  EXPECT_EQ(metric("vllm:request_success_total", "finished_reason=\"length\""), 10);
  EXPECT_EQ(metric("tessera:http_requests_total", "path=\"/v1/chat/completions\",status=\"400\""), 5);
  EXPECT_GT(metric("process_start_time_seconds"), 1e9);
  EXPECT_GT(metric("process_resident_memory_bytes"), 1e6);
}

// vllm#8115, with clients that leave in every state and requests that are wrong.
TEST_F(ServerTest, TheBooksBalanceWhenClientsLeaveAndCountersNeverFall) {
  stub.step_delay = 1ms;
  start("some words that take some steps");
  std::mt19937 random(test_seed());
  double received = 0;
  for (int i = 0; i < 120; ++i) {
    const std::string body = R"({"messages":[{"role":"user","content":"u"}],"stream":)" +
                             std::string(random() % 2 == 0 ? "true" : "false") +
                             (i % 5 == 0 ? ",\"temperature\":-1}" : "}");
    if (i % 3 == 0) {
      HttpClient client(server->port());
      client.send("POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: " +
                  std::to_string(body.size()) + "\r\n\r\n" + body);
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 5'000));  // then it leaves
    } else {
      post("/v1/chat/completions", body);
    }
    const std::string scrape = get("/metrics").body;  // all of one moment
    const auto books = [&](const std::string& name) {
      const std::size_t line = scrape.find("\ntessera:requests_" + name + "{") + 1;
      const std::size_t end = scrape.find('\n', line);
      return std::stod(scrape.substr(scrape.rfind(' ', end), end));
    };
    EXPECT_GE(books("received_total"), received);
    received = books("received_total");
    EXPECT_EQ(received,
              books("finished_total") + books("aborted_total") + books("failed_total") + books("in_flight"));
  }
  ASSERT_TRUE(eventually([&] { return server->in_flight() == 0; }));
  received = metric("tessera:requests_received_total");
  const double finished = metric("tessera:requests_finished_total");
  EXPECT_EQ(metric("tessera:requests_in_flight"), 0);
  EXPECT_EQ(received, finished + metric("tessera:requests_aborted_total"));
  EXPECT_GE(finished, 64);  // the 80 that stayed, less the 16 wrong ones
  EXPECT_LE(metric("vllm:time_to_first_token_seconds_count"), received);
  EXPECT_GE(metric("vllm:time_to_first_token_seconds_count"), finished);
  EXPECT_EQ(metric("vllm:e2e_request_latency_seconds_count"), finished);
}

TEST_F(ServerTest, HistogramsAddUp) {
  start("one two three");
  chat(R"("n":3)");
  EXPECT_EQ(metric("vllm:request_max_num_generation_tokens_count"), 1);
  EXPECT_EQ(metric("vllm:request_prefill_kv_computed_tokens_count"), 3);
  EXPECT_GT(metric("vllm:iteration_tokens_total_count"), 0);
  EXPECT_EQ(metric("vllm:iteration_tokens_total_count"),
            metric("vllm:iteration_tokens_total_bucket", "le=\"+Inf\""));
  EXPECT_EQ(metric("vllm:iteration_tokens_total_count"), metric("tessera:engine_steps_total"));
  EXPECT_EQ(metric("vllm:iteration_tokens_total_sum"), metric("vllm:generation_tokens_total"));
}

TEST_F(ServerTest, KeysAreAskedForWhereTheyMatter) {
  options.api_keys = {"first-key", "second-key"};
  start("x");
  const auto status = [&](const std::string& path, const std::string& header) {
    return request("GET", path, "", header.empty() ? SentHeaders{} : SentHeaders{{"Authorization", header}})
        .status;
  };
  EXPECT_EQ(status("/v1/models", ""), 401);
  for (const char* wrong : {"Bearer ", "Bearer first-kez", "Bearer first-key-and", "Bearer first",
                            "first-key", "Basic first-key"}) {
    EXPECT_EQ(status("/v1/models", wrong), 401) << wrong;
  }
  EXPECT_EQ(status("/v1/models", "Bearer first-key"), 200);
  EXPECT_EQ(status("/v1/models", "bearer second-key"), 200);
  EXPECT_EQ(status("/health", ""), 200);
  EXPECT_EQ(status("/metrics", ""), 200);
  const Answer refused = chat("");
  EXPECT_EQ(refused.status, 401);
  EXPECT_EQ(refused.json()["error"]["code"], "invalid_api_key");
}

TEST_F(ServerTest, HealthTellsThePhaseUntilItIsReady) {
  start("x");
  ready.set_phase("loading weights", 0.25, "6 of 24 MB");
  const Answer loading = get("/health");
  EXPECT_EQ(loading.status, 503);
  EXPECT_EQ(loading.json()["phase"], "loading weights");
  EXPECT_EQ(loading.json()["progress"], 0.25);
  const Answer refused = chat("");
  EXPECT_EQ(refused.status, 503);
  EXPECT_EQ(refused.header("Retry-After"), "2");
  ready.set_ready();
  EXPECT_EQ(get("/health").status, 200);
}

TEST_F(ServerTest, UnknownPathsModelsAndMethodsAreNamed) {
  start("x");
  EXPECT_EQ(get("/v1/nothing").status, 404);
  const Answer method = get("/v1/chat/completions");
  EXPECT_EQ(method.status, 405);
  EXPECT_EQ(method.header("Allow"), "POST");
  const Answer model = chat(R"("model":"gpt-9")");
  EXPECT_EQ(model.status, 404);
  EXPECT_EQ(model.json()["error"]["code"], "model_not_found");
  EXPECT_EQ(get("/v1/models/second").json()["id"], "second");
  EXPECT_EQ(get("/v1/models/third").status, 404);
}

TEST_F(ServerTest, TooManyAtOnceAreAnswered429) {
  options.max_concurrent_requests = 1;
  stub.paused = true;
  start("x");
  std::thread first([&] { EXPECT_EQ(chat("").status, 200); });
  ASSERT_TRUE(eventually([&] { return engine->stats().waiting == 1; }));
  const Answer second = chat("");
  EXPECT_EQ(second.status, 429);
  EXPECT_EQ(second.header("Retry-After"), "1");
  engine->resume();
  first.join();
}

TEST_F(ServerTest, DrainingFinishesWhatRuns) {
  stub.paused = true;
  start("last words");
  std::thread running([&] { EXPECT_EQ(chat("").json()["choices"][0]["message"]["content"], "last words"); });
  ASSERT_TRUE(eventually([&] { return engine->stats().waiting == 1; }));
  EXPECT_FALSE(server->drain(20ms));
  engine->resume();
  EXPECT_TRUE(server->drain(5s));
  running.join();
}

TEST_F(ServerTest, RequestIdsAreTheClientsIfTheyAreClean) {
  start("x");
  const auto id_for = [&](const std::string& sent) {
    return std::string(request("GET", "/v1/models", "", {{"X-Request-Id", sent}}).header("X-Request-Id"));
  };
  EXPECT_EQ(id_for("abc-123"), "abc-123");
  EXPECT_NE(id_for("a b"), "a b");
  EXPECT_NE(id_for(std::string(200, 'a')), std::string(200, 'a'));
}

TEST_F(ServerTest, BrowsersAreToldWhatTheyMayDo) {
  options.cors_origins = {"https://a.example"};
  start("x");
  const Answer asked = request("OPTIONS", "/v1/chat/completions", "", {{"Origin", "https://a.example"}});
  EXPECT_EQ(asked.status, 204);
  EXPECT_EQ(asked.header("Access-Control-Allow-Origin"), "https://a.example");
  const Answer other = request("OPTIONS", "/v1/chat/completions", "", {{"Origin", "https://b.example"}});
  EXPECT_EQ(other.header("Access-Control-Allow-Origin"), "");
}

TEST_F(ServerTest, CredentialsNeedTheOriginByName) {
  options.cors_credentials = true;
  start("x");
  const Answer answer = request("GET", "/version", "", {{"Origin", "https://a.example"}});
  EXPECT_EQ(answer.header("Access-Control-Allow-Origin"), "https://a.example");
  EXPECT_EQ(answer.header("Access-Control-Allow-Credentials"), "true");
  EXPECT_EQ(answer.header("Vary"), "Origin");
}

TEST_F(ServerTest, LargeRequestsAreWorkedOnAsideAndAnswered) {
  options.inline_body_bytes = 100;
  stub.info.max_model_len = 100'000;
  start("x");
  EXPECT_EQ(post("/v1/completions", Json{{"prompt", std::string(50'000, 'a')}}.dump()).status, 200);
  EXPECT_EQ(post("/v1/completions", "{\"prompt\":" + std::string(50'000, '[')).status, 400);
}

TEST_F(ServerTest, TextThatCannotFitIsRefusedWithoutTokenisingIt) {
  start("x");
  const std::clock_t began = std::clock();  // CPU time of all threads: machines that test are often busy
  for (const std::string& path : {std::string("/v1/completions"), std::string("/v1/chat/completions")}) {
    const std::string text(5'000'000, 'a');
    const Json messages = Json::array({Json{{"role", "user"}, {"content", text}}});
    const Answer refused = post(path, Json{{"prompt", text}, {"messages", messages}}.dump());
    EXPECT_EQ(refused.status, 400);
    EXPECT_EQ(refused.json()["error"]["code"], "context_length_exceeded");
  }
  EXPECT_LT(std::clock() - began, 2 * kSlowdown * CLOCKS_PER_SEC);
}

TEST_F(ServerTest, SilenceIsFilledWithPings) {  // vllm#50604
  options.ping_interval = 30ms;
  stub.paused = true;
  start("x");
  std::thread resumer([&] {
    std::this_thread::sleep_for(150ms);
    engine->resume();
  });
  EXPECT_THAT(chat(R"("stream":true)").body, HasSubstr(": ping\n\n"));
  resumer.join();
}

TEST_F(ServerTest, RefusesOptionsItDoesNotKnow) {
  options.tool_call_parser = "hermes";
  server = std::make_unique<Server>(options, ready);
  const auto started = server->start();
  ASSERT_FALSE(started.ok());
  EXPECT_EQ(started.error().where, "--tool-call-parser");
}

}  // namespace
}  // namespace tessera
