// Every verb of `tessera bench` on the shipped model, as small as it goes: one kind of report comes out.
#include <gmock/gmock.h>

#include <filesystem>

#include "base/scratch_folder.h"
#include "bench_collectives.h"
#include "bench_gate.h"
#include "bench_mla.h"
#include "bench_server.h"
#include "bench_step.h"
#include "checkpoint/synthetic_checkpoint.h"
#include "whole_file.h"

namespace tessera {
namespace {

using ::testing::Contains;
using ::testing::Not;

const std::string kTiny = TESSERA_SOURCE_DIR "/models/tessera-tiny";

class BenchVerbs : public ::testing::Test {
 protected:
  BenchOutputFlags output() const {
    BenchOutputFlags flags;
    flags.output = (folder_.path() / "report.json").string();
    flags.plots = (folder_.path() / "plots").string();
    flags.quiet = true;
    return flags;
  }
  // What the verb wrote; every figure of it is one.
  bench::BenchReport read(const Result<int>& status, const std::string& kind) const {
    EXPECT_TRUE(status.ok()) << status.error().message();
    const auto text = read_whole_file(output().output);
    EXPECT_TRUE(text.ok());
    const auto report = bench::bench_report_from_json(*text, "report.json");
    EXPECT_TRUE(report.ok()) << report.error().message();
    EXPECT_EQ(report->kind, kind);
    EXPECT_FALSE(report->subject.empty());
    EXPECT_FALSE(report->headline.empty());
    EXPECT_FALSE(report->settings.empty());
    for (const bench::Measurement& m : report->measurements) EXPECT_GE(m.value, 0) << m.metric;
    return *report;
  }
  std::vector<std::string> metrics(const bench::BenchReport& report) const {
    std::vector<std::string> names;
    for (const bench::Measurement& m : report.measurements) names.push_back(m.metric);
    return names;
  }
  bool has_plot(const std::string& name) const {
    return std::filesystem::exists(folder_.path() / "plots" / (name + ".svg"));
  }

  ScratchFolder folder_;
};

TEST_F(BenchVerbs, Gate) {
  BenchGateFlags flags;
  flags.model = kTiny;
  flags.speculative_config = R"({"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 3})";
  flags.sequences = {1, 2};
  flags.contexts = {32};
  flags.output_tokens = 8;
  flags.rounds = 1;
  flags.output = output();
  const bench::BenchReport report = read(run_bench_gate(flags), "gate");
  EXPECT_THAT(metrics(report), Contains("decode throughput").Times(6));  // never, always, adaptive
  EXPECT_THAT(metrics(report), Contains("part of a step with all drafts").Times(4));
  EXPECT_THAT(metrics(report), Contains("drafts that stood").Times(2));
  EXPECT_TRUE(has_plot("adaptive-against-the-better-of-the-two"));
}

TEST_F(BenchVerbs, Collectives) {
  BenchCollectivesFlags flags;
  flags.model = kTiny;
  flags.sequences = 2;
  flags.context = 64;
  flags.short_context = 32;
  flags.rounds = 1;
  flags.short_rounds = 1;
  flags.output = output();
  const bench::BenchReport report = read(run_bench_collectives(flags), "collectives");
  EXPECT_THAT(metrics(report), Contains("step").Times(4));
  EXPECT_THAT(metrics(report), Contains("exchange within D ranks, waiting included").Times(1));
  flags.context_ranks = {3};
  EXPECT_EQ(run_bench_collectives(flags).error().kind, ErrorKind::kInvalidArgument);
}

TEST_F(BenchVerbs, Server) {
  BenchServerFlags flags;
  flags.model = kTiny;
  flags.connections = {2};
  flags.seconds = 0.2;
  flags.output = output();
  const bench::BenchReport report = read(run_bench_server(flags), "server");
  EXPECT_THAT(metrics(report), Contains("requests").Times(2));
}

TEST_F(BenchVerbs, StepAndItsRoofline) {
  BenchStepFlags flags;
  flags.model = kTiny;
  flags.contexts = {64};
  flags.device = "cpu";
  flags.threads = 1;
  flags.seconds = 0.01;
  flags.ranks = 2;
  flags.output = output();
  const bench::BenchReport report = read(run_bench_step(flags), "step");
  EXPECT_THAT(metrics(report), Contains("step of 2 layers"));
  EXPECT_THAT(metrics(report), Contains("extrapolated to 5 layers, 2 ranks"));
  EXPECT_TRUE(has_plot("roofline"));
}

TEST_F(BenchVerbs, MlaAndItsRoofline) {
  BenchMlaFlags flags;
  flags.batches = {1, 2};
  flags.contexts = {64};
  flags.heads = {8};
  flags.formats = {"bf16", "fp8_ds_mla"};
  flags.device = "cpu";
  flags.threads = 1;
  flags.output = output();
  const bench::BenchReport report = read(run_bench_mla(flags), "mla");
  EXPECT_THAT(metrics(report), Contains("decode attention").Times(4));
  EXPECT_TRUE(has_plot("roofline"));
  flags.contexts = {1 << 30};
  flags.batches = {64};
  EXPECT_EQ(run_bench_mla(flags).error().kind, ErrorKind::kInvalidArgument);
}

}  // namespace
}  // namespace tessera
