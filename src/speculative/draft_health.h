// What speculation has done so far, in the terms of vLLM's metrics, and the alarm of a draft that guesses
// noise.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace tessera {

struct SpeculationCounters {
  std::int64_t drafts = 0;           // sequences times steps that had drafts: vllm:spec_decode_num_drafts
  std::int64_t draft_tokens = 0;     // verified: vllm:spec_decode_num_draft_tokens
  std::int64_t accepted_tokens = 0;  // vllm:spec_decode_num_accepted_tokens
  // [num_speculative_tokens] drafts that stood at each position: vllm:spec_decode_num_accepted_tokens_per_pos
  std::vector<std::int64_t> accepted_at;
  std::vector<std::int64_t> verified_at;  // likewise, drafts that there were: fewer where lengths vary

  // A sequence's step: `drafted` drafts, of which the first `accepted` stood.
  void record(std::int32_t drafted, std::int32_t accepted);
  double mean_length() const {  // tokens emitted a step with drafts
    return drafts > 0 ? 1 + static_cast<double>(accepted_tokens) / static_cast<double>(drafts) : 0;
  }
};

// Fires once when first drafts hardly ever stand: whatever the text, a fitting draft guesses more than one
// first token in ten, and a draft fed with the wrong hidden states next to none. Watches windows of 64 first
// drafts, so that it fires within 200 steps of one sequence, gate or not.
class DraftAlarm {
 public:
  static constexpr std::int64_t kWindow = 64;
  static constexpr double kLeastRate = 0.1;
  static constexpr int kBadWindows = 2;  // in a row: one may be a text that nobody could guess

  // A sentence to be logged as a warning, the one time that there is reason to.
  std::optional<std::string> record(std::int32_t drafted, std::int32_t accepted);

 private:
  std::int64_t firsts_ = 0;
  std::int64_t stood_ = 0;
  int bad_windows_ = 0;
  bool fired_ = false;
};

}  // namespace tessera
