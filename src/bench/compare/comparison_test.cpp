// Planted changes and no change at all, many times over: how often is the verdict right?
#include "bench/compare/comparison.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/test_seed.h"
#include "bench/compare/comparison_text.h"
#include "bench/load/default_text.h"
#include "bench/load/planned/planned_server.h"
#include "bench/load/serve_matrix.h"

namespace tessera::bench {
namespace {

using ::testing::HasSubstr;

// A machine with 0.7 % of noise between runs, that all cells share, 0.5 % of their own and 2 % between
// slices: what a quiet GPU server shows.
class NoisyMachine {
 public:
  explicit NoisyMachine(unsigned seed) : random_(seed) {}

  BenchReport run(double speed, double latency_speed = 1) {
    BenchReport report = begin_report("serve");
    const double shift = normal(0.007);
    for (const double context : {0.0, 16384.0, 65536.0}) {
      for (const double concurrency : {1.0, 8.0, 64.0}) {
        Measurement m{.metric = "decode throughput",
                      .unit = "tok/s",
                      .axes = {{"context", context}, {"concurrency", concurrency}},
                      .group = std::string(context > 0 ? kLongDecode : kShortDecode)};
        fill(m, 100 * concurrency * speed * std::exp(shift + normal(0.005)));
        report.measurements.push_back(m);
        Measurement gap{.metric = "inter-token latency p99",
                        .unit = "ms",
                        .axes = m.axes,
                        .higher_is_better = false,
                        .group = std::string(kLatency)};
        fill(gap, 20 / latency_speed * std::exp(normal(0.01)));
        report.measurements.push_back(gap);
      }
    }
    return report;
  }

 private:
  double normal(double deviation_of) { return std::normal_distribution<double>(0, deviation_of)(random_); }
  void fill(Measurement& m, double level) {
    for (int i = 0; i < 10; ++i) {
      m.samples.push_back(level * std::exp(normal(0.02)));
      m.value += m.samples.back() / 10;
    }
  }

  std::mt19937_64 random_;
};

const GroupChange& group(const Comparison& comparison, std::string_view name) {
  for (const GroupChange& one : comparison.groups) {
    if (one.group == name) return one;
  }
  TS_CHECK(false, name);
  std::abort();
}

struct Tally {
  int better = 0, equal = 0, worse = 0;
};
Tally tally(double speed, std::size_t noise_runs, int trials) {
  NoisyMachine machine(test_seed());
  Tally out;
  for (int trial = 0; trial < trials; ++trial) {
    const BenchReport a = machine.run(1);
    std::vector<BenchReport> again;
    for (std::size_t i = 0; i < noise_runs; ++i) again.push_back(machine.run(1));
    const BenchReport b = machine.run(speed);
    const Verdict verdict = group(compare(a, b, again, {.draws = 1000}), kShortDecode).verdict;
    out.better += verdict == Verdict::kBetter ? 1 : 0;
    out.equal += verdict == Verdict::kEqual ? 1 : 0;
    out.worse += verdict == Verdict::kWorse ? 1 : 0;
  }
  return out;
}

// 5 % of 400 are 20, give or take 4.4; the tolerance only makes it fewer.
TEST(Compare, NoChangeIsEqualAtTheStatedConfidence) {
  for (const std::size_t noise_runs : {std::size_t{0}, std::size_t{3}}) {
    const Tally verdicts = tally(1, noise_runs, 400);
    EXPECT_GE(verdicts.equal, 380 - 9) << noise_runs;
  }
}

TEST(Compare, AFivePercentRegressionIsFound) {
  for (const std::size_t noise_runs : {std::size_t{0}, std::size_t{4}}) {
    const Tally verdicts = tally(0.95, noise_runs, 200);
    EXPECT_GE(verdicts.worse, 190) << noise_runs;
    EXPECT_EQ(verdicts.better, 0);
  }
}

TEST(Compare, AGainIsBetter) { EXPECT_GE(tally(1.06, 4, 100).better, 95); }

// The interval of a cell holds the true ratio as often as it says.
TEST(Compare, IntervalsOfCellsHoldWhatTheyPromise) {
  NoisyMachine machine(test_seed());
  int inside = 0, all = 0;
  for (int trial = 0; trial < 60; ++trial) {
    const BenchReport a = machine.run(1);
    const std::vector<BenchReport> again = {machine.run(1), machine.run(1), machine.run(1)};
    const BenchReport b = machine.run(0.9);
    for (const CellChange& change : compare(a, b, again, {.draws = 1000}).cells) {
      if (change.cell->group == kLatency) continue;
      inside += change.low <= 0.9 && 0.9 <= change.high ? 1 : 0;
      ++all;
    }
  }
  EXPECT_GE(inside, all * 0.93);
  EXPECT_LT(inside, all);
}

TEST(Compare, LatencyThatGrowsIsWorseAndALotIsDramatic) {
  NoisyMachine machine(test_seed());
  const BenchReport a = machine.run(1), b = machine.run(1, 0.7);
  const Comparison comparison = compare(a, b, {}, {});
  EXPECT_EQ(group(comparison, kLatency).verdict, Verdict::kDramaticallyWorse);
  EXPECT_EQ(group(comparison, kShortDecode).verdict, Verdict::kEqual);
  EXPECT_TRUE(comparison.is_worse());
  EXPECT_FALSE(group(comparison, kLatency).is_run_noise_measured);
}

TEST(Compare, CellsThatDoNotCountAreLeftOutAndNamed) {
  NoisyMachine machine(test_seed());
  BenchReport a = machine.run(1), b = machine.run(1);
  b.measurements[0].standing = Standing::kDegenerate;
  b.measurements.pop_back();
  const Comparison comparison = compare(a, b, {}, {});
  EXPECT_EQ(comparison.cells.size(), a.measurements.size() - 2);
  EXPECT_THAT(comparison.notes,
              ::testing::Contains(HasSubstr("context 0, concurrency 1: not compared (degenerate")));
  EXPECT_THAT(comparison.notes, ::testing::Contains(HasSubstr("1 measurements of A")));
}

TEST(Compare, NothingInCommonIsSaid) {
  const BenchReport a = begin_report("serve");
  const Comparison comparison = compare(a, a, {}, {});
  EXPECT_FALSE(comparison.is_worse());
  EXPECT_THAT(comparison.notes, ::testing::Contains("Nothing is in both."));
}

TEST(CompareText, CellsCarryWhatReportsOfStacksRead) {
  NoisyMachine machine(test_seed());
  const BenchReport a = machine.run(1), b = machine.run(0.6);
  const Comparison comparison = compare(a, b, {}, {});
  const auto json = nlohmann::json::parse(comparison_json(comparison, {"a.json", "b.json"}, {}));
  const auto& cell = json["cells"][0];
  EXPECT_EQ(cell["configuration"], "context 0, concurrency 1");
  EXPECT_EQ(cell["verdict"], "dramatically worse");
  EXPECT_LT(cell["ratio_low"], cell["ratio_high"]);
  const std::string page = comparison_markdown(comparison, {"a|b.json", "b.json"}, {});
  EXPECT_THAT(page, HasSubstr("**dramatically worse**"));
  EXPECT_THAT(page, HasSubstr("`a b.json`"));
}

// The whole way: servers that differ by 5 %, measured by the load generator.
TEST(Compare, TellsServersApartThatDifferByFivePercent) {
  const auto measured = [](double step_ms) {
    const PlannedServer planned({.step_ms = step_ms});
    const auto loop = *LoadLoop::open(*parse_target(planned.url()));
    const ServerFacts server = *ask_server(*loop, "");
    const PromptPool prompts =
        *PromptPool::make(default_text().substr(0, 20'000), server_tokenizer(*loop, server.model), 1);
    BenchReport report = begin_report("serve");
    Progress silent(nullptr, false);
    measure_matrix(*loop, server, prompts,
                   {.contexts = {0},
                    .concurrencies = {1, 4},
                    .window_s = 1.5,
                    .warm_up_s = 0.2,
                    .style = {.model = server.model, .temperature = {}, .extra = {}}},
                   silent, report);
    return report;
  };
  const BenchReport a = measured(20);
  const std::vector<BenchReport> again = {measured(20), measured(20), measured(20)};
  EXPECT_EQ(group(compare(a, measured(20), again, {}), kShortDecode).verdict, Verdict::kEqual);
  EXPECT_EQ(group(compare(a, measured(20 / 0.95), again, {}), kShortDecode).verdict, Verdict::kWorse);
}

}  // namespace
}  // namespace tessera::bench
