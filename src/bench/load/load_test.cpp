// The load generator against servers whose timings are known, and which try to fool it.
#include <gmock/gmock.h>

#include <cstdlib>

#include "base/slowdown.h"
#include "bench/load/decode_cell.h"
#include "bench/load/default_text.h"
#include "bench/load/planned/planned_server.h"
#include "bench/load/prefill.h"
#include "bench/load/replay.h"
#include "bench/load/serve_matrix.h"
#include "bench/report/statistics.h"

namespace tessera::bench {
namespace {

using ::testing::HasSubstr;

// A bench and its server. Cells last a second or two, so that the whole stays quick.
class Rig {
 public:
  explicit Rig(const ServerScript& script)
      : planned_(script),
        loop_(*LoadLoop::open(*parse_target(planned_.url()))),
        server(*ask_server(*loop_, "")),
        prompts(
            *PromptPool::make(default_text().substr(0, 60'000), server_tokenizer(*loop_, server.model), 1)) {
    style.model = server.model;
  }

  DecodeCell decode(DecodePlan plan) {
    return measure_decode(*loop_, server, prompts, style, plan, progress);
  }
  PrefillFigures prefill(const PrefillPlan& plan) {
    return measure_prefill(*loop_, server, prompts, style, plan, progress);
  }
  LoopCounts counts() const { return loop_->counts(); }
  BenchReport matrix(MatrixOptions options) {
    BenchReport report = begin_report("serve");
    options.style = style;
    measure_matrix(*loop_, server, prompts, options, progress, report);
    return report;
  }
  BenchReport play(const ReplayTrace& trace) {
    BenchReport report = begin_report("serve");
    replay(*loop_, server, prompts, trace, {.axes = {}, .series = {}, .style = style}, progress, report);
    return report;
  }

 private:
  PlannedServer planned_;
  std::unique_ptr<LoadLoop> loop_;

 public:
  ServerFacts server;
  PromptPool prompts;
  RequestStyle style;
  Progress progress{nullptr, false};
};

const Measurement& find(const BenchReport& report, std::string_view metric, std::size_t nth = 0) {
  for (const Measurement& m : report.measurements) {
    if (m.metric == metric && nth-- == 0) return m;
  }
  TS_CHECK(false, metric);
  std::abort();
}

// What a measurement may be off by; under a sanitizer, where the client itself takes the time, anything.
constexpr double kShare = kSanitized ? 10 : 0.02;
constexpr double kMs = kSanitized ? 1000 : 1;

TEST(LoadGenerator, ReproducesKnownDecodeRates) {
  struct Case {
    double step_ms;
    double each_ms;
    std::int32_t tokens;
    std::int32_t streams;
  };
  for (const Case& c : {Case{20, 0, 1, 1}, Case{10, 0.5, 1, 16}, Case{40, 0, 3, 8}, Case{250, 0, 1, 4}}) {
    Rig rig({.step_ms = c.step_ms, .step_ms_each = c.each_ms, .tokens_per_step = c.tokens});
    const DecodeCell cell = rig.decode({.context = 100, .concurrency = c.streams, .window_s = 2});
    const double step_s = (c.step_ms + c.each_ms * (c.streams - 1)) / 1e3;
    const double expected = c.streams * c.tokens / step_s;
    EXPECT_NEAR(cell.figures.tokens_per_s / expected, 1, kShare) << c.step_ms;
    EXPECT_NEAR(cell.facts.at("itl_ms_p50") / (step_s * 1e3), 1, kShare) << c.step_ms;
    EXPECT_NEAR(cell.facts.at("effective_concurrency"), c.streams, kShare * c.streams);
    EXPECT_EQ(cell.standing, Standing::kGood) << cell.remark;
    if (c.tokens > 1) {
      EXPECT_NEAR(cell.facts.at("tokens_per_step"), c.tokens, 0.01);
    }
  }
}

TEST(LoadGenerator, ReproducesAKnownPrefillRate) {
  // Long beside what sending and reading a prompt of 16,000 numbers takes (20 ms on a slow day).
  constexpr double kRate = 5'000;
  Rig rig({.prefill_tokens_per_s = kRate});
  const PrefillFigures figures = rig.prefill({.context = 16'000, .samples = 2});
  ASSERT_EQ(figures.standing, Standing::kGood) << figures.remark;
  EXPECT_NEAR(median(figures.tokens_per_s) / kRate, 1, kShare);
  EXPECT_NEAR(median(figures.server_tokens_per_s) / kRate, 1, 0.001);
  EXPECT_NEAR(median(figures.first_token_ms) / (16'000 / kRate * 1e3), 1, kShare);
}

// What fools people, planted one by one.

TEST(Dishonesty, AColdCellIsThrownAway) {
  Rig rig({.step_ms = 10, .cold_s = 1.5});
  const BenchReport report =
      rig.matrix({.contexts = {0}, .concurrencies = {1}, .window_s = 1, .warm_up_s = 2});
  const Measurement& cell = find(report, "decode throughput");
  EXPECT_EQ(cell.standing, Standing::kGood) << cell.remark;
  EXPECT_NEAR(cell.value / 100, 1, kShare);
  EXPECT_EQ(cell.facts.at("measured_again"), 0);
}

TEST(Dishonesty, AColdCellIsSeenAndMeasuredAgain) {
  Rig rig({.step_ms = 10, .cold_s = 0.8});
  const BenchReport report =
      rig.matrix({.contexts = {0}, .concurrencies = {1}, .window_s = 2, .warm_up_s = 0});
  const Measurement& cell = find(report, "decode throughput");
  EXPECT_EQ(cell.facts.at("measured_again"), 1);
  EXPECT_EQ(cell.standing, Standing::kGood) << cell.remark;
  EXPECT_NEAR(cell.value / 100, 1, kShare);
  EXPECT_THAT(report.notes, ::testing::Contains(HasSubstr("No warm-up")));
}

TEST(Dishonesty, LoopedOutputIsNoHeadline) {
  Rig rig({.step_ms = 5, .loops = true});
  const BenchReport report =
      rig.matrix({.contexts = {0}, .concurrencies = {1, 2}, .window_s = 1, .warm_up_s = 0.2});
  const Measurement& cell = find(report, "decode throughput");
  EXPECT_EQ(cell.standing, Standing::kDegenerate);
  EXPECT_LT(cell.facts.at("distinct_bigram_ratio"), 0.1);
  EXPECT_THAT(report.headline, HasSubstr("No headline"));
  EXPECT_THAT(report.headline, HasSubstr("2 of 2 cells"));
}

TEST(Dishonesty, WhatTheServerCouldNotHoldIsMarked) {
  Rig rig({.step_ms = 10, .most_running = 3});
  const DecodeCell cell = rig.decode({.context = 50, .concurrency = 6, .window_s = 1, .patience_s = 0.5});
  EXPECT_EQ(cell.standing, Standing::kOverCapacity);
  EXPECT_NEAR(cell.facts.at("effective_concurrency"), 3, 0.1);
  EXPECT_THAT(cell.remark, HasSubstr("3.0 of 6"));
  EXPECT_EQ(cell.facts.at("server_waiting"), 3);
}

TEST(Dishonesty, CellsThatCannotFitAreNeitherMeasuredNorAveraged) {
  Rig rig({.step_ms = 10, .max_model_len = 4096, .kv_tokens = 64 * 64});
  const BenchReport report = rig.matrix({.contexts = {1000, 8000},
                                         .concurrencies = {1, 8},
                                         .window_s = 1,
                                         .warm_up_s = 0.2,
                                         .prefill_samples = 0});
  EXPECT_EQ(find(report, "decode throughput", 0).standing, Standing::kGood);
  EXPECT_EQ(find(report, "decode throughput", 1).standing, Standing::kDoesNotFit);
  EXPECT_THAT(find(report, "decode throughput", 1).remark, HasSubstr("4096 that the cache holds"));
  EXPECT_EQ(find(report, "decode throughput", 2).standing, Standing::kDoesNotFit);
  EXPECT_THAT(find(report, "decode throughput", 2).remark, HasSubstr("context of 4096"));
  EXPECT_THAT(report.headline, HasSubstr("1 of 4 cells count"));
}

TEST(Dishonesty, EarlyStopsAreCounted) {
  Rig rig({.step_ms = 5, .ends_after = 40});
  const DecodeCell cell = rig.decode({.context = 50, .concurrency = 2, .window_s = 1});
  EXPECT_EQ(cell.standing, Standing::kEndedEarly);
  EXPECT_THAT(cell.remark, HasSubstr("40 of 4096 tokens"));
}

// A stream that reaches its length is begun again, and nothing of it is lost.
TEST(Dishonesty, ReachingTheLengthIsNoEarlyStop) {
  Rig rig({.prefill_tokens_per_s = 1e7, .step_ms = 5});
  const DecodeCell cell = rig.decode({.context = 50, .concurrency = 2, .window_s = 3, .max_tokens = 300});
  // Connecting again takes a step's time, on a busy machine many, so that the cell may be unsteady.
  EXPECT_THAT(cell.standing, testing::AnyOf(Standing::kGood, Standing::kUnsteady)) << cell.remark;
  EXPECT_GT(cell.figures.tokens_per_s, 200);
  EXPECT_LT(cell.figures.tokens_per_s, 440);
}

TEST(Dishonesty, AnotherPromptThanTheOneSentIsSeen) {
  Rig rig({.miscounts_prompt_by = 1});
  EXPECT_EQ(rig.decode({.context = 50, .window_s = 0.5}).standing, Standing::kInexactPrompt);
  EXPECT_EQ(rig.prefill({.context = 500, .samples = 1}).standing, Standing::kInexactPrompt);
}

TEST(Dishonesty, ACachedPrefillIsNone) {
  Rig rig({.caches_prefixes = true});
  const PrefillFigures figures = rig.prefill({.context = 500, .samples = 1});
  EXPECT_EQ(figures.standing, Standing::kInexactPrompt);
  EXPECT_THAT(figures.remark, HasSubstr("250 tokens"));
}

TEST(LoadGenerator, CountsEventsWhereTheServerDoesNotCount) {
  Rig rig({.step_ms = 10, .counts_as_it_goes = false});
  const DecodeCell cell = rig.decode({.context = 50, .concurrency = 2, .window_s = 1});
  EXPECT_EQ(cell.facts.at("tokens_counted_by_server"), 0);
  EXPECT_NEAR(cell.figures.tokens_per_s / 200, 1, kShare);
}

TEST(LoadGenerator, AServerThatIsNotThereIsSaid) {
  const auto loop = LoadLoop::open(*parse_target("http://127.0.0.1:1"));
  ASSERT_TRUE(loop.ok());
  const auto reply = (*loop)->fetch("GET", "/v1/models");
  ASSERT_FALSE(reply.ok());
  EXPECT_THAT(reply.error().message(), HasSubstr("The connection failed: Connection refused"));
}

TEST(LoadGenerator, RequestsThatFailAreSaid) {
  Rig rig({.max_model_len = 100});
  const DecodeCell cell = rig.decode({.context = 200, .window_s = 0.5});
  EXPECT_EQ(cell.standing, Standing::kFailed);
  EXPECT_THAT(cell.remark, HasSubstr("longer than the model's context"));
}

TEST(LoadGenerator, ReplaysADialogueTurnByTurn) {
  Rig rig({.prefill_tokens_per_s = 10'000, .step_ms = 10});
  const ReplayTrace trace{
      .name = "t",
      .about = {},
      .sessions = {{.at_s = 0, .prefix = "p", .prefix_tokens = 500, .turns = {{0, 500, 20}, {0.3, 80, 20}}},
                   {.at_s = 0.5, .prefix = {}, .turns = {{0, 100, 10}}}}};
  const BenchReport report = rig.play(trace);
  const Measurement& rate = find(report, "output throughput");
  EXPECT_EQ(rate.standing, Standing::kGood) << rate.remark;
  EXPECT_EQ(rate.facts.at("requests"), 3);
  EXPECT_EQ(rate.facts.at("prompt_tokens"), 1000 + 1100 + 100);
  EXPECT_EQ(rate.facts.at("output_tokens"), 50);
  EXPECT_NEAR(find(report, "inter-token latency p50").value, 10, 0.5 * kMs);
  EXPECT_NEAR(find(report, "time to first token p99").value, 110, 8 * kMs);
}

TEST(LoadGenerator, KeepsTheScheduleOfArrivals) {
  Rig rig({.prefill_tokens_per_s = 1e6, .step_ms = 5});
  const BenchReport report =
      rig.play(arrivals({.requests_per_s = 40, .requests = 60, .prompt_tokens = 50, .output_tokens = 20}));
  const Measurement& rate = find(report, "output throughput");
  EXPECT_EQ(rate.standing, Standing::kGood) << rate.remark;
  EXPECT_EQ(rate.facts.at("output_tokens"), 1200);
  EXPECT_NEAR(find(report, "time per output token p50").value, 5, 0.5 * kMs);
}

// The client itself: 128 streams of 50 tokens a second. How many system calls that takes does not depend on
// the machine: one reception an event, one wake for many of them. What they cost does; on virtual machines it
// differs from one run to the next with nothing else going on, so it is judged on a machine of one's own.
TEST(LoadGenerator, CostsLittleOfACore) {
  Rig rig({.prefill_tokens_per_s = 1e6, .step_ms = 20});
  const LoopCounts before = rig.counts();
  const DecodeCell cell = rig.decode({.context = 50, .concurrency = 128, .window_s = 4});
  const LoopCounts after = rig.counts();
  EXPECT_NEAR(cell.figures.tokens_per_s / 6400, 1, kShare);
  // Sending 128 requests and asking /metrics are in it; they are few beside 4 s of tokens.
  const double events = cell.figures.tokens_per_s * 4;
  EXPECT_LT(static_cast<double>(after.receives - before.receives), 1.3 * events);
  EXPECT_LT(static_cast<double>(after.waits - before.waits), 0.35 * events);
  EXPECT_LT(static_cast<double>(after.naps - before.naps), 0.35 * events);
  RecordProperty("client_cpu_share", std::to_string(cell.facts.at("client_cpu_share")));
  if (std::getenv("TESSERA_QUIET_MACHINE") == nullptr) GTEST_SKIP() << "set TESSERA_QUIET_MACHINE=1 on one";
  EXPECT_LT(cell.facts.at("client_cpu_share"), 0.05 * kSlowdown);
}

}  // namespace
}  // namespace tessera::bench
