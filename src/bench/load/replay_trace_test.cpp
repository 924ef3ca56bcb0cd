#include "bench/load/replay_trace.h"

#include <gmock/gmock.h>

#include <fstream>
#include <sstream>

#include "bench/report/statistics.h"

namespace tessera::bench {
namespace {

using ::testing::HasSubstr;

constexpr const char* kHead = "{\"tessera_trace\": 1, \"name\": \"two\"}\n";

Result<ReplayTrace> parse(const std::string& lines) { return parse_trace(kHead + lines, "t"); }

TEST(ReplayTrace, SessionsGrowTurnByTurn) {
  const auto trace = parse(
      "{\"session\":7,\"at_s\":2.5,\"prefix\":\"tools\",\"prefix_tokens\":100,\"new_tokens\":20,\"output_"
      "tokens\":5}\n"
      "\n{\"session\":3,\"new_tokens\":9,\"output_tokens\":1}\n"
      "{\"session\":7,\"wait_s\":1,\"new_tokens\":30,\"output_tokens\":6}\r\n");
  ASSERT_TRUE(trace) << trace.error().message();
  ASSERT_EQ(trace->sessions.size(), 2u);
  EXPECT_EQ(trace->name, "two");
  EXPECT_EQ(trace->sessions[0].at_s, 0);  // by arrival, not by line
  EXPECT_EQ(trace->sessions[1].prefix, "tools");
  EXPECT_EQ(trace->sessions[1].turns[1].wait_s, 1);
  EXPECT_EQ(trace->sessions[1].longest(), 100 + 20 + 5 + 30 + 6);
}

TEST(ReplayTrace, RefusesWhatIsNone) {
  EXPECT_EQ(parse_trace("{\"session\":1}\n", "t").error().kind, ErrorKind::kUnsupported);
  EXPECT_THAT(parse("").error().what, HasSubstr("no requests"));
  EXPECT_EQ(parse("[]\n").error().where, "t:2");
  const std::pair<const char*, const char*> bad[] = {
      {R"({"at_s":1,"new_tokens":1,"output_tokens":1})", "'session' is missing"},
      {R"({"session":1,"new_tokens":1})", "'output_tokens' is missing"},
      {R"({"session":1,"new_tokens":1,"output_tokens":0})", "'output_tokens' is 0"},
      {R"({"session":1,"new_tokens":0,"output_tokens":1})", "'new_tokens' is 0"},
      {R"({"session":1,"new_tokens":1.5,"output_tokens":1})", "no whole number"},
      {R"({"session":1,"at_s":-1,"new_tokens":1,"output_tokens":1})", "'at_s'"},
      {R"({"session":1,"prefix_tokens":5,"new_tokens":1,"output_tokens":1})", "'prefix' is missing"},
      {R"({"session":1,"new_tokens":99999999,"output_tokens":1})", "'new_tokens' is 99999999"},
  };
  for (const auto& [line, message] : bad) {
    const auto trace = parse(std::string(line) + "\n");
    ASSERT_FALSE(trace) << line;
    EXPECT_THAT(trace.error().what, HasSubstr(message)) << line;
  }
  EXPECT_THAT(parse("{\"session\":1,\"new_tokens\":1,\"output_tokens\":1}\n"
                    "{\"session\":1,\"at_s\":3,\"new_tokens\":1,\"output_tokens\":1}\n")
                  .error()
                  .what,
              HasSubstr("first line alone"));
}

TEST(Arrivals, HaveTheRateAndTheBurstinessAskedFor) {
  for (const double burstiness : {0.5, 1.0, 4.0}) {
    const ReplayTrace trace = arrivals({.requests_per_s = 8, .burstiness = burstiness, .requests = 20'000});
    std::vector<double> gaps;
    for (std::size_t i = 1; i < trace.sessions.size(); ++i)
      gaps.push_back(trace.sessions[i].at_s - trace.sessions[i - 1].at_s);
    EXPECT_NEAR(mean(gaps), 1.0 / 8, 0.004);
    EXPECT_NEAR(deviation(gaps) / mean(gaps), 1 / std::sqrt(burstiness), 0.04);
  }
}

TEST(ShippedTrace, IsOfAgentsThatGrowLong) {
  std::ifstream file(TESSERA_SOURCE_DIR "/docs/reference/traces/agents.jsonl");
  std::stringstream text;
  text << file.rdbuf();
  const auto trace = parse_trace(text.str(), "agents.jsonl");
  ASSERT_TRUE(trace) << trace.error().message();
  EXPECT_GE(trace->sessions.size(), 10u);
  std::size_t turns = 0;
  for (const TraceSession& session : trace->sessions) {
    turns += session.turns.size();
    EXPECT_FALSE(session.prefix.empty());
    EXPECT_LT(session.longest(), 131'072);
  }
  EXPECT_GT(turns, 100u);
}

}  // namespace
}  // namespace tessera::bench
