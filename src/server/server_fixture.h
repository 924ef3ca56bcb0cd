// What the server's tests share: a server over a scripted engine, and a client.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "server/server.h"
#include "server/stub/http_client.h"
#include "server/stub/stub_engine.h"

namespace tessera {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;
using namespace std::chrono_literals;

// Read once: both are const, and reading them dominates a short test.
const Tokenizer& test_tokenizer();
const ChatTemplate& test_chat_template();

struct Answer : HttpAnswer {
  Json json() const { return Json::parse(body); }
  // The payloads of a stream's events, "[DONE]" left out.
  std::vector<Json> events() const {
    std::vector<Json> out;
    for (std::size_t at = 0; (at = body.find("data: ", at)) != std::string::npos;) {
      const std::size_t end = body.find("\n\n", at);
      const std::string data = body.substr(at + 6, end - at - 6);
      if (data != "[DONE]") out.push_back(Json::parse(data));
      at = end;
    }
    return out;
  }
};

struct ServerTest : testing::Test {
  ServerTest() {
    options.http.host = "127.0.0.1";
    options.http.port = 0;
    options.http.tick = 10ms;
    options.served_names = {"M", "second"};
    options.tool_call_parser = options.reasoning_parser = "kimi_k2";
    options.enable_auto_tool_choice = true;
    options.access_log = false;
    stub.info.vocab = test_tokenizer().vocab_size();
    stub.info.max_model_len = 512;
    stub.info.kv_tokens = 100'000;
    stub.info.fingerprint = "fp_stub";
    stub.info.memory = {{.rank = 0, .item = "kv cache", .planned = 4096, .used = 4096}};
    stub.info.end_tokens = {*test_tokenizer().id_of("<|im_end|>"), *test_tokenizer().id_of("[EOS]")};
  }
  ~ServerTest() override {
    if (server) server->stop();
  }

  void start(const std::string& script) {
    stub.script = *test_tokenizer().encode(script, ControlTokens::kRecognise);
    engine = std::make_unique<StubEngine>(stub);
    server = std::make_unique<Server>(options, ready);
    const auto started = server->start();
    ASSERT_TRUE(started.ok()) << started.error().message();
    server->attach(
        {.engine = engine.get(), .tokenizer = &test_tokenizer(), .chat_template = &test_chat_template()});
    ready.set_ready();
  }

  using SentHeaders = std::vector<std::pair<std::string, std::string>>;
  Answer request(const std::string& method, const std::string& path, const std::string& body = "",
                 const SentHeaders& headers = {}) {
    return {HttpClient(server->port()).call(method, path, body, headers)};
  }
  Answer get(const std::string& path) { return request("GET", path); }
  Answer post(const std::string& path, const std::string& body) { return request("POST", path, body); }
  Answer chat(const std::string& fields) {
    return post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"hi"}])" +
                                            (fields.empty() ? "" : "," + fields) + "}");
  }
  // The value of a metric, by name and a part of its labels.
  double metric(const std::string& name, const std::string& label = "") {
    std::istringstream lines(get("/metrics").body);
    for (std::string line; std::getline(lines, line);) {
      if (!line.starts_with(name + "{") && !line.starts_with(name + " ")) continue;
      if (line.find(label) != std::string::npos) return std::stod(line.substr(line.rfind(' ')));
    }
    return -1;
  }
  // The server works on threads of its own; what must come to hold is waited for, with a limit.
  static bool eventually(const std::function<bool()>& holds) {
    for (int i = 0; i < 500; ++i) {
      if (holds()) return true;
      std::this_thread::sleep_for(10ms);
    }
    return false;
  }

  ServerOptions options;
  StubOptions stub;
  ReadyState ready;
  std::unique_ptr<StubEngine> engine;
  std::unique_ptr<Server> server;
};

}  // namespace tessera
