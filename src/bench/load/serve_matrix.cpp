#include "bench/load/serve_matrix.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "bench/load/decode_cell.h"
#include "bench/load/prefill.h"
#include "bench/report/statistics.h"

namespace tessera::bench {
namespace {

constexpr std::int64_t kMostTokens = 16'384;  // of a stream, unless told otherwise
constexpr std::int64_t kFewestTokens = 64;    // below this there is nothing to watch
constexpr std::int64_t kFewestPrefill = 128;  // a shorter prompt's time is the request's, not the prefill's

using Axes = std::vector<std::pair<std::string, double>>;

std::string figure(double value) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), value < 100 ? "%.1f" : "%.0f", value);
  return text.data();
}

class ServeMatrix {
 public:
  ServeMatrix(LoadLoop& loop, const ServerFacts& server, const PromptPool& prompts,
              const MatrixOptions& options, Progress& progress, BenchReport& report)
      : loop_(loop),
        server_(server),
        prompts_(prompts),
        options_(options),
        progress_(progress),
        report_(report) {}

  void run() {
    warm_up();
    for (const std::int64_t context : options_.contexts) {
      prefill(context);
      for (const std::int32_t concurrency : options_.concurrencies) decode(context, concurrency);
    }
    report_.headline = headline();
  }

 private:
  std::uint64_t take_prompts(std::uint64_t count) {
    return std::exchange(next_prompt_, next_prompt_ + count);
  }

  // The largest batch on the shortest context: kernels load, graphs are captured, caches grow.
  void warm_up() {
    if (options_.warm_up_s <= 0) {
      report_.notes.push_back("No warm-up: the first cells may be cold.");
      return;
    }
    const std::int64_t context = options_.contexts.front();
    std::int32_t concurrency = options_.concurrencies.back();
    while (concurrency > 1 && !misfit(context, concurrency).empty()) concurrency /= 2;
    if (!misfit(context, concurrency).empty()) return;
    DecodePlan plan = plan_of(context, concurrency);
    plan.window_s = options_.warm_up_s;
    const DecodeCell cell = measure_decode(loop_, server_, prompts_, options_.style, plan, progress_);
    progress_.done("warm-up, thrown away: " + figure(cell.figures.tokens_per_s) + " tok/s");
  }

  std::int64_t max_tokens(std::int64_t context) const {
    std::int64_t most = options_.max_tokens.value_or(kMostTokens);
    const std::int64_t length = std::max(context, kShortPrompt);
    if (server_.context) most = std::min(most, *server_.context - length);
    if (const auto kv = kv_tokens()) most = std::min(most, *kv - length);
    return most;
  }
  std::optional<std::int64_t> kv_tokens() const {
    return options_.kv_tokens ? options_.kv_tokens : server_.kv_tokens;
  }

  // Why a cell cannot be measured as asked; empty when it can, as far as is known.
  std::string misfit(std::int64_t context, std::int32_t concurrency) const {
    const std::int64_t length = std::max(context, kShortPrompt);
    if (server_.context && length + kFewestTokens > *server_.context) {
      return std::to_string(length) + " tokens and " + std::to_string(kFewestTokens) +
             " more are over the server's context of " + std::to_string(*server_.context) + ".";
    }
    const auto kv = kv_tokens();
    if (kv && !options_.measure_overflow && concurrency * (length + kFewestTokens) > *kv) {
      return std::to_string(concurrency) + " sequences of " + std::to_string(length) +
             " tokens are over the " + std::to_string(*kv) + " that the cache holds.";
    }
    return {};
  }

  DecodePlan plan_of(std::int64_t context, std::int32_t concurrency) {
    return {.context = context,
            .concurrency = concurrency,
            .window_s = options_.window_s,
            .slices = options_.slices,
            .max_tokens = max_tokens(context),
            .patience_s = options_.patience_s,
            .first_prompt = take_prompts(static_cast<std::uint64_t>(concurrency))};
  }

  void prefill(std::int64_t context) {
    if (options_.prefill_samples <= 0 || context < kFewestPrefill) return;
    const Axes axes = {{"context", static_cast<double>(context)}};
    Measurement rate{
        .metric = "prefill throughput", .unit = "tok/s", .axes = axes, .group = std::string(kPrefill)};
    Measurement first{.metric = "time to first token",
                      .unit = "ms",
                      .axes = axes,
                      .higher_is_better = false,
                      .group = std::string(kLatency)};
    if (const std::string why = misfit(context, 1); !why.empty()) {
      rate.standing = first.standing = Standing::kDoesNotFit;
      rate.remark = why;
    } else {
      const PrefillPlan plan{
          .context = context,
          .samples = options_.prefill_samples,
          .first_prompt = take_prompts(static_cast<std::uint64_t>(options_.prefill_samples + 1))};
      PrefillFigures figures = measure_prefill(loop_, server_, prompts_, options_.style, plan, progress_);
      rate.standing = first.standing = figures.standing;
      rate.remark = figures.remark;
      rate.value = median(figures.tokens_per_s);
      if (!figures.server_tokens_per_s.empty())
        rate.facts["server_tokens_per_s"] = median(figures.server_tokens_per_s);
      rate.samples = std::move(figures.tokens_per_s);
      first.value = median(figures.first_token_ms);
      first.samples = std::move(figures.first_token_ms);
      progress_.done("prefill of " + std::to_string(context) + " tokens: " + figure(rate.value) + " tok/s" +
                     (rate.counts() ? "" : " (" + std::string(name_of(rate.standing)) + ")"));
    }
    report_.measurements.push_back(std::move(rate));
    report_.measurements.push_back(std::move(first));
  }

  void decode(std::int64_t context, std::int32_t concurrency) {
    const Axes axes = {{"context", static_cast<double>(context)},
                       {"concurrency", static_cast<double>(concurrency)}};
    const bool is_long = context >= options_.long_context;
    Measurement rate{.metric = "decode throughput",
                     .unit = "tok/s",
                     .axes = axes,
                     .group = std::string(is_long ? kLongDecode : kShortDecode)};
    Measurement gap{.metric = "inter-token latency p99",
                    .unit = "ms",
                    .axes = axes,
                    .higher_is_better = false,
                    .group = std::string(kLatency)};
    if (const std::string why = misfit(context, concurrency); !why.empty()) {
      rate.standing = gap.standing = Standing::kDoesNotFit;
      rate.remark = why;
    } else {
      DecodeCell cell =
          measure_decode(loop_, server_, prompts_, options_.style, plan_of(context, concurrency), progress_);
      const bool again = cell.standing == Standing::kUnsteady;
      if (again) {
        progress_.done(rate.configuration() + ": unsteady, measured again. " + cell.remark);
        cell = measure_decode(loop_, server_, prompts_, options_.style, plan_of(context, concurrency),
                              progress_);
      }
      rate.standing = gap.standing = cell.standing;
      rate.remark = cell.remark;
      rate.value = cell.figures.tokens_per_s;
      rate.samples = cell.figures.slices;
      rate.facts = cell.facts;
      rate.facts["measured_again"] = again ? 1 : 0;
      gap.value = percentile(cell.figures.gaps_ms, 0.99);
      gap.samples = cell.figures.slice_gap_p99_ms;
    }
    progress_.done(rate.configuration() + ": " + summary(rate));
    report_.measurements.push_back(std::move(rate));
    report_.measurements.push_back(std::move(gap));
  }

  static std::string summary(const Measurement& rate) {
    if (rate.standing == Standing::kDoesNotFit) return "does not fit. " + rate.remark;
    std::string out = figure(rate.value) + " tok/s";
    const auto fact = [&](const char* name, const char* before, const char* after) {
      const auto found = rate.facts.find(name);
      if (found != rate.facts.end()) out += before + figure(found->second) + after;
    };
    fact("itl_ms_p50", ", between tokens ", " ms");
    fact("tokens_per_step", ", ", " tokens a step");
    if (!rate.counts()) out += " (" + std::string(name_of(rate.standing)) + ": " + rate.remark + ")";
    return out;
  }

  std::string headline() const {
    const Measurement* single = nullptr;
    const Measurement* best = nullptr;
    const Measurement* prompt = nullptr;
    std::size_t cells = 0, good = 0, degenerate = 0;
    for (const Measurement& m : report_.measurements) {
      if (m.metric == "prefill throughput" && m.counts() && (prompt == nullptr || m.value > prompt->value))
        prompt = &m;
      if (m.metric != "decode throughput") continue;
      ++cells;
      degenerate += m.standing == Standing::kDegenerate ? 1 : 0;
      if (!m.counts()) continue;
      ++good;
      if (single == nullptr && m.axis("concurrency") == 1) single = &m;
      if (best == nullptr || m.value > best->value) best = &m;
    }
    const std::string count = std::to_string(good) + " of " + std::to_string(cells) + " cells count";
    if (degenerate > 0) {
      return "No headline: the output of " + std::to_string(degenerate) + " of " + std::to_string(cells) +
             " cells repeats itself, and throughput on such text is nobody's. Try --temperature 0.8 or "
             "another "
             "--text.";
    }
    if (best == nullptr) return "No headline: " + count + ".";
    std::string out;
    if (single != nullptr)
      out += figure(single->value) + " tok/s for one stream (" + single->configuration() + "), ";
    out += "most " + figure(best->value) + " tok/s (" + best->configuration() + ")";
    if (prompt != nullptr)
      out += ", prefill " + figure(prompt->value) + " tok/s (" + prompt->configuration() + ")";
    return out + "; " + count + ".";
  }

  LoadLoop& loop_;
  const ServerFacts& server_;
  const PromptPool& prompts_;
  const MatrixOptions& options_;
  Progress& progress_;
  BenchReport& report_;
  std::uint64_t next_prompt_ = 0;
};

}  // namespace

void measure_matrix(LoadLoop& loop, const ServerFacts& server, const PromptPool& prompts,
                    const MatrixOptions& options, Progress& progress, BenchReport& report) {
  ServeMatrix(loop, server, prompts, options, progress, report).run();
}

}  // namespace tessera::bench
