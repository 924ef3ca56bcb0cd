#include "server/metrics.h"

#include <prometheus/collectable.h>
#include <prometheus/counter.h>
#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <atomic>
#include <limits>
#include <mutex>

#include "server/process_metrics.h"

namespace tessera {
namespace {

using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = prometheus::Labels;
using Bounds = prometheus::Histogram::BucketBoundaries;

// The bounds of vLLM's histograms, since dashboards compute quantiles from them.
Bounds first_token_bounds() {
  return {0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75,
          1,     2.5,   5,    7.5,  10,   20,   40,   80,  160,  640, 2560};
}
Bounds token_bounds() {
  return {0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5, 5, 7.5, 10, 20, 40, 80};
}
Bounds request_bounds() {
  return {0.3, 0.5, 0.8, 1, 1.5, 2, 2.5, 5, 10, 15, 20, 30, 40, 50, 60, 120, 240, 480, 960, 1920, 7680};
}
Bounds count_bounds() {
  Bounds out;
  for (double decade = 1; decade <= 100'000; decade *= 10) {
    for (const double step : {1, 2, 5}) out.push_back(decade * step);
  }
  return out;
}

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

MetricFamily family(std::string name, std::string help, MetricType type, Labels labels, double value) {
  prometheus::ClientMetric metric;
  for (const auto& [key, text] : labels) metric.label.push_back({key, text});
  if (type == MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
  return {std::move(name), std::move(help), type, {metric}};
}

// The engine counts by the bounds itself, so that a scrape costs it nothing.
MetricFamily tokens_of_steps(const StepTokenCounts& counts, const Labels& labels) {
  MetricFamily out{"vllm:iteration_tokens_total",
                   "Tokens that went through the model in an engine step.",
                   MetricType::Histogram,
                   {}};
  prometheus::ClientMetric metric;
  for (const auto& [key, text] : labels) metric.label.push_back({key, text});
  constexpr auto& kBounds = StepTokenCounts::kBounds;
  std::uint64_t steps = 0;  // of at most so many tokens
  for (std::size_t i = 0; i <= kBounds.size(); ++i) {
    steps += static_cast<std::uint64_t>(counts.steps[i]);
    metric.histogram.bucket.push_back({steps, i < kBounds.size() ? static_cast<double>(kBounds[i])
                                                                 : std::numeric_limits<double>::infinity()});
  }
  metric.histogram.sample_count = steps;
  metric.histogram.sample_sum = static_cast<double>(counts.tokens);
  out.metric.push_back(std::move(metric));
  return out;
}

}  // namespace

struct Metrics::Impl {
  explicit Impl(std::string model_name, std::string given_version)
      : labels{{"model_name", std::move(model_name)}, {"engine", "0"}}, version(std::move(given_version)) {}

  prometheus::Histogram& histogram(const char* name, const char* help, const Bounds& bounds) {
    return prometheus::BuildHistogram().Name(name).Help(help).Register(registry).Add(labels, bounds);
  }
  prometheus::Counter& counter(const char* name, const char* help) {
    return prometheus::BuildCounter().Name(name).Help(help).Register(registry).Add(labels);
  }
  void append_engine(std::vector<MetricFamily>& out) const;
  void append_ranks(const EngineStats& stats, const EngineInfo& info, std::vector<MetricFamily>& out) const;
  void append_collectives(const EngineInfo& info, std::vector<MetricFamily>& out) const;
  void append_speculation(const SpeculationStats& stats, std::int32_t most_drafts,
                          std::vector<MetricFamily>& out) const;

  Labels labels;
  std::string version;
  prometheus::Registry registry;
  mutable std::mutex attach_mutex;  // engine may be detached while a scrape reads it
  const EngineClient* engine = nullptr;

  prometheus::Histogram& ttft =
      histogram("vllm:time_to_first_token_seconds", "Time to first token in seconds.", first_token_bounds());
  prometheus::Histogram& tpot =
      histogram("vllm:time_per_output_token_seconds", "Time between output tokens in seconds (older name).",
                token_bounds());
  prometheus::Histogram& itl =
      histogram("vllm:inter_token_latency_seconds", "Time between output tokens in seconds.", token_bounds());
  prometheus::Histogram& mean_tpot =
      histogram("vllm:request_time_per_output_token_seconds",
                "Mean time between the output tokens of a request, in seconds.", token_bounds());
  prometheus::Histogram& e2e =
      histogram("vllm:e2e_request_latency_seconds", "Time from arrival to the last token.", request_bounds());
  prometheus::Histogram& queue =
      histogram("vllm:request_queue_time_seconds", "Time spent waiting to be scheduled.", request_bounds());
  prometheus::Histogram& inference =
      histogram("vllm:request_inference_time_seconds", "Time from being scheduled to the last token.",
                request_bounds());
  prometheus::Histogram& prefill = histogram(
      "vllm:request_prefill_time_seconds", "Time from being scheduled to the first token.", request_bounds());
  prometheus::Histogram& decode = histogram("vllm:request_decode_time_seconds",
                                            "Time from the first token to the last.", request_bounds());
  prometheus::Histogram& prompt_tokens =
      histogram("vllm:request_prompt_tokens", "Prompt tokens of a request.", count_bounds());
  prometheus::Histogram& generation_tokens =
      histogram("vllm:request_generation_tokens", "Generated tokens of a request.", count_bounds());
  prometheus::Histogram& most_tokens =
      histogram("vllm:request_max_num_generation_tokens",
                "Generated tokens of the longest choice of a request.", count_bounds());
  prometheus::Histogram& computed_prompt =
      histogram("vllm:request_prefill_kv_computed_tokens",
                "Prompt tokens of a request that the prefix cache did not have.", count_bounds());
  prometheus::Histogram& max_tokens =
      histogram("vllm:request_params_max_tokens", "max_tokens of a request, as resolved.", count_bounds());
  prometheus::Histogram& params_n = histogram("vllm:request_params_n", "n of a request.", {1, 2, 5, 10, 20});

  prometheus::Family<prometheus::Counter>& success =
      prometheus::BuildCounter()
          .Name("vllm:request_success_total")
          .Help("Requests that ended, by reason; a choice counts as one.")
          .Register(registry);
  prometheus::Counter& stop = success.Add(with("finished_reason", "stop"));
  prometheus::Counter& length = success.Add(with("finished_reason", "length"));
  prometheus::Counter& abort = success.Add(with("finished_reason", "abort"));
  prometheus::Counter& error = success.Add(with("finished_reason", "error"));

  // One lock for the five, so that a scrape never sees a request in two places or in none.
  mutable std::mutex books_mutex;
  std::int64_t books_received = 0;
  std::int64_t books_finished = 0;
  std::int64_t books_aborted = 0;
  std::int64_t books_failed = 0;

  prometheus::Family<prometheus::Counter>& http = prometheus::BuildCounter()
                                                      .Name("tessera:http_requests_total")
                                                      .Help("Answered HTTP requests.")
                                                      .Register(registry);

  Labels with(const char* key, std::string value) const {
    Labels out = labels;
    out[key] = std::move(value);
    return out;
  }
};

Metrics::Metrics(std::string model_name, std::string version)
    : impl_(std::make_unique<Impl>(std::move(model_name), std::move(version))) {}

Metrics::~Metrics() = default;

void Metrics::attach(const EngineClient* engine) {
  const std::lock_guard lock(impl_->attach_mutex);
  impl_->engine = engine;
}

void Metrics::received() {
  const std::lock_guard lock(impl_->books_mutex);
  ++impl_->books_received;
}

void Metrics::first_token(Clock::duration since_arrival) { impl_->ttft.Observe(seconds(since_arrival)); }

void Metrics::next_tokens(Clock::duration since_last, std::size_t tokens) {
  const double each = seconds(since_last) / static_cast<double>(tokens);
  for (std::size_t i = 0; i < tokens; ++i) {
    impl_->itl.Observe(each);
    impl_->tpot.Observe(each);
  }
}

void Metrics::ended(const RequestRecord& record) {
  Impl& my = *impl_;
  {
    const std::lock_guard lock(my.books_mutex);
    switch (record.outcome) {
      case Outcome::kAborted:
        ++my.books_aborted;
        break;
      case Outcome::kFailed:
        ++my.books_failed;
        break;
      default:
        ++my.books_finished;
    }
  }
  switch (record.outcome) {
    case Outcome::kStop:
    case Outcome::kToolCalls:
      my.stop.Increment();
      break;
    case Outcome::kLength:
      my.length.Increment();
      break;
    case Outcome::kAborted:
      my.abort.Increment();
      return;
    case Outcome::kFailed:
      my.error.Increment();
      return;
  }
  const RequestTimes& times = record.times;
  const auto between = [](prometheus::Histogram& histogram, Clock::time_point from, Clock::time_point to) {
    constexpr Clock::time_point kNever{};
    if (from != kNever && to != kNever && to >= from) histogram.Observe(seconds(to - from));
  };
  between(my.e2e, times.arrived, times.last_token);
  between(my.queue, times.arrived, times.scheduled);
  between(my.inference, times.scheduled, times.last_token);
  between(my.prefill, times.scheduled, times.first_token);
  between(my.decode, times.first_token, times.last_token);
  if (record.generation_tokens > 1) {
    my.mean_tpot.Observe(seconds(times.last_token - times.first_token) /
                         static_cast<double>(record.generation_tokens - 1));
  }
  my.prompt_tokens.Observe(static_cast<double>(record.prompt_tokens));
  my.computed_prompt.Observe(static_cast<double>(record.prompt_tokens - record.cached_tokens));
  my.generation_tokens.Observe(static_cast<double>(record.generation_tokens));
  my.max_tokens.Observe(record.max_tokens);
  my.params_n.Observe(record.n);
}

void Metrics::answered(std::int64_t most_tokens) {
  impl_->most_tokens.Observe(static_cast<double>(most_tokens));
}

void Metrics::http_answered(std::string_view path, int status) {
  impl_->http.Add({{"path", std::string(path)}, {"status", std::to_string(status)}}).Increment();
}

void Metrics::Impl::append_engine(std::vector<MetricFamily>& out) const {
  const std::lock_guard lock(attach_mutex);
  if (engine == nullptr) return;
  const EngineStats stats = engine->stats();
  const EngineInfo& info = engine->info();
  const auto gauge = [&](const char* name, const char* help, double value) {
    out.push_back(family(name, help, MetricType::Gauge, labels, value));
  };
  const auto count = [&](const char* name, const char* help, std::int64_t value) {
    out.push_back(family(name, help, MetricType::Counter, labels, static_cast<double>(value)));
  };
  gauge("vllm:num_requests_running", "Requests in the running batch.", static_cast<double>(stats.running));
  gauge("vllm:num_requests_waiting", "Requests waiting to be scheduled.", static_cast<double>(stats.waiting));
  gauge("vllm:kv_cache_usage_perc", "Share of the KV cache in use; 1 is all of it.", stats.kv_usage);
  gauge("vllm:gpu_cache_usage_perc", "vllm:kv_cache_usage_perc under its older name.", stats.kv_usage);
  append_ranks(stats, info, out);
  append_collectives(info, out);
  count("vllm:prompt_tokens_total", "Prompt tokens whose prefill is done.", stats.prompt_tokens);
  count("vllm:generation_tokens_total", "Generated tokens.", stats.generation_tokens);
  count("vllm:num_preemptions_total", "Preemptions.", stats.preemptions);
  count("vllm:prefix_cache_queries_total", "Prompt tokens looked up in the prefix cache.",
        stats.prefix_queries);
  count("vllm:prefix_cache_hits_total", "Prompt tokens found in the prefix cache.", stats.prefix_hits);
  count("tessera:computed_tokens_total", "Tokens that went through the model.", stats.computed_tokens);
  count("tessera:recomputed_tokens_total", "Of these, computed before and lost to preemption.",
        stats.recomputed_tokens);
  if (info.dcp_ranks > 1)
    count("tessera:sharded_sequences_total", "Sequences spread over ranks after they had begun.",
          stats.sharded);
  if (info.most_drafts > 0) append_speculation(stats.speculation, info.most_drafts, out);
  out.push_back(tokens_of_steps(stats.step_tokens, labels));
  count("tessera:engine_steps_total", "Engine steps.", stats.steps);
  out.push_back(family("tessera:engine_step_seconds_total", "Time in engine steps.", MetricType::Counter,
                       labels, stats.step_seconds));
  out.push_back(family("tessera:engine_host_seconds_total", "Of it, spent planning and handing out results.",
                       MetricType::Counter, labels, stats.host_seconds));
  MetricFamily awaited = family(
      "tessera:engine_awaited_steps_total",
      "Steps that were not planned while the one before ran, because its result had to be known first.",
      MetricType::Counter, with("reason", "grammar"), static_cast<double>(stats.awaited_constraint));
  awaited.metric.push_back(
      family("", "", MetricType::Counter, with("reason", "blocks"), static_cast<double>(stats.awaited_blocks))
          .metric.front());
  out.push_back(std::move(awaited));
  Labels config = labels;
  config["block_size"] = std::to_string(info.block_size);
  config["num_gpu_blocks"] = std::to_string(info.kv_blocks);
  config["cache_dtype"] = info.kv_cache_dtype;
  config["enable_prefix_caching"] = info.prefix_caching ? "True" : "False";
  out.push_back(
      family("vllm:cache_config_info", "Configuration of the KV cache.", MetricType::Gauge, config, 1));
}

void Metrics::Impl::append_ranks(const EngineStats& stats, const EngineInfo& info,
                                 std::vector<MetricFamily>& out) const {
  MetricFamily usage{"tessera:kv_cache_usage_perc",
                     "Share of a rank's own KV memory in use; 1 is all of it.",
                     MetricType::Gauge,
                     {}};
  const auto add = [](MetricFamily& to, Labels labels_of_one, double value) {
    to.metric.push_back(std::move(
        family(to.name, to.help, MetricType::Gauge, std::move(labels_of_one), value).metric.front()));
  };
  for (std::int32_t rank = 0; rank < info.ranks; ++rank) {
    // Groups of ranks that share rows are alike. An engine of one rank may leave the list out.
    const std::vector<double>& of = stats.kv_usage_of;
    const double share = of.empty() ? stats.kv_usage : of[static_cast<std::size_t>(rank) % of.size()];
    add(usage, with("rank", std::to_string(rank)), share);
  }
  out.push_back(std::move(usage));

  MetricFamily memory{"tessera:memory_bytes",
                      "Memory of a rank by item: as planned before loading, and as taken then.",
                      MetricType::Gauge,
                      {}};
  for (const MemoryLine& line : info.memory) {
    Labels one = with("rank", std::to_string(line.rank));
    one["item"] = line.item;
    one["source"] = "plan";
    add(memory, one, static_cast<double>(line.planned));
    one["source"] = "used";
    add(memory, std::move(one), static_cast<double>(line.used));
  }
  if (!memory.metric.empty()) out.push_back(std::move(memory));
}

// Operations that never ran are left out.
void Metrics::Impl::append_collectives(const EngineInfo& info, std::vector<MetricFamily>& out) const {
  MetricFamily measured{"tessera:all_reduce_start_seconds",
                        "A sum over all ranks, as measured when the server started.",
                        MetricType::Gauge,
                        {}};
  for (const AllReduceLine& line : info.all_reduces) {
    measured.metric.push_back(
        family("", "", MetricType::Gauge, with("bytes", std::to_string(line.bytes)), line.seconds)
            .metric.front());
  }
  if (!measured.metric.empty()) out.push_back(std::move(measured));

  MetricFamily times{"tessera:collective_seconds",
                     "Time of a rank in a collective, waiting for the other ranks included.",
                     MetricType::Histogram,
                     {}};
  for (const CollectiveLine& line : info.collectives) {
    for (std::size_t i = 0; i < kCollectiveNames.size(); ++i) {
      const CollectiveTimes::Counts counts = line.times->of(static_cast<Collective>(i));
      prometheus::ClientMetric metric;
      std::uint64_t calls = 0;  // of at most so long
      for (std::size_t b = 0; b < counts.calls.size(); ++b) {
        calls += counts.calls[b];
        metric.histogram.bucket.push_back({calls, b < CollectiveTimes::kBounds.size()
                                                      ? CollectiveTimes::kBounds[b]
                                                      : std::numeric_limits<double>::infinity()});
      }
      if (calls == 0) continue;
      metric.histogram.sample_count = calls;
      metric.histogram.sample_sum = counts.seconds;
      Labels one = with("rank", std::to_string(line.rank));
      one["group"] = line.group;
      one["operation"] = kCollectiveNames[i];
      for (const auto& [key, text] : one) metric.label.push_back({key, text});
      times.metric.push_back(std::move(metric));
    }
  }
  if (!times.metric.empty()) out.push_back(std::move(times));
}

void Metrics::Impl::append_speculation(const SpeculationStats& stats, std::int32_t most_drafts,
                                       std::vector<MetricFamily>& out) const {
  const auto count = [&](const char* name, const char* help, std::int64_t value) {
    out.push_back(family(name, help, MetricType::Counter, labels, static_cast<double>(value)));
  };
  // values[i] under the label's text i.
  const auto count_each = [&](const char* name, const char* help, const char* label, std::size_t values,
                              const auto& value_of) {
    MetricFamily each{name, help, MetricType::Counter, {}};
    for (std::size_t i = 0; i < values; ++i) {
      MetricFamily one = family(name, help, MetricType::Counter, with(label, std::to_string(i)),
                                static_cast<double>(value_of(i)));
      each.metric.push_back(std::move(one.metric.front()));
    }
    out.push_back(std::move(each));
  };
  const auto most = static_cast<std::size_t>(most_drafts);
  count("vllm:spec_decode_num_drafts_total", "Steps of sequences that verified drafts.", stats.drafts);
  count("vllm:spec_decode_num_draft_tokens_total", "Draft tokens verified.", stats.draft_tokens);
  count("vllm:spec_decode_num_accepted_tokens_total", "Of these, accepted.", stats.accepted_tokens);
  count_each("vllm:spec_decode_num_accepted_tokens_per_pos_total", "Accepted draft tokens by position.",
             "position", most, [&](std::size_t i) { return stats.accepted_at[i]; });
  count_each("tessera:speculation_verified_tokens_per_pos_total", "Verified draft tokens by position.",
             "position", most, [&](std::size_t i) { return stats.verified_at[i]; });
  count_each("tessera:speculation_chosen_steps_total",
             "Engine steps by the draft length that was chosen for them.", "drafts", most + 1,
             [&](std::size_t i) { return stats.chosen[i]; });
  count("tessera:speculation_probes_total", "Of these, steps that tried a length to learn what it costs.",
        stats.probes);
  count("tessera:speculation_refused_drafts_total",
        "Draft tokens that a grammar does not allow, so that nothing verified them.", stats.refused_drafts);
  out.push_back(family("tessera:speculation_draft_length", "Draft length chosen for the last step.",
                       MetricType::Gauge, labels, stats.draft_length));
}

std::string Metrics::render() const {
  const Impl& my = *impl_;
  std::vector<MetricFamily> all = my.registry.Collect();
  my.append_engine(all);
  {
    const std::lock_guard lock(my.books_mutex);
    const auto count = [&](const char* name, const char* help, std::int64_t value) {
      all.push_back(family(name, help, MetricType::Counter, my.labels, static_cast<double>(value)));
    };
    count("tessera:requests_received_total", "Requests given to the engine.", my.books_received);
    count("tessera:requests_finished_total", "Of these, answered in full.", my.books_finished);
    count("tessera:requests_aborted_total",
          "Of these, ended because the client left or the server shut down.", my.books_aborted);
    count("tessera:requests_failed_total", "Of these, ended by an error of the server.", my.books_failed);
    all.push_back(family(
        "tessera:requests_in_flight", "Received, and not yet finished, aborted or failed.", MetricType::Gauge,
        my.labels,
        static_cast<double>(my.books_received - my.books_finished - my.books_aborted - my.books_failed)));
  }
  Labels build = my.labels;
  build["version"] = my.version;
  all.push_back(family("tessera:build_info", "The program's version.", MetricType::Gauge, build, 1));
  for (ProcessFigure& figure : process_figures()) {
    all.push_back(family(std::move(figure.name), std::move(figure.help),
                         figure.is_counter ? MetricType::Counter : MetricType::Gauge, {}, figure.value));
  }
  return prometheus::TextSerializer().Serialize(all);
}

}  // namespace tessera
