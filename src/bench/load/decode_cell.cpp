#include "bench/load/decode_cell.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>

#include "bench/load/repetition.h"
#include "bench/report/statistics.h"

namespace tessera::bench {
namespace {

double thread_cpu_s() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

std::string rounded(double value, int decimals) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.*f", decimals, value);
  return text.data();
}

// A stream that goes on for ever: what it has begun again is kept, so that nothing measured is lost.
struct EndlessStream {
  std::unique_ptr<CompletionStream> now;
  std::vector<StreamTrace> before;
};

class Cell {
 public:
  Cell(LoadLoop& loop, const ServerFacts& server, const PromptPool& prompts, const RequestStyle& style,
       const DecodePlan& plan, Progress& progress)
      : loop_(loop), server_(server), prompts_(prompts), style_(style), plan_(plan), progress_(progress) {}

  DecodeCell measure() {
    streams_.resize(static_cast<std::size_t>(plan_.concurrency));
    for (std::size_t i = 0; i < streams_.size(); ++i) begin(i);
    wait_until_decoding();
    DecodeCell cell;
    if (decoding() == 0) {
      leave();
      cell.standing = ended_early_ > 0 ? Standing::kEndedEarly : Standing::kFailed;
      cell.remark = ended_early_ > 0   ? early_remark()
                    : problem_.empty() ? "No request gave a token in time."
                                       : problem_;
      return cell;
    }
    const ServerCounters before = fetch_counters(loop_, server_);
    const double cpu_before = thread_cpu_s();
    Window window{.begin = loop_.now()};
    window.end = window.begin + plan_.window_s;
    watch(window);
    const double cpu = thread_cpu_s() - cpu_before;
    const ServerCounters after = fetch_counters(loop_, server_);
    cell.figures = measure_window(traces(), window, plan_.slices);
    tell(cell, window, before, after);
    cell.facts["client_cpu_share"] = cpu / plan_.window_s;
    leave();
    judge(cell);
    return cell;
  }

 private:
  void begin(std::size_t i) {
    EndlessStream& stream = streams_[i];
    if (stream.now) stream.before.push_back(stream.now->trace());
    stream.now = std::make_unique<CompletionStream>(loop_);
    const std::int64_t length = plan_.context > 0 ? plan_.context : kShortPrompt;
    const auto prompt = prompts_.prompt(plan_.first_prompt + i, length);
    stream.now->start(completion_body(style_, prompt, plan_.max_tokens), plan_.max_tokens,
                      {.on_first_token = [this] { loop_.stop(); }, .on_end = [this, i] { on_end(i); }});
  }

  // By the server: at its length, early, or with an error.
  void on_end(std::size_t i) {
    const StreamTrace& trace = streams_[i].now->trace();
    if (!trace.error.empty()) {
      ++failed_;
      problem_ = trace.error;
      return;
    }
    if (trace.tokens < trace.asked_tokens) {
      ++ended_early_;
      early_tokens_ = trace.tokens;
      if (ended_early_ > 4 * plan_.concurrency) return;  // known well enough
    }
    loop_.at(loop_.now(), [this, i] {
      if (!leaving_) begin(i);
    });
  }

  std::int32_t decoding() const {
    return static_cast<std::int32_t>(std::ranges::count_if(streams_, [](const EndlessStream& stream) {
      return stream.now && stream.now->trace().has_begun() && !stream.now->trace().is_over();
    }));
  }

  // Until all decode, or nobody has joined for longer than anybody needed before.
  void wait_until_decoding() {
    const double began = loop_.now();
    double last_change = began;
    double longest = 0;
    std::int32_t most = 0;
    while (true) {
      const std::int32_t now_decoding = decoding();
      const double now = loop_.now();
      if (now_decoding > most) {
        longest = std::max(longest, now - last_change);
        last_change = now;
        most = now_decoding;
      }
      if (now_decoding == plan_.concurrency) return;
      if (failed_ + now_decoding >= plan_.concurrency && failed_ > 0) return;
      // The first prefill may take as long as it likes (within reason): nothing is known yet.
      if (most > 0 && now - last_change > std::max(plan_.patience_s, 2 * longest)) return;
      if (most == 0 && now - began > std::max(plan_.patience_s, 600.0)) return;
      if (ended_early_ > 4 * plan_.concurrency) return;
      progress_.now(name() + ": prefill, " + std::to_string(now_decoding) + " of " +
                    std::to_string(plan_.concurrency) + " streams decode");
      loop_.run_until(now + 0.25);
    }
  }

  void watch(const Window& window) {
    while (loop_.now() < window.end) {
      const double now = loop_.now();
      std::int64_t tokens = 0;
      for (const EndlessStream& stream : streams_) tokens += stream.now->trace().tokens;
      if (const double passed = now - window.begin; passed > 0.5) {
        progress_.now(name() + ": " + rounded(passed, 0) + " of " + rounded(plan_.window_s, 0) + " s, " +
                      std::to_string(decoding()) + " streams, " +
                      rounded(static_cast<double>(tokens - tokens_at_begin_) / passed, 1) + " tok/s");
      } else {
        tokens_at_begin_ = tokens;
      }
      loop_.run_until(std::min(window.end, now + 0.25));
    }
    // Arrivals just behind the window's end say how fast the tokens within it were made.
    loop_.run_until(window.end + std::min(1.0, 0.1 * plan_.window_s));
  }

  void leave() {
    leaving_ = true;
    for (EndlessStream& stream : streams_) stream.now->leave();
    // The server is at rest when it says so; without metrics it gets a fixed while.
    const double until = loop_.now() + 10;
    do {
      loop_.run_until(loop_.now() + 0.1);
      if (server_.has_metrics) {
        const ServerCounters counters = fetch_counters(loop_, server_);
        if (counters.running.value_or(0) + counters.waiting.value_or(0) == 0) return;
      }
    } while (server_.has_metrics && loop_.now() < until);
    loop_.run_until(loop_.now() + 0.5);
  }

  std::vector<const StreamTrace*> traces() const {
    std::vector<const StreamTrace*> out;
    for (const EndlessStream& stream : streams_) {
      for (const StreamTrace& trace : stream.before) out.push_back(&trace);
      out.push_back(&stream.now->trace());
    }
    return out;
  }

  void tell(DecodeCell& cell, const Window& window, const ServerCounters& before,
            const ServerCounters& after) {
    std::vector<double> first_token_ms, repetition;
    std::int64_t tokens = 0;
    bool counted = true;
    for (const StreamTrace* trace : traces()) {
      if (!trace->has_begun()) continue;
      first_token_ms.push_back((trace->arrivals.front().at - trace->sent) * 1e3);
      repetition.push_back(distinct_bigram_ratio(trace->text));
      tokens += trace->tokens;
      counted = counted && trace->counted_by_server;
      const std::int64_t length = plan_.context > 0 ? plan_.context : kShortPrompt;
      if (trace->prompt_tokens >= 0 && trace->prompt_tokens != length) inexact_ = trace->prompt_tokens;
    }
    auto& facts = cell.facts;
    facts["effective_concurrency"] = cell.figures.effective_concurrency;
    facts["tokens_per_s_per_stream"] = cell.figures.effective_concurrency > 0
                                           ? cell.figures.tokens_per_s / cell.figures.effective_concurrency
                                           : 0;
    facts["distinct_bigram_ratio"] = mean(repetition);
    facts["tokens_counted_by_server"] = counted ? 1 : 0;
    facts["mean_output_tokens"] = static_cast<double>(tokens) / static_cast<double>(streams_.size());
    facts["window_s"] = window.end - window.begin;
    for (const auto& [name_of_share, share] :
         {std::pair{"p50", 0.5}, std::pair{"p90", 0.9}, std::pair{"p99", 0.99}}) {
      facts[std::string("ttft_ms_") + name_of_share] = percentile(first_token_ms, share);
      facts[std::string("itl_ms_") + name_of_share] = percentile(cell.figures.gaps_ms, share);
    }
    facts["itl_ms_mean"] = mean(cell.figures.gaps_ms);
    const auto gained = [&](const std::optional<double>& from, const std::optional<double>& to) {
      return from && to ? std::optional<double>(*to - *from) : std::nullopt;
    };
    const auto drafted = gained(before.draft_tokens, after.draft_tokens);
    const auto accepted = gained(before.accepted, after.accepted);
    const auto drafts = gained(before.drafts, after.drafts);
    if (drafted && accepted && *drafted > 0) facts["acceptance"] = *accepted / *drafted;
    if (drafts && accepted && *drafts > 0) facts["tokens_per_step"] = 1 + *accepted / *drafts;
    for (std::size_t i = 0; i < after.accepted_at.size() && drafts && *drafts > 0; ++i) {
      const double was = i < before.accepted_at.size() ? before.accepted_at[i] : 0;
      facts["acceptance_at_" + std::to_string(i)] = (after.accepted_at[i] - was) / *drafts;
    }
    if (after.running) facts["server_running"] = *after.running;
    if (after.waiting) facts["server_waiting"] = *after.waiting;
    if (after.kv_usage) facts["server_kv_usage"] = *after.kv_usage;
    if (const auto preempted = gained(before.preemptions, after.preemptions))
      facts["preemptions"] = *preempted;
  }

  // The gravest first.
  void judge(DecodeCell& cell) const {
    const auto say = [&](Standing standing, std::string remark) {
      cell.standing = standing;
      cell.remark = std::move(remark);
    };
    const double effective = cell.figures.effective_concurrency;
    const double distinct = cell.facts.at("distinct_bigram_ratio");
    if (failed_ > 0) {
      say(Standing::kFailed, std::to_string(failed_) + " requests failed: " + problem_);
    } else if (inexact_ >= 0) {
      say(Standing::kInexactPrompt,
          "The server counts " + std::to_string(inexact_) + " prompt tokens where " +
              std::to_string(plan_.context > 0 ? plan_.context : kShortPrompt) + " were sent.");
    } else if (ended_early_ > 0) {
      say(Standing::kEndedEarly, early_remark());
    } else if (effective < 0.95 * plan_.concurrency) {
      say(Standing::kOverCapacity, "The server ran " + rounded(effective, 1) + " of " +
                                       std::to_string(plan_.concurrency) + " requests at a time.");
    } else if (distinct < kDegenerateBelow) {
      say(Standing::kDegenerate, "Only " + rounded(100 * distinct, 0) +
                                     " % of the output's word pairs are distinct (prose: 90 % and more).");
    } else if (std::abs(cell.figures.first_part - 1) > kSteadyWithin) {
      say(Standing::kUnsteady, "The first quarter of the window ran at " +
                                   rounded(cell.figures.first_part, 2) + " times the rate of the rest.");
    }
  }

  std::string early_remark() const {
    return std::to_string(ended_early_) + " requests ended by themselves, the last after " +
           std::to_string(early_tokens_) + " of " + std::to_string(plan_.max_tokens) +
           " tokens, although ignore_eos was asked for.";
  }

  std::string name() const {
    return "context " + std::to_string(plan_.context) + ", concurrency " + std::to_string(plan_.concurrency);
  }

  LoadLoop& loop_;
  const ServerFacts& server_;
  const PromptPool& prompts_;
  const RequestStyle& style_;
  const DecodePlan& plan_;
  Progress& progress_;
  std::vector<EndlessStream> streams_;
  std::int32_t failed_ = 0;
  std::int32_t ended_early_ = 0;
  std::int64_t early_tokens_ = 0;
  std::int64_t inexact_ = -1;
  std::int64_t tokens_at_begin_ = 0;
  std::string problem_;
  bool leaving_ = false;
};

}  // namespace

DecodeCell measure_decode(LoadLoop& loop, const ServerFacts& server, const PromptPool& prompts,
                          const RequestStyle& style, const DecodePlan& plan, Progress& progress) {
  return Cell(loop, server, prompts, style, plan, progress).measure();
}

}  // namespace tessera::bench
