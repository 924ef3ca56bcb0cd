// The reference data under tests/golden/: what transformers computed in float32 for the shipped models.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tessera::test {

struct GoldenPrompt {
  std::string name;
  std::vector<std::int32_t> ids;
  std::vector<std::int32_t> logits_positions;
  std::vector<std::vector<float>> logits;  // [logits_positions][vocab]
  std::vector<std::int32_t> greedy;        // continuation
  std::size_t greedy_safe_tokens = 0;      // before the first top-2 gap of 1e-3 or less
};

// What a draft proposed after a prompt, given the target's true hidden states.
struct GoldenDraft {
  std::int32_t next_token = 0;             // the newest known token
  std::vector<std::int32_t> target_after;  // what the target says after it
  std::vector<std::int32_t> tokens;        // the draft's, in the target's vocabulary
  std::vector<std::vector<float>> logits;  // [tokens][draft vocab]
  std::vector<std::vector<float>> aux;     // [prompt][3 * hidden], the draft's input
};
// draft: eagle3, eagle3-mla, dflash; prompt: len64, chat.
GoldenDraft golden_draft(const std::string& draft, const std::string& prompt);

// A float32 tensor of golden.safetensors as rows.
std::vector<std::vector<float>> golden_tensor(const std::string& name);
GoldenPrompt golden_prompt(const std::string& name);
std::vector<GoldenPrompt> golden_prompts();  // len1, len7, len64, len300, len1500, chat

std::string source_path(const std::string& relative);  // in the source tree

}  // namespace tessera::test
