#include "replay.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "bench/load/http_target.h"
#include "bench/load/load_loop.h"
#include "server/record/arrivals.h"
#include "server/record/replay.h"

namespace tessera {
namespace {

int fail(const Error& error) {
  fmt::print(stderr, "tessera: {}\n", error.message());
  return 2;
}

// Asks records of one loop, one after the other or at their times, and prints how each was answered.
class Replayer {
 public:
  Replayer(bench::LoadLoop& loop, const std::vector<RecordedRequest>& records, double timeout_s)
      : loop_(loop), records_(records), timeout_s_(timeout_s) {}

  // Each when the one before it was answered.
  void ask_in_turn() {
    asks_in_turn_ = true;
    begin();
    if (!records_.empty()) ask(0);
    wait();
  }
  // Each at its time, in seconds from now.
  void ask_at(const std::vector<double>& times) {
    asks_in_turn_ = false;
    begin();
    for (std::size_t i = 0; i < times.size(); ++i) loop_.at(loop_.now() + times[i], [this, i] { ask(i); });
    wait();
  }

  std::size_t asked() const { return asked_; }
  std::size_t as_recorded() const { return as_recorded_; }
  std::size_t most_in_flight() const { return most_in_flight_; }

 private:
  class Asked final : public bench::CallSink {
   public:
    Asked(Replayer& owner, const RecordedRequest& request) : record(request), owner_(owner) {}
    void on_head(int status) override { answer.status = status; }
    void on_body(std::string_view bytes, double) override { answer.body += bytes; }
    void on_end(const Result<void>& how) override {
      owner_.take(*this, how ? Result<ReplayAnswer>(std::move(answer)) : Result<ReplayAnswer>(how.error()));
    }

    const RecordedRequest& record;
    double began = 0;
    bool is_over = false;
    ReplayAnswer answer;
    std::unique_ptr<bench::HttpCall> call;

   private:
    Replayer& owner_;
  };

  void begin() {
    calls_.clear();
    for (const RecordedRequest& record : records_) calls_.push_back(std::make_unique<Asked>(*this, record));
    ended_ = 0;
  }
  void wait() {
    while (ended_ < calls_.size()) loop_.run_until(loop_.now() + 3600);
  }

  void ask(std::size_t i) {
    Asked& call = *calls_[i];
    call.began = loop_.now();
    call.call = loop_.send("POST", call.record.path, call.record.body, call);
    most_in_flight_ = std::max(most_in_flight_, ++in_flight_);
    // Told by place and round: the timer may come long after the call.
    loop_.at(call.began + timeout_s_, [this, i, round = round_] {
      if (round != round_ || calls_[i]->is_over) return;
      calls_[i]->call.reset();
      take(*calls_[i],
           Error{ErrorKind::kUnavailable, "--timeout", fmt::format("No answer came in {} s.", timeout_s_)});
    });
  }

  void take(Asked& call, const Result<ReplayAnswer>& answer) {
    const Replayed again = judge(call.record, answer, (loop_.now() - call.began) * 1e3);
    call.is_over = true;
    ++asked_;
    --in_flight_;
    if (again.is_as_recorded()) ++as_recorded_;
    fmt::print("{} {} id={} {:.0f} ms, recorded {:.0f} ms: {}\n", again.is_as_recorded() ? "ok  " : "FAIL",
               call.record.path, call.record.id, again.total_ms, call.record.total_ms, again.finding);
    std::fflush(stdout);
    if (++ended_ == calls_.size()) {
      ++round_;
      loop_.stop();
    } else if (asks_in_turn_) {
      loop_.at(loop_.now(), [this, next = ended_] { ask(next); });
    }
  }

  bench::LoadLoop& loop_;
  const std::vector<RecordedRequest>& records_;
  double timeout_s_;
  bool asks_in_turn_ = true;
  std::vector<std::unique_ptr<Asked>> calls_;  // of this round, [records]
  std::size_t round_ = 0;
  std::size_t ended_ = 0;  // of this round
  std::size_t in_flight_ = 0, most_in_flight_ = 0;
  std::size_t asked_ = 0, as_recorded_ = 0;
};

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
  app.add_option("--timing", flags.timing,
                 "none: one after the other; recorded: each at its time, so as many at once as there were")
      ->check(CLI::IsMember({"none", "recorded"}))
      ->capture_default_str();
  app.footer(R"(
Texts are compared where a request fixes them (temperature 0, or a seed).

Examples:
  tessera replay records/ --url http://localhost:8000
  tessera replay records/20261130T180915123Z-000001.json --repeat 20
  tessera replay records/ --timing recorded

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
  const bool keeps_time = flags.timing == "recorded";
  std::vector<double> times;
  if (keeps_time) {
    auto arrivals = arrivals_of(*records);
    if (!arrivals) return fail(arrivals.error());
    times = *std::move(arrivals);
  }
  Replayer replayer(**loop, *records, flags.timeout_s);
  for (int round = 0; round < flags.repeat; ++round)
    keeps_time ? replayer.ask_at(times) : replayer.ask_in_turn();
  fmt::print("{} of {} answered as recorded, at most {} at a time\n", replayer.as_recorded(),
             replayer.asked(), replayer.most_in_flight());
  return replayer.as_recorded() == replayer.asked() ? 0 : 1;
}

}  // namespace tessera
