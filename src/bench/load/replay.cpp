#include "bench/load/replay.h"

#include <algorithm>
#include <array>
#include <functional>
#include <memory>

#include "bench/load/completion_stream.h"
#include "bench/load/repetition.h"
#include "bench/report/statistics.h"

namespace tessera::bench {
namespace {

constexpr std::size_t kParts = 10;  // of a run, by the order of requests, for samples

// The serial number of a shared prefix's text: far from those of sessions.
std::uint64_t serial_of(const std::string& prefix) {
  return (std::uint64_t{1} << 40) + std::hash<std::string>()(prefix) % 1'000'000;
}

struct Answered {
  StreamTrace trace;
  double planned = 0;  // when it should have been sent
  std::int64_t prompt_tokens = 0;
};

class Replay {
 public:
  Replay(LoadLoop& loop, const PromptPool& prompts, const ReplayTrace& trace, const ReplayOptions& options,
         Progress& progress)
      : loop_(loop),
        prompts_(prompts),
        trace_(trace),
        options_(options),
        progress_(progress),
        players_(trace.sessions.size()) {
    for (const TraceSession& session : trace.sessions) requests_ += session.turns.size();
  }

  void run() {
    began_ = loop_.now() + 0.05;
    for (std::size_t i = 0; i < players_.size(); ++i)
      plan(i, began_ + trace_.sessions[i].at_s / options_.speed);
    const double until = began_ + options_.timeout_s;
    while (over_ < players_.size() && loop_.now() < until) {
      progress_.now(std::to_string(answered_.size()) + " of " + std::to_string(requests_) +
                    " requests answered, " + std::to_string(open_) + " open");
      loop_.run_until(std::min(until, loop_.now() + 0.25));
    }
    stopped_ = true;
    ended_ = loop_.now();
    for (Player& player : players_) {
      if (player.stream && !player.stream->trace().is_over()) ++cut_;
      player.stream.reset();
    }
    // Timers that are still to come name this object.
    if (over_ < players_.size()) loop_.run_until(loop_.now() + 0.1);
  }

  const std::vector<Answered>& answered() const { return answered_; }
  double seconds() const { return ended_ - began_; }
  std::size_t unanswered() const { return requests_ - answered_.size(); }

 private:
  struct Player {
    std::size_t turn = 0;
    std::vector<std::int32_t> prompt;  // so far
    std::unique_ptr<CompletionStream> stream;
    double planned = 0;
  };

  void plan(std::size_t i, double arrival) {
    const TraceTurn& turn = trace_.sessions[i].turns[players_[i].turn];
    const double when = arrival + turn.wait_s / options_.speed;
    players_[i].planned = when;
    loop_.at(when, [this, i, alive = std::weak_ptr<int>(alive_)] {
      if (!alive.expired() && !stopped_) send(i);
    });
  }

  void send(std::size_t i) {
    const TraceSession& session = trace_.sessions[i];
    Player& player = players_[i];
    const TraceTurn& turn = session.turns[player.turn];
    if (player.turn == 0) {
      if (session.prefix_tokens > 0)
        player.prompt = prompts_.prompt(serial_of(session.prefix), session.prefix_tokens);
      if (turn.new_tokens > 0) grow(player, prompts_.prompt(i, turn.new_tokens));
    } else {
      // The answer before is stood for by as much text; what a server has cached of it is its own text, so a
      // prefix cache finds the prompt before, and not the answer.
      const std::uint64_t serial = (std::uint64_t{i} << 16) + player.turn;
      grow(player, prompts_.passage(serial, session.turns[player.turn - 1].output_tokens + turn.new_tokens));
    }
    ++open_;
    player.stream = std::make_unique<CompletionStream>(loop_);
    player.stream->start(completion_body(options_.style, player.prompt, turn.output_tokens),
                         turn.output_tokens, {.on_end = [this, i] { on_end(i); }});
  }
  static void grow(Player& player, const std::vector<std::int32_t>& more) {
    player.prompt.insert(player.prompt.end(), more.begin(), more.end());
  }

  void on_end(std::size_t i) {
    Player& player = players_[i];
    --open_;
    answered_.push_back(
        {player.stream->trace(), player.planned, static_cast<std::int64_t>(player.prompt.size())});
    const bool failed = !player.stream->trace().error.empty();
    if (!failed && ++player.turn < trace_.sessions[i].turns.size()) return plan(i, loop_.now());
    ++over_;
    player.prompt = {};
    loop_.stop();
  }

  LoadLoop& loop_;
  const PromptPool& prompts_;
  const ReplayTrace& trace_;
  const ReplayOptions& options_;
  Progress& progress_;
  std::vector<Player> players_;
  std::vector<Answered> answered_;
  std::size_t requests_ = 0, open_ = 0, over_ = 0, cut_ = 0;
  double began_ = 0, ended_ = 0;
  bool stopped_ = false;
  const std::shared_ptr<int> alive_ = std::make_shared<int>(0);  // timers may outlive a replay that was cut
};

// `share` of the values; by tenths of the run besides.
void add_latency(BenchReport& report, Measurement m, const std::vector<double>& values, double share) {
  m.unit = "ms";
  m.higher_is_better = false;
  m.group = std::string(kLatency);
  m.value = percentile(values, share);
  const std::size_t parts = std::min(kParts, values.size() / 4);
  for (std::size_t p = 0; p < parts; ++p) {
    const std::vector<double> part(
        values.begin() + static_cast<std::ptrdiff_t>(values.size() * p / parts),
        values.begin() + static_cast<std::ptrdiff_t>(values.size() * (p + 1) / parts));
    m.samples.push_back(percentile(part, share));
  }
  report.measurements.push_back(std::move(m));
}

}  // namespace

void replay(LoadLoop& loop, const ServerFacts& server, const PromptPool& prompts, const ReplayTrace& trace,
            const ReplayOptions& options, Progress& progress, BenchReport& report) {
  const ServerCounters before = fetch_counters(loop, server);
  Replay run(loop, prompts, trace, options, progress);
  run.run();
  const ServerCounters after = fetch_counters(loop, server);

  std::vector<const Answered*> answered;
  for (const Answered& one : run.answered()) answered.push_back(&one);
  std::ranges::sort(answered, {}, [](const Answered* one) { return one->trace.sent; });
  std::vector<double> first_ms, each_ms, gap_ms, whole_ms, late_ms, repetition;
  std::size_t failed = 0, early = 0;
  std::int64_t tokens = 0, prompt_tokens = 0, cached = 0;
  std::string problem;
  for (const Answered* one : answered) {
    const StreamTrace& t = one->trace;
    late_ms.push_back((t.sent - one->planned) * 1e3);
    if (!t.error.empty() || !t.has_begun()) {
      ++failed;
      problem = t.error.empty() ? "no token came" : t.error;
      continue;
    }
    early += t.tokens < t.asked_tokens ? 1 : 0;
    tokens += t.tokens;
    prompt_tokens += one->prompt_tokens;
    cached += std::max<std::int64_t>(t.cached_tokens, 0);
    repetition.push_back(distinct_bigram_ratio(t.text));
    first_ms.push_back((t.arrivals.front().at - t.sent) * 1e3);
    whole_ms.push_back((t.arrivals.back().at - t.sent) * 1e3);
    const std::int64_t rest = t.tokens - t.arrivals.front().tokens;
    if (rest > 0)
      each_ms.push_back((t.arrivals.back().at - t.arrivals.front().at) * 1e3 / static_cast<double>(rest));
    for (std::size_t i = 1; i < t.arrivals.size(); ++i)
      gap_ms.push_back((t.arrivals[i].at - t.arrivals[i - 1].at) * 1e3);
  }

  Measurement m{
      .metric = "output throughput", .unit = "tok/s", .axes = options.axes, .series = options.series};
  const std::size_t unanswered = run.unanswered();
  if (failed + unanswered > 0) {
    m.standing = Standing::kFailed;
    m.remark = std::to_string(failed) + " requests failed" + (problem.empty() ? "" : " (" + problem + ")") +
               ", " + std::to_string(unanswered) + " were not answered.";
  } else if (early > 0) {
    m.standing = Standing::kEndedEarly;
    m.remark = std::to_string(early) + " answers were shorter than asked for.";
  } else if (mean(repetition) < kDegenerateBelow) {
    m.standing = Standing::kDegenerate;
    m.remark = "The output repeats itself.";
  }
  const Measurement shape = [&] {
    Measurement only = m;
    only.remark.clear();
    return only;
  }();
  m.value = static_cast<double>(tokens) / run.seconds();
  m.group = std::string(kShortDecode);
  m.facts = {{"requests", static_cast<double>(answered.size())},
             {"seconds", run.seconds()},
             {"prompt_tokens", static_cast<double>(prompt_tokens)},
             {"output_tokens", static_cast<double>(tokens)},
             {"cached_share",
              prompt_tokens > 0 ? static_cast<double>(cached) / static_cast<double>(prompt_tokens) : 0},
             {"distinct_bigram_ratio", mean(repetition)},
             {"sent_late_ms_p99", percentile(late_ms, 0.99)}};
  if (before.accepted && after.accepted && before.draft_tokens && *after.draft_tokens > *before.draft_tokens)
    m.facts["acceptance"] =
        (*after.accepted - *before.accepted) / (*after.draft_tokens - *before.draft_tokens);
  report.measurements.push_back(std::move(m));
  Measurement requests = shape;
  requests.metric = "request throughput";
  requests.unit = "1/s";
  requests.value = static_cast<double>(answered.size() - failed) / run.seconds();
  report.measurements.push_back(std::move(requests));
  for (const auto& [metric, values] :
       {std::pair<const char*, const std::vector<double>*>{"time to first token", &first_ms},
        {"time per output token", &each_ms},
        {"inter-token latency", &gap_ms},
        {"time to last token", &whole_ms}}) {
    for (const auto& [name, share] : {std::pair{" p50", 0.5}, std::pair{" p99", 0.99}}) {
      Measurement one = shape;
      one.metric = std::string(metric) + name;
      add_latency(report, std::move(one), *values, share);
    }
  }
  if (percentile(late_ms, 0.99) > 10)
    report.notes.push_back("Requests were sent late (p99 " +
                           std::to_string(static_cast<int>(percentile(late_ms, 0.99))) +
                           " ms): the client's machine is too busy to keep the schedule.");
}

}  // namespace tessera::bench
