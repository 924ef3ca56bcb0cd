#include "bench_serve.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <sstream>

#include "bench/load/default_text.h"
#include "bench/load/replay.h"
#include "bench/load/serve_matrix.h"
#include "tokenizer/tokenizer.h"
#include "whole_file.h"

namespace tessera {
namespace {

using namespace bench;

template <class T>
Result<void> check_list(const char* flag, const std::vector<T>& values, T least) {
  if (values.empty()) return Error{ErrorKind::kInvalidArgument, flag, "is empty."};
  for (const T value : values) {
    if (value < least) {
      return Error{ErrorKind::kInvalidArgument, flag,
                   "holds " + std::to_string(value) + "; the least is " + std::to_string(least) + "."};
    }
  }
  return {};
}

Result<void> check_positive(const char* flag, double value) {
  if (value > 0) return {};
  return Error{ErrorKind::kInvalidArgument, flag, "is " + std::to_string(value) + "; it must be above 0."};
}

Result<void> check(const BenchServeFlags& flags) {
  TS_TRY(check_list<std::int64_t>("--context", flags.contexts, 0));
  TS_TRY(check_list<std::int32_t>("--concurrency", flags.concurrencies, 1));
  TS_TRY(check_positive("--seconds", flags.seconds));
  TS_TRY(check_positive("--burstiness", flags.burstiness));
  TS_TRY(check_positive("--trace-speed", flags.trace_speed));
  TS_TRY(check_positive("--requests", flags.requests));
  TS_TRY(check_positive("--prompt-tokens", static_cast<double>(flags.prompt_tokens)));
  TS_TRY(check_positive("--output-tokens", static_cast<double>(flags.output_tokens)));
  for (const double rate : flags.request_rates) TS_TRY(check_positive("--request-rate", rate));
  if (flags.slices < 4)
    return Error{ErrorKind::kInvalidArgument, "--slices",
                 "is " + std::to_string(flags.slices) + "; the least is 4."};
  if (!flags.trace.empty() && !flags.request_rates.empty())
    return Error{ErrorKind::kInvalidArgument, "--trace", "has times of its own; leave --request-rate out."};
  return check_extra(flags.extra_body);
}

// Every flag, as if it had been typed; the key alone stays out.
std::map<std::string, std::string> settings_of(const BenchServeFlags& flags, std::uint64_t seed) {
  std::map<std::string, std::string> out = {
      {"url", flags.url},
      {"text", flags.text.empty() ? std::string(kDefaultTextName) : flags.text},
      {"tokenizer", flags.tokenizer.empty() ? "the server's /tokenize" : flags.tokenizer},
      {"temperature", flags.temperature ? std::to_string(*flags.temperature) : "the server's default"},
      {"extra-body", flags.extra_body},
      {"ignore-eos", flags.respect_eos ? "false" : "true"},
      {"seed", std::to_string(seed)}};
  if (!flags.trace.empty()) {
    out["trace"] = flags.trace;
    out["trace-speed"] = std::to_string(flags.trace_speed);
  } else if (!flags.request_rates.empty()) {
    out["request-rate"] = comma_list(flags.request_rates);
    out["burstiness"] = std::to_string(flags.burstiness);
    out["requests"] = std::to_string(flags.requests);
    out["prompt-tokens"] = std::to_string(flags.prompt_tokens);
    out["output-tokens"] = std::to_string(flags.output_tokens);
  } else {
    out["context"] = comma_list(flags.contexts);
    out["concurrency"] = comma_list(flags.concurrencies);
    out["seconds"] = std::to_string(flags.seconds);
    out["warm-up"] = std::to_string(flags.warm_up);
    out["slices"] = std::to_string(flags.slices);
    out["prefill-samples"] = std::to_string(flags.prefill_samples);
    out["max-tokens"] = flags.max_tokens ? std::to_string(*flags.max_tokens) : "auto";
    out["kv-tokens"] = flags.kv_tokens ? std::to_string(*flags.kv_tokens) : "as /metrics says";
    out["measure-overflow"] = flags.measure_overflow ? "true" : "false";
    out["patience"] = std::to_string(flags.patience);
    out["long-context"] = std::to_string(flags.long_context);
  }
  return out;
}

template <class T>
std::vector<T> ascending(std::vector<T> values) {
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

Result<PromptPool> make_prompts(const BenchServeFlags& flags, LoadLoop& loop, const ServerFacts& server,
                                std::uint64_t seed) {
  std::string own;
  if (!flags.text.empty()) {
    TS_TRY(own, read_whole_file(flags.text));
  }
  const std::string_view text = flags.text.empty() ? default_text() : std::string_view(own);
  if (flags.tokenizer.empty()) {
    auto made = PromptPool::make(text, server_tokenizer(loop, server.model), seed);
    if (made || made.error().kind == ErrorKind::kInvalidArgument) return made;
    return Error{made.error().kind, made.error().where,
                 made.error().what + " Give the model's folder with --tokenizer."};
  }
  TS_TRY(const Tokenizer tokenizer, Tokenizer::load(flags.tokenizer));
  return PromptPool::make(
      text, [&](std::string_view piece) { return tokenizer.encode(piece, ControlTokens::kAsText); }, seed);
}

void headline_of_replay(BenchReport& report) {
  for (const Measurement& m : report.measurements) {
    if (m.counts()) continue;
    report.headline = "No headline: " + m.configuration() + ": " + std::string(name_of(m.standing)) + ".";
    return;
  }
  std::ostringstream out;
  out.precision(4);
  for (const Measurement& m : report.measurements) {
    if (m.metric == "output throughput")
      out << (out.tellp() > 0 ? "; " : "") << m.configuration() << ": " << m.value << " tok/s";
    if (m.metric == "time to first token p99") out << ", p99 to the first token " << m.value << " ms";
  }
  report.headline = out.str() + ".";
}

}  // namespace

void declare_bench_serve_flags(CLI::App& app, BenchServeFlags& flags) {
  app.add_option("--url", flags.url, "Server")->capture_default_str();
  app.add_option("--model", flags.model, "Served name (default: the first that the server lists)");
  app.add_option("--api-key", flags.api_key, "Sent as a bearer token; never written down");
  app.add_option("--context", flags.contexts, "Prompt lengths in tokens, e.g. 0,16384; 0 is a short prompt")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--concurrency", flags.concurrencies, "Streams at a time, e.g. 1,8,64")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--seconds", flags.seconds, "Window of a cell, with all streams decoding")
      ->capture_default_str();
  app.add_option("--warm-up", flags.warm_up, "Seconds of the first cell, which is thrown away; 0: none")
      ->capture_default_str();
  app.add_option("--slices", flags.slices, "Parts of a window, for steadiness and intervals")
      ->capture_default_str();
  app.add_option("--prefill-samples", flags.prefill_samples, "Prompts a prefill measurement; 0: none")
      ->capture_default_str();
  app.add_option("--max-tokens", flags.max_tokens,
                 "Of a stream, which is then begun again (default: the room, up to 16,384)");
  app.add_option("--kv-tokens", flags.kv_tokens,
                 "Tokens that the server's cache holds (default: as /metrics says)");
  app.add_flag("--measure-overflow", flags.measure_overflow,
               "Also run cells that the cache cannot hold; they stay marked");
  app.add_option("--patience", flags.patience, "Seconds to wait for streams that the server does not begin")
      ->capture_default_str();
  app.add_option("--long-context", flags.long_context, "Contexts from here on are compared as long decode")
      ->capture_default_str();
  app.add_option("--request-rate", flags.request_rates,
                 "Instead of the matrix: requests a second, e.g. 1,2,4")
      ->delimiter(',');
  app.add_option("--burstiness", flags.burstiness, "Of arrivals: 1 Poisson, above more even, below in bursts")
      ->capture_default_str();
  app.add_option("--requests", flags.requests, "Requests at each rate")->capture_default_str();
  app.add_option("--prompt-tokens", flags.prompt_tokens, "Of a request at a rate")->capture_default_str();
  app.add_option("--output-tokens", flags.output_tokens, "Of a request at a rate")->capture_default_str();
  app.add_option("--trace", flags.trace, "Instead of the matrix: a trace to replay (JSON lines)");
  app.add_option("--trace-speed", flags.trace_speed, "2: twice as fast as the trace")->capture_default_str();
  app.add_option("--text", flags.text,
                 "File that prompts are cut from (default: " + std::string(kDefaultTextName) + ")");
  app.add_option("--tokenizer", flags.tokenizer, "Model folder, for servers without /tokenize");
  app.add_option("--temperature", flags.temperature, "Default: the server's");
  app.add_option("--extra-body", flags.extra_body, "JSON object whose fields are added to every request");
  app.add_flag("--respect-eos", flags.respect_eos, "Let the model end; cells in which it does are marked");
  app.add_option("--seed", flags.seed,
                 "Of prompts and arrivals (default: the clock, so that no cache knows them)");
  declare_bench_output_flags(app, flags.output);
  app.footer(R"(
Examples:
  tessera bench serve --url http://127.0.0.1:8000 --context 0,16384 --concurrency 1,8,64 -o today.json
  tessera bench serve --url http://127.0.0.1:8000 --request-rate 1,2,4 --prompt-tokens 2048 --output-tokens 256
  tessera bench serve --url http://127.0.0.1:8000 --trace docs/reference/traces/agents.jsonl)");
}

Result<int> run_bench_serve(const BenchServeFlags& flags) {
  TS_TRY(check(flags));
  std::optional<ReplayTrace> trace;
  if (!flags.trace.empty()) {
    TS_TRY(const std::string text, read_whole_file(flags.trace));
    TS_TRY(trace, parse_trace(text, flags.trace));
  }
  TS_TRY(HttpTarget target, parse_target(flags.url));
  target.api_key = flags.api_key;
  TS_TRY(const std::unique_ptr<LoadLoop> loop, LoadLoop::open(std::move(target)));
  TS_TRY(const ServerFacts server, ask_server(*loop, flags.model));
  const std::uint64_t seed = flags.seed.value_or(
      static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count()));
  TS_TRY(const PromptPool prompts, make_prompts(flags, *loop, server, seed));

  Progress progress = make_progress(flags.output);
  BenchReport report = begin_report("serve");
  report.subject = server.model + " at " + flags.url;
  report.settings = settings_of(flags, seed);
  report.server = server.said;
  if (!server.has_metrics)
    report.notes.push_back(
        "The server has no /metrics: no acceptance, no prefill time of its own, no cache size.");
  const RequestStyle style{.model = server.model,
                           .temperature = flags.temperature,
                           .ignore_eos = !flags.respect_eos,
                           .extra = flags.extra_body};
  if (trace) {
    report.notes.push_back("Trace: " + trace->about);
    replay(*loop, server, prompts, *trace,
           {.speed = flags.trace_speed, .axes = {}, .series = trace->name, .style = style}, progress, report);
    headline_of_replay(report);
  } else if (!flags.request_rates.empty()) {
    std::uint64_t run = 0;
    for (const double rate : flags.request_rates) {
      const ReplayTrace requests = arrivals({.requests_per_s = rate,
                                             .burstiness = flags.burstiness,
                                             .requests = flags.requests,
                                             .prompt_tokens = flags.prompt_tokens,
                                             .output_tokens = flags.output_tokens,
                                             .seed = seed + run});
      TS_TRY(const PromptPool fresh, make_prompts(flags, *loop, server, seed + ++run));
      replay(*loop, server, fresh, requests, {.axes = {{"request_rate", rate}}, .series = {}, .style = style},
             progress, report);
      progress.done("request rate " + std::to_string(rate) + ": done");
    }
    headline_of_replay(report);
  } else {
    MatrixOptions options{.contexts = ascending(flags.contexts),
                          .concurrencies = ascending(flags.concurrencies),
                          .window_s = flags.seconds,
                          .warm_up_s = flags.warm_up,
                          .slices = flags.slices,
                          .prefill_samples = flags.prefill_samples,
                          .max_tokens = flags.max_tokens,
                          .kv_tokens = flags.kv_tokens,
                          .measure_overflow = flags.measure_overflow,
                          .long_context = flags.long_context,
                          .patience_s = flags.patience,
                          .style = style};
    measure_matrix(*loop, server, prompts, options, progress, report);
  }
  TS_TRY(write_bench_report(report, flags.output));
  return 0;
}

}  // namespace tessera
