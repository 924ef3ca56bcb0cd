#include "engine/step_recordings.h"

#include "base/check.h"

namespace tessera {
namespace {

// Query tokens of a sequence in a step that comes again and again: one, or one and its drafts.
constexpr std::int32_t kMostQueryTokens = 8;

// Every token of the step decodes, and every sequence has as many.
bool is_uniform_decode(const ForwardBatch& batch) {
  return batch.decode.tokens == batch.tokens && batch.decode.max_query <= kMostQueryTokens &&
         std::int64_t{batch.decode.seqs} * batch.decode.max_query == batch.tokens;
}

}  // namespace

Tensor StepRecordings::run(const ForwardBatch& batch, const std::function<Tensor()>& forward) {
  if (is_off_ || !is_uniform_decode(batch)) return forward();
  const auto [entry, is_new] = recorded_.try_emplace({batch.decode.seqs, batch.decode.max_query});
  Recorded& step = entry->second;
  if (is_new) return step.hidden = forward();
  if (!step.recording) {
    step.recording = backend_.record([&] { step.hidden = forward(); });
    TS_CHECK(step.recording != nullptr);
  }
  step.recording->replay();
  return step.hidden;
}

}  // namespace tessera
