// The server's own cost: short chat requests per second over loopback keep-alive connections against a
// StubEngine that answers at once, so that nothing but HTTP, JSON, template, tokenizer and output code is
// measured. Client and server share the machine's cores; the client is a plain blocking socket per
// connection.
//
//   server_load MODEL_FOLDER [--connections N] [--seconds S] [--io-threads N] [--tokens N] [--stream]
#include <sys/resource.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <string>
#include <thread>

#include "base/check.h"
#include "server/server.h"
#include "server/stub/http_client.h"
#include "server/stub/stub_engine.h"

namespace tessera {
namespace {

using Seconds = std::chrono::duration<double>;

struct Arguments {
  std::string model;
  int connections = 32;
  double seconds = 5;
  int io_threads = 2;
  int tokens = 8;  // of each answer
  bool stream = false;
};

// Sends requests one after the other until told to stop; the seconds that each took.
std::vector<double> drive(std::uint16_t port, const std::string& body, const std::atomic<bool>& stop) {
  HttpClient client(port);
  std::vector<double> times;
  while (!stop) {
    const auto began = Clock::now();
    const HttpAnswer answer = client.call("POST", "/v1/chat/completions", body);
    TS_CHECK(answer.status == 200, answer.status, answer.body);
    times.push_back(Seconds(Clock::now() - began).count());
  }
  return times;
}

Result<void> measure(const Arguments& arguments) {
  TS_TRY(const Tokenizer tokenizer, Tokenizer::load(arguments.model));
  TS_TRY(const ChatTemplate chat, ChatTemplate::load(arguments.model));
  StubOptions stub;
  stub.info.vocab = tokenizer.vocab_size();
  stub.info.max_model_len = 8192;
  stub.info.kv_tokens = 1'000'000;
  TS_TRY(stub.script,
         tokenizer.encode("The quick brown fox jumps over the lazy dog. ", ControlTokens::kAsText));
  while (stub.script.size() < static_cast<std::size_t>(arguments.tokens)) {
    stub.script.insert(stub.script.end(), stub.script.begin(), stub.script.end());
  }
  StubEngine engine(stub);
  ReadyState ready;
  ServerOptions options;
  options.http.host = "127.0.0.1";
  options.http.port = 0;
  options.http.io_threads = arguments.io_threads;
  options.served_names = {"stub"};
  options.access_log = false;
  Server server(options, ready);
  TS_TRY(server.start());
  server.attach({.engine = &engine, .tokenizer = &tokenizer, .chat_template = &chat});
  ready.set_ready();

  std::string body =
      R"({"messages":[{"role":"user","content":"What does the word harbour mean?"}],"max_tokens":)" +
      std::to_string(arguments.tokens) + (arguments.stream ? R"(,"stream":true})" : "}");
  std::atomic<bool> stop = false;
  std::vector<std::thread> clients;
  std::vector<std::vector<double>> times(static_cast<std::size_t>(arguments.connections));
  const auto began = Clock::now();
  for (auto& mine : times) {
    clients.emplace_back([&] { mine = drive(server.port(), body, stop); });
  }
  std::this_thread::sleep_for(Seconds(arguments.seconds));
  stop = true;
  for (std::thread& client : clients) client.join();
  const double took = Seconds(Clock::now() - began).count();
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto cpu = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) * 1e-6;
  };
  std::vector<double> all;
  for (const auto& mine : times) all.insert(all.end(), mine.begin(), mine.end());
  std::ranges::sort(all);
  const auto count = static_cast<double>(all.size());
  std::printf(
      "%d connections, %d io threads, %d tokens%s: %.0f requests/s, median %.2f ms, p99 %.2f ms, "
      "%.0f us of CPU a request (client and stub included)\n",
      arguments.connections, arguments.io_threads, arguments.tokens, arguments.stream ? ", streamed" : "",
      count / took, all[all.size() / 2] * 1e3, all[all.size() * 99 / 100] * 1e3,
      (cpu(usage.ru_utime) + cpu(usage.ru_stime)) * 1e6 / count);
  server.stop();
  return {};
}

}  // namespace
}  // namespace tessera

int main(int count, char** values) {
  tessera::Arguments arguments;
  for (int i = 1; i < count; ++i) {
    const std::string flag = values[i];
    const auto value = [&] { return i + 1 < count ? std::string(values[++i]) : std::string("0"); };
    if (flag == "--connections") {
      arguments.connections = std::stoi(value());
    } else if (flag == "--seconds") {
      arguments.seconds = std::stod(value());
    } else if (flag == "--io-threads") {
      arguments.io_threads = std::stoi(value());
    } else if (flag == "--tokens") {
      arguments.tokens = std::stoi(value());
    } else if (flag == "--stream") {
      arguments.stream = true;
    } else {
      arguments.model = flag;
    }
  }
  const auto done = tessera::measure(arguments);
  if (done) return 0;
  std::fprintf(stderr, "server_load: %s\n", done.error().message().c_str());
  return 1;
}
