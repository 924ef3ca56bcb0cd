#include "replay.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>

#include "bench/load/http_target.h"
#include "bench/load/load_loop.h"
#include "server/record/replay.h"

namespace tessera {
namespace {

int fail(const Error& error) {
  fmt::print(stderr, "tessera: {}\n", error.message());
  return 2;
}

}  // namespace

void declare_replay_flags(CLI::App& app, ReplayFlags& flags) {
  app.add_option("records", flags.records, "A record, or a folder of them (serve --record-requests)")
      ->required();
  app.add_option("--url", flags.url, "The server to ask")->capture_default_str();
  app.add_option("--api-key", flags.api_key,
                 "Sent with each request; records hold no keys (also from TESSERA_API_KEY)");
  app.add_option("--timeout", flags.timeout_s, "Seconds that one request may take")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--repeat", flags.repeat, "Ask everything so many times")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.footer(R"(
Requests are asked one after the other. Texts are compared where a request fixes them (temperature 0, or a seed).

Examples:
  tessera replay records/ --url http://localhost:8000
  tessera replay records/20261130T180915123Z-000001.json --repeat 20

Exit codes: 0 answered as recorded, 1 not, 2 wrong usage.)");
}

int run_replay(const ReplayFlags& flags) {
  const auto records = load_records(flags.records);
  if (!records) return fail(records.error());
  auto target = bench::parse_target(flags.url);
  if (!target) return fail(target.error());
  target->api_key = flags.api_key;
  auto loop = bench::LoadLoop::open(*std::move(target));
  if (!loop) return fail(loop.error());
  const SendRequest send = [&](const std::string& path, const std::string& body) -> Result<ReplayAnswer> {
    TS_TRY(bench::HttpReply reply, (*loop)->fetch("POST", path, body, flags.timeout_s));
    return ReplayAnswer{.status = reply.status, .body = std::move(reply.body)};
  };
  std::size_t asked = 0;
  std::size_t as_recorded = 0;
  for (int round = 0; round < flags.repeat; ++round) {
    for (const RecordedRequest& record : *records) {
      const Replayed again = replay(record, send);
      ++asked;
      if (again.is_as_recorded()) ++as_recorded;
      fmt::print("{} {} id={} {:.0f} ms, recorded {:.0f} ms: {}\n", again.is_as_recorded() ? "ok  " : "FAIL",
                 record.path, record.id, again.total_ms, record.total_ms, again.finding);
      std::fflush(stdout);
    }
  }
  fmt::print("{} of {} answered as recorded\n", as_recorded, asked);
  return as_recorded == asked ? 0 : 1;
}

}  // namespace tessera
