// What one configuration says to a list of prompts: greedy tokens, and the logits that they were chosen from.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "engine/engine_client.h"
#include "engine/model_runner.h"

namespace tessera {

struct VerifyPrompt {
  std::string name;  // "129 tokens", "copy"
  std::vector<std::int32_t> tokens;
};

// Rows of logits by the position of their query token.
using LogitRows = std::map<std::int32_t, std::vector<float>>;

struct PromptTranscript {
  std::vector<std::int32_t> free;      // greedy, alone in the engine
  std::vector<std::int32_t> together;  // greedy, with all other prompts at the same time
  LogitRows decoded;                   // along the forced tokens, computed one by one
  LogitRows prefilled;                 // along the prompt and the forced tokens, computed as one prompt
};
using Transcript = std::vector<PromptTranscript>;  // [prompts]

// Where a runner's logits go while a request runs. Install tap() before the engine starts.
class LogitsRecorder {
 public:
  ModelRunner::LogitsTap tap();
  // Rows of positions that `stride` divides, and all from `first` on, until stop().
  void record(LogitRows& rows, std::int32_t stride, std::int32_t first);
  void stop();

 private:
  std::mutex mutex_;
  LogitRows* rows_ = nullptr;
  std::int32_t stride_ = 1;
  std::int32_t first_ = 0;
};

struct TranscriptOptions {
  std::int32_t tokens = 32;  // generated for each prompt
  std::int64_t max_row_bytes = std::int64_t{1}
                               << 30;  // of a transcript's rows; prompts' rows are thinned out
};

// Runs every prompt: alone and free, alone along `forced` (the reference's free tokens; empty: its own), and
// all together. The engine must run nothing else.
Result<Transcript> transcribe(EngineClient& engine, LogitsRecorder& recorder,
                              std::span<const VerifyPrompt> prompts, const Transcript* reference,
                              const TranscriptOptions& options);

}  // namespace tessera
