#include "stack/publish/report.h"

#include <gtest/gtest.h>

#include <ostream>

#include "stack/publish/pull_request.h"

namespace tessera::stack {
namespace {

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

Report small_report() {
  Report report{.plan = "demo"};
  report.parity.counts[static_cast<std::size_t>(ParityClass::kExact)] = 4152;
  report.parity.counts[static_cast<std::size_t>(ParityClass::kReal)] = 1;
  report.atoms = 693;
  report.unassigned = 1;
  report.unassigned_atoms = {"h:3fa9 vllm/envs.py:12"};
  report.buckets = {{.name = "fp8-dcp",
                     .kind = "upstream",
                     .status = "submitted",
                     .link = "https://example.org/1",
                     .why = "It fails.",
                     .files = {"a|b.py"},
                     .atoms = 3,
                     .added = 40,
                     .removed = 2,
                     .counted_lines = 900,
                     .line_limit = 500},
                    {.name = "graph", .kind = "upstream", .needs = {"fp8-dcp"}},
                    {.name = "timers", .kind = "drop", .why = "debug", .atoms = 5}};
  report.map = {.target = "9aaf83e",
                .integration = "89da763",
                .topics = {{"fp8-dcp", "upstream", "1 file", {}}, {"graph", "upstream", "", {"fp8-dcp"}}}};
  report.paths = {{.parity = {.path = "x.py", .value = ParityClass::kReal},
                   .atoms = {{"h:1234", "real"}},
                   .layer = "layer 3",
                   .created_by = "RUN sed -i"}};
  report.benchmarks = {{.configuration = "concurrency 128",
                        .metric = "output tokens",
                        .unit = "tok/s",
                        .before = 1508,
                        .after = 1144}};
  report.decisions = {{.ask = "Ship the table?", .options = {"yes", "no"}, .owner = "attention"}};
  return report;
}

TEST(Report, VerdictComesFirstInOneLine) {
  const std::string markdown = to_markdown(report_document(small_report()));
  EXPECT_TRUE(has(
      markdown, "parity: 4,152 exact, 0 ignored, 0 dropped, 1 different (1 real); 1 unassigned of 693 atoms"))
      << markdown;
}

TEST(Report, NothingIsHidden) {
  for (const std::string& text :
       {to_markdown(report_document(small_report())), to_html(report_document(small_report()))}) {
    for (const char* part :
         {"fp8-dcp", "vllm/envs.py:12", "timers, 5 atoms: debug", "RUN sed -i", "layer 3",
          "1 figure is worse than before", "not stated", "Ship the table?", "900 of 500, over"}) {
      EXPECT_TRUE(has(text, part)) << part;
    }
  }
}

TEST(Report, BoldTextEndsBeforeTheBlank) {
  const std::string markdown = to_markdown(report_document(small_report()));
  EXPECT_TRUE(has(markdown, "\n**Unassigned atoms:** 1\n")) << markdown;
  EXPECT_TRUE(has(markdown, "\n**Needs that the plan refutes:** none.\n")) << markdown;
  EXPECT_FALSE(has(markdown, " **\n") || has(markdown, ": ** ") || has(markdown, ": **1")) << markdown;
}

TEST(Report, OnlyUpstreamTopicsAreHeldToUpstreamsLimit) {
  Report report = small_report();
  report.buckets[0].kind = "local";
  for (const std::string& text : {to_markdown(report_document(report)), to_html(report_document(report))}) {
    EXPECT_FALSE(has(text, "of 500"));
    EXPECT_TRUE(has(text, "900"));
  }
}

TEST(Report, EmptyDifferenceIsSaidInOneLine) {
  const std::string markdown = to_markdown(report_document({.plan = "demo"}));
  EXPECT_EQ(markdown,
            "# Stack report: demo\n\n**The tree equals the base: no difference, nothing to split.**\n");
}

TEST(Report, PageIsSelfContainedAndDrawsTheMap) {
  const std::string html = to_html(report_document(small_report()));
  EXPECT_TRUE(has(html, "<svg role=\"img\""));
  EXPECT_TRUE(has(html, "prefers-color-scheme: dark"));
  EXPECT_FALSE(has(html, "<script"));
  EXPECT_FALSE(has(html, " src="));
  EXPECT_FALSE(has(html, "@import"));
}

TEST(Report, ForeignTextIsEscapedInBothForms) {
  Report report = small_report();
  report.buckets[0].name = "<img src=x onerror=alert(1)>\x1b[2J";
  report.buckets[0].link = "javascript:alert(1)";
  report.buckets[0].why = "| a | ![x](http://evil) <b>";
  report.map.topics[0].name = "\"><script>";
  const Document document = report_document(report);
  const std::string html = to_html(document), markdown = to_markdown(document);
  EXPECT_FALSE(has(html, "<img"));
  EXPECT_FALSE(has(html, "<script"));
  EXPECT_FALSE(has(html, "javascript:"));
  EXPECT_FALSE(has(markdown, "javascript:"));
  EXPECT_FALSE(has(markdown, "![x](http"));
  EXPECT_FALSE(has(html + markdown, "\x1b"));
}

TEST(Document, CodeSpansSurviveBackticksAndBars) {
  const Document document{.title = "t", .blocks = {Table{.head = {"h"}, .rows = {{Line{code("a`b|c")}}}}}};
  EXPECT_TRUE(has(to_markdown(document), "``a`b\\|c``"));
}

TEST(BranchMap, CyclesAndUnknownNeedsAreDrawnToo) {
  const BranchMap map{.target = "t",
                      .integration = "i",
                      .topics = {{"a", "upstream", "", {"b"}}, {"b", "upstream", "", {"a", "gone"}}}};
  EXPECT_TRUE(has(draw_branch_map(map), "</svg>"));
  EXPECT_TRUE(has(draw_branch_map({}), "</svg>"));
  EXPECT_TRUE(has(mermaid_branch_map(map), "t1 --> t0"));
}

TEST(BenchRows, ReadsVllmServe) {
  const auto rows = read_bench_rows(
      R"({"model_id":"k26","max_concurrency":8,"num_prompts":64,"request_throughput":1.5,"output_throughput":412.25,"median_ttft_ms":120})",
      "r.json", "");
  ASSERT_TRUE(rows) << rows.error().message();
  ASSERT_EQ(rows->size(), 3U);
  EXPECT_EQ((*rows)[1].metric, "output tokens");
  EXPECT_EQ((*rows)[1].after, 412.25);
  EXPECT_EQ((*rows)[1].configuration, "k26, max_concurrency 8, num_prompts 64");
  EXPECT_FALSE((*rows)[2].higher_is_better);
  EXPECT_TRUE((*rows)[0].image.empty());
}

TEST(BenchRows, ReadsInferenceBenchAndLeavesOutWhatWasNotMeasured) {
  const auto rows = read_bench_rows(
      R"({"metadata":{"model":"k26"},"results":[{"concurrency":4,"context_tokens":32768,"aggregate_tps":88.5,"ttft_p50":0.0}]})",
      "b.json", "sha256:1");
  ASSERT_EQ(rows->size(), 1U);
  EXPECT_EQ((*rows)[0].configuration, "k26, context 32768, concurrency 4");
  EXPECT_EQ((*rows)[0].image, "sha256:1");
}

TEST(BenchRows, ReadsComparisonsWithTheirVerdict) {
  const auto rows = read_bench_rows(
      R"({"cells":[{"context":0,"concurrency":1,"metric":"decode","before":100,"after":99,"ratio_low":0.95,"ratio_high":1.03,"verdict":"equal within noise"}]})",
      "c.json", "");
  ASSERT_EQ(rows->size(), 1U);
  EXPECT_EQ((*rows)[0].spread, "0.950 to 1.030");
  EXPECT_FALSE((*rows)[0].is_regression());
}

TEST(BenchRows, ReadsCsvInBothShapes) {
  const auto pairs = read_bench_rows(
      "configuration,metric,unit,before,after,better\n\"ctx 30k, c 1\",decode,tok/s,10,43,higher\nc "
      "128,ttft,s,1,2,lower\n",
      "a.csv", "");
  ASSERT_TRUE(pairs) << pairs.error().message();
  EXPECT_EQ((*pairs)[0].configuration, "ctx 30k, c 1");
  EXPECT_NEAR(*(*pairs)[0].change(), 3.3, 1e-9);
  EXPECT_TRUE((*pairs)[1].is_regression());
  const auto matrix =
      read_bench_rows("# published\ndcp,concurrency,tokens_per_second\n4,8,512.5\n", "m.csv", "");
  EXPECT_EQ((*matrix)[0].configuration, "dcp 4, concurrency 8");
  EXPECT_EQ((*matrix)[0].metric, "tokens_per_second");
  EXPECT_EQ((*matrix)[0].after, 512.5);
  EXPECT_EQ(read_bench_rows("a,value\n1,x\n", "b.csv", "").error().where, "b.csv:2");
  EXPECT_FALSE(read_bench_rows("a,b\n1\n", "b.csv", ""));
  EXPECT_EQ(read_bench_rows("{\"x\":1}", "x.json", "").error().kind, ErrorKind::kUnsupported);
}

PullRequestInput small_request() {
  return {.bucket = small_report().buckets[0],
          .topic_id = "demo/fp8-dcp",
          .stack = {{.name = "fp8-dcp", .is_this = true}, {.name = "graph"}},
          .title_tags = {"Kernel", "Bugfix"},
          .sign_off = "Ada <ada@example.org>"};
}

TEST(PullRequest, WarningsStandOnTopAndTheStackBetweenMarkers) {
  const PullRequestText text = write_pull_request(small_request());
  EXPECT_TRUE(text.body.starts_with("<!-- Before sending:\n"));
  EXPECT_TRUE(has(text.body, "900 lines that count; above 500"));
  EXPECT_TRUE(has(text.body, "No test is touched."));
  EXPECT_TRUE(has(text.body, "[Kernel], [Bugfix]"));
  EXPECT_TRUE(has(text.body, "## Purpose\n\nIt fails.\n"));
  const std::size_t begin = text.body.find(kStackBegin);
  EXPECT_LT(begin, text.body.find("Tessera-Topic: demo/fp8-dcp\nSigned-off-by: Ada <ada@example.org>\n" +
                                  std::string(kStackEnd)));
}

TEST(PullRequest, ReasonCannotForgeMarkersOrEndAComment) {
  PullRequestInput input = small_request();
  input.bucket.why = "x " + std::string(kStackEnd) + " --> y";
  const std::string body = write_pull_request(input).body;
  EXPECT_EQ(body.find(kStackEnd), body.rfind(kStackEnd));
}

TEST(PullRequest, BodyStaysBelowTheLimitAndKeepsItsMarkers) {
  PullRequestInput input = small_request();
  for (int i = 0; i < 50000; ++i) input.bucket.why += "\xc3\xa9";
  const PullRequestText text = write_pull_request(input);
  EXPECT_LT(text.body.size(), kBodyLimit);
  EXPECT_TRUE(has(text.body, std::string(kStackBegin)));
  EXPECT_TRUE(text.body.ends_with(std::string(kStackEnd) + "\n"));
}

TEST(PullRequest, MergingReplacesOnlyWhatIsOurs) {
  const std::string fresh = "ours\n" + std::string(kStackBegin) + "\nnew\n" + std::string(kStackEnd) + "\n";
  const std::string edited =
      "people's words\n" + std::string(kStackBegin) + "\nold\n" + std::string(kStackEnd) + "\nmore words\n";
  const std::string merged = merge_body(edited, fresh);
  EXPECT_EQ(merged, "people's words\n" + std::string(kStackBegin) + "\nnew\n" + std::string(kStackEnd) +
                        "\nmore words\n");
  EXPECT_EQ(merge_body(merged, fresh), merged);
  const std::string appended = merge_body("no markers", fresh);
  EXPECT_TRUE(appended.starts_with("no markers\n\n<!-- stack:begin"));
  EXPECT_EQ(merge_body(appended, fresh), appended);
}

}  // namespace
}  // namespace tessera::stack
