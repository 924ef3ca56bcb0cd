#include "verify/transcript.h"

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <utility>

namespace tessera {
namespace {

// Allows exactly the tokens of a list, one after the other.
class Forced final : public TokenConstraint {
 public:
  explicit Forced(std::vector<std::int32_t> tokens) : tokens_(std::move(tokens)) {}

  void allowed(std::vector<std::uint64_t>& mask) override {
    const auto token = static_cast<std::size_t>(tokens_[std::min(next_, tokens_.size() - 1)]);
    mask[token / 64] |= std::uint64_t{1} << (token % 64);
  }
  void accept(std::int32_t) override { ++next_; }
  void rollback(std::int32_t count) override { next_ -= static_cast<std::size_t>(count); }
  bool is_complete() const override { return false; }

 private:
  std::vector<std::int32_t> tokens_;
  std::size_t next_ = 0;
};

class Collector final : public RequestSink {
 public:
  void on_output(const RequestOutput& output) override {
    const std::lock_guard lock(mutex_);
    for (const SampledToken& token : output.tokens) tokens_.push_back(token.token);
    if (!output.finished) return;
    error_ = output.error;
    if (output.finished == FinishReason::kAbort)
      error_ = Error{ErrorKind::kCancelled, "engine", "It was cancelled."};
    done_ = true;
    wake_.notify_all();
  }
  Result<std::vector<std::int32_t>> wait() {
    std::unique_lock lock(mutex_);
    wake_.wait(lock, [&] { return done_; });
    if (error_) return *error_;
    return tokens_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::int32_t> tokens_;
  std::optional<Error> error_;
  bool done_ = false;
};

GenerationRequest greedy(std::vector<std::int32_t> prompt, std::int32_t tokens) {
  GenerationRequest request;
  request.prompt = std::move(prompt);
  request.sampling.temperature = 0;
  request.sampling.max_tokens = tokens;
  request.sampling.ignore_eos = true;
  return request;
}

Result<std::vector<std::int32_t>> run(EngineClient& engine, GenerationRequest request) {
  const auto sink = std::make_shared<Collector>();
  TS_TRY(engine.submit(std::move(request), sink));
  return sink->wait();
}

}  // namespace

ModelRunner::LogitsTap LogitsRecorder::tap() {
  return [this](std::int32_t, std::int32_t position, std::span<const float> logits) {
    const std::lock_guard lock(mutex_);
    if (rows_ == nullptr || (position < first_ && position % stride_ != 0)) return;
    (*rows_)[position].assign(logits.begin(), logits.end());
  };
}

void LogitsRecorder::record(LogitRows& rows, std::int32_t stride, std::int32_t first) {
  const std::lock_guard lock(mutex_);
  rows_ = &rows;
  stride_ = stride;
  first_ = first;
}

void LogitsRecorder::stop() {
  const std::lock_guard lock(mutex_);
  rows_ = nullptr;
}

Result<Transcript> transcribe(EngineClient& engine, LogitsRecorder& recorder,
                              std::span<const VerifyPrompt> prompts, const Transcript* reference,
                              const TranscriptOptions& options) {
  // Every generated token has two rows; what is left of the allowance goes to the prompts.
  std::int64_t prompt_rows = 0;
  for (const VerifyPrompt& prompt : prompts) prompt_rows += static_cast<std::int64_t>(prompt.tokens.size());
  const std::int64_t row_bytes = std::int64_t{engine.info().vocab} * 4;
  const std::int64_t room =
      options.max_row_bytes - 2 * static_cast<std::int64_t>(prompts.size()) * options.tokens * row_bytes;
  const std::int64_t rows = std::max<std::int64_t>(1, room / row_bytes);
  const auto stride = static_cast<std::int32_t>(std::max<std::int64_t>(1, (prompt_rows + rows - 1) / rows));

  Transcript transcript(prompts.size());
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const std::vector<std::int32_t>& prompt = prompts[i].tokens;
    PromptTranscript& mine = transcript[i];
    const auto last = static_cast<std::int32_t>(prompt.size()) - 1;
    recorder.record(mine.decoded, 1, last);
    TS_TRY(mine.free, run(engine, greedy(prompt, options.tokens)));
    recorder.stop();
    const std::vector<std::int32_t>& forced = reference != nullptr ? (*reference)[i].free : mine.free;
    if (mine.free != forced) {
      mine.decoded.clear();
      GenerationRequest request = greedy(prompt, options.tokens);
      request.sampling.constraint = std::make_shared<Forced>(forced);
      recorder.record(mine.decoded, 1, last);
      TS_TRY(run(engine, std::move(request)));
      recorder.stop();
    }
    // As one prompt: log-probabilities of every token are asked for, so every row is made, cached or not. The
    // last token only ends the request.
    std::vector<std::int32_t> whole = prompt;
    whole.insert(whole.end(), forced.begin(), forced.end());
    const std::int32_t room_left = engine.info().max_model_len - 1;
    if (static_cast<std::int32_t>(whole.size()) > room_left)
      whole.resize(static_cast<std::size_t>(room_left));
    GenerationRequest request = greedy(std::move(whole), 1);
    request.sampling.prompt_logprobs = 0;
    recorder.record(mine.prefilled, stride, last);
    TS_TRY(run(engine, std::move(request)));
    recorder.stop();
  }

  std::vector<std::shared_ptr<Collector>> sinks;
  for (const VerifyPrompt& prompt : prompts) {
    sinks.push_back(std::make_shared<Collector>());
    TS_TRY(engine.submit(greedy(prompt.tokens, options.tokens), sinks.back()));
  }
  for (std::size_t i = 0; i < sinks.size(); ++i) {
    TS_TRY(transcript[i].together, sinks[i]->wait());
  }
  return transcript;
}

}  // namespace tessera
