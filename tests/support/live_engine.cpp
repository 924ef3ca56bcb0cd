#include "support/live_engine.h"

#include <condition_variable>
#include <mutex>

#include "support/golden.h"

namespace tessera::test {
namespace {

class Collector final : public RequestSink {
 public:
  void on_output(const RequestOutput& output) override {
    const std::lock_guard lock(mutex_);
    for (const SampledToken& token : output.tokens) {
      answer_.tokens.push_back(token.token);
      answer_.logprobs.push_back(token.logprob);
    }
    for (const SampledToken& token : output.prompt_logprobs) answer_.prompt_logprobs.push_back(token.logprob);
    if (!output.finished) return;
    answer_.finished = *output.finished;
    answer_.cached_tokens = output.cached_tokens;
    answer_.preemptions = output.preemptions;
    done_ = true;
    wake_.notify_all();
  }
  Answer wait() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return done_; });
    return answer_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  bool done_ = false;
  Answer answer_;
};

}  // namespace

LiveEngine::LiveEngine(ServeFlags flags) {
  flags.model = source_path("models/tessera-tiny");
  if (flags.device == "auto") flags.device = "cpu";  // what tests promise is the CPU's exactness
  const auto checkpoint = Checkpoint::open(flags.model);
  TS_CHECK(checkpoint.ok(), checkpoint.error().message());
  auto launched = launch_engine(flags, *checkpoint, {});
  TS_CHECK(launched.ok(), launched.error().message());
  launched_ = *std::move(launched);
}

std::vector<Answer> LiveEngine::run(const std::vector<GenerationRequest>& requests) {
  std::vector<std::shared_ptr<Collector>> sinks;
  for (const GenerationRequest& request : requests) {
    sinks.push_back(std::make_shared<Collector>());
    const auto id = launched_.engine->submit(request, sinks.back());
    TS_CHECK(id.ok(), id.error().message());
  }
  std::vector<Answer> answers;
  for (const auto& sink : sinks) answers.push_back(sink->wait());
  return answers;
}

}  // namespace tessera::test
