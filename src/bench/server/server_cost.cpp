#include "bench/server/server_cost.h"

#include <algorithm>
#include <atomic>
#include <ctime>
#include <thread>

#include "base/check.h"
#include "bench/report/process_time.h"
#include "bench/report/statistics.h"
#include "server/server.h"
#include "server/stub/http_client.h"
#include "server/stub/stub_engine.h"

namespace tessera::bench {
namespace {

using Seconds = std::chrono::duration<double>;

double thread_seconds() {
  timespec time{};
  TS_CHECK(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time) == 0);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

struct Driven {
  std::vector<double> latencies_ms;
  double cpu_s = 0;
  std::int64_t events = 0;
};

// Sends requests one after the other until told to stop.
Driven drive(std::uint16_t port, const std::string& body, const std::atomic<bool>& stop) {
  HttpClient client(port);
  Driven driven;
  const double cpu_before = thread_seconds();
  while (!stop) {
    const auto began = Clock::now();
    const HttpAnswer answer = client.call("POST", "/v1/chat/completions", body);
    TS_CHECK(answer.status == 200, answer.status, answer.body);
    driven.latencies_ms.push_back(Seconds(Clock::now() - began).count() * 1e3);
    constexpr std::string_view kPiece = R"("content":")";
    for (std::size_t at = 0; (at = answer.body.find(kPiece, at)) != std::string::npos; at += kPiece.size())
      ++driven.events;
  }
  driven.cpu_s = thread_seconds() - cpu_before;
  return driven;
}

}  // namespace

Result<ServerCost> measure_server(const ServerCostOptions& options) {
  TS_TRY(const Tokenizer tokenizer, Tokenizer::load(options.model));
  TS_TRY(const ChatTemplate chat, ChatTemplate::load(options.model));
  StubOptions stub;
  stub.info.vocab = tokenizer.vocab_size();
  stub.info.max_model_len = 8192;
  stub.info.kv_tokens = 1'000'000;
  TS_TRY(stub.script,
         tokenizer.encode("The quick brown fox jumps over the lazy dog. ", ControlTokens::kAsText));
  while (stub.script.size() < static_cast<std::size_t>(options.tokens)) {
    const std::vector<std::int32_t> again = stub.script;
    stub.script.insert(stub.script.end(), again.begin(), again.end());
  }
  StubEngine engine(stub);
  ReadyState ready;
  ServerOptions server_options;
  server_options.http.host = "127.0.0.1";
  server_options.http.port = 0;
  server_options.http.io_threads = options.io_threads;
  server_options.served_names = {"stub"};
  server_options.access_log = false;
  Server server(server_options, ready);
  TS_TRY(server.start());
  server.attach({.engine = &engine, .tokenizer = &tokenizer, .chat_template = &chat});
  ready.set_ready();

  const std::string body =
      R"({"messages":[{"role":"user","content":"What does the word harbour mean?"}],"max_tokens":)" +
      std::to_string(options.tokens) + (options.stream ? R"(,"stream":true})" : "}");
  std::atomic<bool> stop = false;
  std::vector<std::thread> clients;
  std::vector<Driven> all(static_cast<std::size_t>(options.connections));
  const double cpu_before = process_seconds();
  const auto began = Clock::now();
  for (Driven& mine : all) {
    clients.emplace_back([&] { mine = drive(server.port(), body, stop); });
  }
  std::this_thread::sleep_for(Seconds(options.seconds));
  stop = true;
  for (std::thread& client : clients) client.join();
  const double took = Seconds(Clock::now() - began).count();
  const double cpu = process_seconds() - cpu_before;
  server.stop();

  ServerCost cost;
  double client_cpu = 0;
  double events = 0;
  for (const Driven& mine : all) {
    cost.latencies_ms.insert(cost.latencies_ms.end(), mine.latencies_ms.begin(), mine.latencies_ms.end());
    client_cpu += mine.cpu_s;
    events += static_cast<double>(mine.events);
  }
  if (cost.latencies_ms.empty())
    return Error{ErrorKind::kUnavailable, "bench server", "No request was answered in the time given."};
  const auto requests = static_cast<double>(cost.latencies_ms.size());
  cost.requests_per_s = requests / took;
  cost.client_cpu_us = client_cpu / requests * 1e6;
  cost.cpu_us = (cpu - client_cpu) / requests * 1e6;
  if (options.stream) cost.events = events / requests;
  return cost;
}

void add_measurements(const ServerCostOptions& options, const ServerCost& cost, BenchReport& report) {
  const std::vector<std::pair<std::string, double>> axes = {{"connections", options.connections},
                                                            {"tokens", options.tokens}};
  const std::string series = options.stream ? "streamed" : "whole";
  std::map<std::string, double> facts = {{"client_cpu_us", cost.client_cpu_us},
                                         {"cpu_us_a_token", cost.cpu_us / options.tokens}};
  if (options.stream) facts["events_a_request"] = cost.events;
  report.measurements.push_back({.metric = "requests",
                                 .unit = "requests/s",
                                 .axes = axes,
                                 .series = series,
                                 .value = cost.requests_per_s});
  report.measurements.push_back({.metric = "server CPU a request",
                                 .unit = "us",
                                 .axes = axes,
                                 .series = series,
                                 .value = cost.cpu_us,
                                 .higher_is_better = false,
                                 .facts = std::move(facts)});
  report.measurements.push_back({.metric = "latency of a request",
                                 .unit = "ms",
                                 .axes = axes,
                                 .series = series,
                                 .value = median(cost.latencies_ms),
                                 .higher_is_better = false,
                                 .group = std::string(kLatency),
                                 .facts = {{"latency_ms_p50", median(cost.latencies_ms)},
                                           {"latency_ms_p90", percentile(cost.latencies_ms, 0.9)},
                                           {"latency_ms_p99", percentile(cost.latencies_ms, 0.99)}}});
}

}  // namespace tessera::bench
