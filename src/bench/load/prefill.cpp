#include "bench/load/prefill.h"

#include "bench/load/completion_stream.h"

namespace tessera::bench {

PrefillFigures measure_prefill(LoadLoop& loop, const ServerFacts& server, const PromptPool& prompts,
                               const RequestStyle& style, const PrefillPlan& plan, Progress& progress) {
  PrefillFigures out;
  const auto give_up = [&](Standing standing, std::string remark) {
    out.standing = standing;
    out.remark = std::move(remark);
    return out;
  };
  for (int sample = 0; sample <= plan.samples; ++sample) {
    progress.now("prefill of " + std::to_string(plan.context) + " tokens, " +
                 (sample == 0 ? "warm-up" : std::to_string(sample) + " of " + std::to_string(plan.samples)));
    const ServerCounters before = fetch_counters(loop, server);
    CompletionStream stream(loop);
    const auto prompt = prompts.prompt(plan.first_prompt + static_cast<std::uint64_t>(sample), plan.context);
    stream.start(completion_body(style, prompt, 1), 1, {.on_end = [&] { loop.stop(); }});
    const double until = loop.now() + plan.timeout_s;
    while (!stream.trace().is_over() && loop.now() < until) loop.run_until(until);
    const StreamTrace& trace = stream.trace();
    if (!trace.error.empty()) return give_up(Standing::kFailed, trace.error);
    if (!trace.has_begun()) return give_up(Standing::kFailed, "A prompt gave no token.");
    if (trace.prompt_tokens >= 0 && trace.prompt_tokens != plan.context) {
      return give_up(Standing::kInexactPrompt, "The server counts " + std::to_string(trace.prompt_tokens) +
                                                   " prompt tokens where " + std::to_string(plan.context) +
                                                   " were sent.");
    }
    if (trace.cached_tokens > plan.context / 100) {
      return give_up(Standing::kInexactPrompt,
                     "The server found " + std::to_string(trace.cached_tokens) +
                         " tokens of a prompt that nobody had sent before in its cache.");
    }
    if (sample == 0) continue;
    const double seconds = trace.arrivals.front().at - trace.sent;
    const auto tokens = static_cast<double>(plan.context);
    out.first_token_ms.push_back(seconds * 1e3);
    out.tokens_per_s.push_back(tokens / seconds);
    const ServerCounters after = fetch_counters(loop, server);
    // Only if it was ours alone.
    if (before.prefills && after.prefills && *after.prefills - *before.prefills == 1) {
      const double took = after.prefill_seconds.value_or(0) - before.prefill_seconds.value_or(0);
      if (took > 0) out.server_tokens_per_s.push_back(tokens / took);
    }
  }
  return out;
}

}  // namespace tessera::bench
