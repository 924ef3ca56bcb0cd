#include "bench/compare/result_file.h"

#include <gmock/gmock.h>

namespace tessera::bench {
namespace {

TEST(ResultFile, ReadsVllmServe) {
  const auto report = read_result(
      R"({"model_id":"k26","max_concurrency":8,"num_prompts":64,"completed":64,"total_input_tokens":1310720,)"
      R"("request_throughput":1.5,"output_throughput":412.25,"median_ttft_ms":120,)"
      R"("ttfts":[0.1,0.2,0.3,0.4,0.5,0.6,0.7,0.8]})",
      "r.json");
  ASSERT_TRUE(report) << report.error().message();
  ASSERT_EQ(report->measurements.size(), 3u);
  const Measurement& output = report->measurements[0];
  EXPECT_EQ(output.value, 412.25);
  EXPECT_EQ(output.group, kLongDecode);  // 20,480 tokens a prompt
  EXPECT_EQ(output.configuration(), "concurrency 8");
  const Measurement& first = report->measurements[2];
  EXPECT_FALSE(first.higher_is_better);
  EXPECT_EQ(first.samples.size(), 2u);
  EXPECT_NEAR(first.samples[0], 250, 1e-9);
}

TEST(ResultFile, RunsOfVllmWithFailuresDoNotCount) {
  const auto report = read_result(R"({"output_throughput":5,"failed":3})", "r.json");
  EXPECT_EQ(report->measurements[0].standing, Standing::kFailed);
}

TEST(ResultFile, ReadsInferenceBench) {
  const auto report = read_result(
      R"({"metadata":{"model":"k"},"results":[{"concurrency":4,"context_tokens":32768,"aggregate_tps":88.5,"ttft_p50":0.0,)"
      R"("inter_token_latency_p50":0.0125},{"concurrency":1,"context_tokens":0,"aggregate_tps":30}]})",
      "b.json");
  ASSERT_EQ(report->measurements.size(), 3u);
  EXPECT_EQ(report->measurements[0].group, kLongDecode);
  EXPECT_EQ(report->measurements[1].value, 12.5);
  EXPECT_EQ(report->measurements[2].group, kShortDecode);
}

TEST(ResultFile, OurOwnSurvivesTheRoundTrip) {
  BenchReport report = begin_report("serve");
  report.settings["url"] = "http://x";
  report.measurements = {{.metric = "decode throughput",
                          .unit = "tok/s",
                          .axes = {{"context", 0}, {"concurrency", 8}},
                          .value = 12.5,
                          .samples = {12, 13},
                          .group = "short decode",
                          .bound = 20,
                          .facts = {{"acceptance", 0.5}}},
                         {.metric = "decode throughput",
                          .unit = "tok/s",
                          .axes = {{"context", 1e6}, {"concurrency", 8}},
                          .standing = Standing::kDoesNotFit,
                          .remark = "Too long."}};
  const auto again = read_result(to_json(report), "own.json");
  ASSERT_TRUE(again) << again.error().message();
  EXPECT_EQ(to_json(*again), to_json(report));
}

TEST(ResultFile, RefusesAnythingElse) {
  EXPECT_EQ(read_result("{}", "x").error().kind, ErrorKind::kUnsupported);
  EXPECT_EQ(read_result("no", "x").error().kind, ErrorKind::kCorrupt);
  EXPECT_EQ(read_result("[1]", "x").error().kind, ErrorKind::kUnsupported);
  EXPECT_EQ(read_result(R"({"metadata":{},"results":[{"concurrency":1}]})", "x").error().kind,
            ErrorKind::kCorrupt);
  EXPECT_EQ(read_result(R"({"schema":"other"})", "x").error().kind, ErrorKind::kUnsupported);
  const std::string head = R"({"schema":"tessera-bench/1","kind":"serve","measurements":[)";
  EXPECT_EQ(read_result(head + "{}]}", "x").error().kind, ErrorKind::kCorrupt);
  EXPECT_EQ(read_result(head + R"({"metric":"m","unit":"u","axes":{},"value":1,"higher_is_better":true,)" +
                            R"("standing":"splendid"}]})",
                        "x")
                .error()
                .kind,
            ErrorKind::kCorrupt);
}

}  // namespace
}  // namespace tessera::bench
