#include <gmock/gmock.h>

#include "bench/report/bench_report.h"
#include "bench/report/plots.h"
#include "bench/report/report_text.h"

namespace tessera::bench {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

BenchReport matrix() {
  BenchReport report;
  report.kind = "serve";
  report.subject = "a <model> & more";
  report.created = "2026-12-01T04:50:46Z";
  report.machine = {{"processor", "a lathe"}};
  report.headline = "Fast.";
  for (const double context : {0.0, 16384.0}) {
    for (const double concurrency : {1.0, 64.0}) {
      report.measurements.push_back({.metric = "decode throughput",
                                     .unit = "tok/s",
                                     .axes = {{"context", context}, {"concurrency", concurrency}},
                                     .value = 100 * concurrency / (1 + context / 16384),
                                     .facts = {{"itl_ms_p50", 10}, {"itl_ms_p90", 12}, {"itl_ms_p99", 40}}});
    }
  }
  report.measurements[3].standing = Standing::kOverCapacity;
  report.measurements[3].remark = "The server ran 12.0 of 64 requests at a time.";
  return report;
}

TEST(ReportText, ShowsAMatrixWithMarkedCells) {
  const std::string text = report_text(matrix());
  EXPECT_THAT(text, HasSubstr("(3200)"));
  EXPECT_THAT(text, HasSubstr("context 16384, concurrency 64: over capacity. The server ran 12.0 of 64"));
  EXPECT_THAT(text, HasSubstr("6400"));
}

TEST(ReportText, ShowsTheShareOfTheBound) {
  BenchReport report;
  report.measurements = {{.metric = "time",
                          .unit = "us",
                          .series = "moe",
                          .value = 200,
                          .higher_is_better = false,
                          .bound = 150},
                         {.metric = "rate", .unit = "GB/s", .series = "copy", .value = 90, .bound = 100}};
  const std::string text = report_text(report);
  EXPECT_THAT(text, HasSubstr("75.0 % of the bound 150.0"));
  EXPECT_THAT(text, HasSubstr("90.0 % of the bound 100.0"));
}

std::vector<std::string> names(const std::vector<Plot>& plots) {
  std::vector<std::string> out;
  for (const Plot& plot : plots) out.push_back(plot.name);
  return out;
}

TEST(Plots, AMatrixIsAHeatMapAndADistribution) {
  const std::vector<Plot> plots = plots_of(matrix());
  EXPECT_THAT(names(plots), ElementsAre("decode-throughput", "itl-ms"));
  EXPECT_THAT(plots[0].svg, HasSubstr("(3200)"));
  EXPECT_THAT(plots[0].svg, HasSubstr("a &lt;model&gt; &amp; more"));
  EXPECT_THAT(plots[0].svg, Not(HasSubstr("nan")));
  for (const Plot& plot : plots)  // what, where and when
    EXPECT_THAT(plot.svg, HasSubstr("a &lt;model&gt; &amp; more, measured on a lathe, 2026-12-01 04:50 UTC"));
  EXPECT_THAT(plots[1].svg, HasSubstr("fill=\"#cbd5e1\"")) << "the marked cell is grey";
  EXPECT_THAT(plots[1].svg, HasSubstr(">20</text>")) << "an axis of less than a decade still has ticks";
}

TEST(Plots, OperationsWithBytesAndFlopsAreARoofline) {
  BenchReport report;
  report.settings = {{"read_gb_s", "4493"}, {"tflop_s", "785"}};
  report.measurements = {{.metric = "time",
                          .unit = "us",
                          .series = "moe",
                          .value = 100,
                          .facts = {{"us", 100}, {"bytes", 4e8}, {"flops", 1e9}}}};
  const std::vector<Plot> plots = plots_of(report);
  ASSERT_THAT(names(plots), ElementsAre("roofline"));
  EXPECT_THAT(plots[0].svg, HasSubstr("10 TFLOP/s at 2.50 FLOP/byte"));
}

TEST(Plots, APointAboveTheRoofIsOnThePage) {
  BenchReport report;
  report.settings = {{"read_gb_s", "10"}, {"tflop_s", "0.05"}};
  report.measurements = {{.metric = "time",
                          .unit = "us",
                          .series = "warm",
                          .value = 1,
                          .facts = {{"us", 1}, {"bytes", 1e5}, {"flops", 1e6}}}};  // 1 TFLOP/s
  const std::string svg = plots_of(report).at(0).svg;
  const std::size_t dot = svg.find("<circle");
  const double height = std::stod(svg.substr(svg.find("cy=", dot) + 4));
  EXPECT_GT(height, 80);
  EXPECT_LT(height, 410);
}

TEST(Plots, NothingIsNoPlot) { EXPECT_TRUE(plots_of({}).empty()); }

}  // namespace
}  // namespace tessera::bench
