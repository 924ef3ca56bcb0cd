// A decode step of the real engine allocates nothing, on any of its threads: the plan written while the step
// before runs, the model's pass, sampling, drafts and their verification, results handed out.
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <string>

#include "support/allocation_count.h"
#include "support/golden.h"
#include "support/live_engine.h"

namespace tessera::test {
namespace {

constexpr std::int32_t kWarm = 100;  // tokens
constexpr std::int32_t kEnd = 400;

// Looks at the count of allocations when its request has kWarm tokens, and when it has kEnd.
class Witness final : public RequestSink {
 public:
  void on_output(const RequestOutput& output) override {
    const std::int32_t before = tokens_;
    tokens_ += static_cast<std::int32_t>(output.tokens.size());
    if (before < kWarm && tokens_ >= kWarm) warm_ = allocations();
    if (before < kEnd && tokens_ >= kEnd) seen.set_value(allocations() - warm_);
  }
  std::promise<std::int64_t> seen;

 private:
  std::int32_t tokens_ = 0;
  std::int64_t warm_ = 0;
};

class Quiet final : public RequestSink {
 public:
  void on_output(const RequestOutput&) override {}
};

// Four sequences, greedy and drawn, with penalties, for longer than the witness looks. Blocks are full and
// new ones taken meanwhile.
std::int64_t allocations_while_decoding(const std::string& draft, bool ahead) {
  ServeFlags flags;
  flags.max_model_len = 1536;
  flags.max_num_seqs = 4;
  flags.async_scheduling = ahead;
  flags.prefix_caching = false;
  if (!draft.empty()) {
    flags.speculative_config = R"({"model": ")" + source_path("models/tessera-tiny-" + draft) +
                               R"(", "num_speculative_tokens": 3, "adaptive": false})";
  }
  LiveEngine live(flags);
  std::int64_t count = 0;
  // The second time all situations are known to the gate, which keeps the costs of each.
  for (int time = 0; time < 2; ++time) {
    const auto witness = std::make_shared<Witness>();
    auto result = witness->seen.get_future();
    std::vector<RequestId> ids;
    for (std::int32_t i = 0; i < 4; ++i) {
      GenerationRequest request;
      request.prompt = golden_prompt("len64").ids;
      request.sampling.temperature = i % 2 == 0 ? 0.0F : 0.8F;
      request.sampling.top_p = 0.9F;
      request.sampling.seed = static_cast<std::uint64_t>(i);
      if (i == 2) request.sampling.repetition_penalty = 1.1F;
      request.sampling.ignore_eos = true;
      request.sampling.max_tokens = i == 0 ? kEnd + 20 : 1400;
      std::shared_ptr<RequestSink> sink = witness;
      if (i > 0) sink = std::make_shared<Quiet>();
      const auto id = live.engine().submit(std::move(request), std::move(sink));
      TS_CHECK(id.ok(), id.error().message());
      ids.push_back(*id);
    }
    count = result.get();
    for (const RequestId id : ids) live.engine().cancel(id);
  }
  return count;
}

TEST(EngineStep, AllocatesNothingWhereStepsArePlannedAhead) {
  for (const char* draft : {"", "eagle3", "eagle3-mla", "dflash"}) {
    EXPECT_EQ(allocations_while_decoding(draft, true), 0) << "with draft " << draft;
  }
}

TEST(EngineStep, AllocatesNothingWhereStepsFollowOneAnother) {
  EXPECT_EQ(allocations_while_decoding("", false), 0);
  EXPECT_EQ(allocations_while_decoding("eagle3", false), 0);
}

}  // namespace
}  // namespace tessera::test
