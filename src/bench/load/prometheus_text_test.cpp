#include "bench/load/prometheus_text.h"

#include <gmock/gmock.h>

namespace tessera::bench {
namespace {

TEST(PrometheusText, SumsASampleOverItsLabels) {
  const MetricSamples samples(
      "# HELP a Text.\n# TYPE a counter\na{engine=\"0\"} 2.5\na{engine=\"1\",x=\"q\\\"}\"} 1e1 1700000000\nb "
      "7\r\n");
  EXPECT_EQ(samples.sum("a"), 12.5);
  EXPECT_EQ(samples.sum("b"), 7);
  EXPECT_FALSE(samples.sum("c"));
  EXPECT_EQ(samples.all()[1].labels.at("x"), "q\"}");
}

TEST(PrometheusText, LeavesOutWhatIsNoSample) {
  const MetricSamples samples("a{b=\"c} 1\n{} 2\n 3\nb NaN\nc 1x\nd{e} 1\nf{\nok 1\n");
  ASSERT_EQ(samples.all().size(), 1u);
  EXPECT_EQ(samples.all()[0].name, "ok");
}

TEST(PrometheusText, ReadsAcceptanceByPosition) {
  const ServerCounters counters = read_counters(
      "vllm:spec_decode_num_accepted_tokens_per_pos_total{position=\"1\"} 4\n"
      "vllm:spec_decode_num_accepted_tokens_per_pos_total{position=\"0\"} 9\n"
      "vllm:spec_decode_num_accepted_tokens_per_pos_total{position=\"99999999999\"} 9\n"
      "vllm:num_requests_running{model_name=\"k\"} 3\n");
  EXPECT_THAT(counters.accepted_at, ::testing::ElementsAre(9, 4));
  EXPECT_EQ(counters.running, 3);
  EXPECT_FALSE(counters.waiting);
}

}  // namespace
}  // namespace tessera::bench
