#include "bench/server/server_cost.h"

#include <gmock/gmock.h>

namespace tessera::bench {
namespace {

ServerCostOptions small() {
  return {.model = TESSERA_SOURCE_DIR "/models/tessera-tiny", .connections = 2, .seconds = 0.3, .tokens = 4};
}

TEST(ServerCost, EveryPartIsFilledIn) {
  ServerCostOptions options = small();
  options.stream = true;
  const auto cost = measure_server(options);
  ASSERT_TRUE(cost.ok()) << cost.error().message();
  EXPECT_GT(cost->requests_per_s, 0);
  EXPECT_GT(cost->cpu_us, 0);
  EXPECT_GT(cost->client_cpu_us, 0);
  EXPECT_GE(cost->events, 1);
  EXPECT_LE(cost->events, 4 + 1);  // a first event may carry the empty text
  BenchReport report;
  add_measurements(options, *cost, report);
  ASSERT_EQ(report.measurements.size(), 3U);
  EXPECT_EQ(report.measurements[0].configuration(), "streamed, connections 2, tokens 4");
  EXPECT_TRUE(report.measurements[2].facts.contains("latency_ms_p99"));
}

TEST(ServerCost, AFolderWithoutATokenizerIsRefused) {
  ServerCostOptions options = small();
  options.model = TESSERA_SOURCE_DIR "/src";
  EXPECT_FALSE(measure_server(options).ok());
}

}  // namespace
}  // namespace tessera::bench
