// What --speculative-config asks for, in vLLM's keys, and whether it fits the model that is served.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_config.h"
#include "tensor/kv_format.h"

namespace tessera {

enum class SpeculativeMethod : std::uint8_t {
  kEagle3,      // reads hidden states, drafts one by one
  kDFlash,      // reads hidden states, drafts a block
  kDraftModel,  // a smaller language model
  kNgram,       // what the text said before
};
std::string_view name_of(SpeculativeMethod method);

struct SpeculativeConfig {
  std::optional<SpeculativeMethod> method;  // absent: follows from the draft (resolve_speculation)
  std::string model;                        // the draft's folder; empty for ngram
  std::int32_t num_speculative_tokens = 0;  // 0: not given
  // Drafts are drawn from the draft's distribution and verified by rejection sampling ("probabilistic"), or
  // chosen as its most likely token ("greedy"). Both keep the target's distribution.
  bool draws_drafts = false;
  bool local_argmax = true;  // ranks exchange (value, token) pairs for chosen drafts, never logits
  std::optional<std::int32_t> draft_tensor_parallel_size;  // absent: the target's where the draft divides
  std::optional<KvFormat> draft_kv_format;                 // absent: the device's own
  std::string draft_attention_backend = "auto";
  std::optional<std::int32_t> draft_max_model_len;  // sequences past it are not drafted
  std::int32_t prompt_lookup_min = 0;               // ngram; 0: not given
  std::int32_t prompt_lookup_max = 0;
  std::int32_t disable_by_batch_size = 0;  // 0: no limit
  std::int32_t disable_above_seq_len = 0;  // likewise; also a flag of its own
  bool adaptive = true;                    // the gate decides; false: as many as possible, always
  std::vector<std::string> notes;          // keys that were read and mean nothing here, a sentence each
};

// From the flag's JSON. An unknown key is an error that names the nearest known one.
Result<SpeculativeConfig> parse_speculative_config(std::string_view json);

// Completes the method and the numbers, and refuses what does not fit: another vocabulary, missing layers,
// another width, more drafts than the method allows. `draft` is null for ngram.
Result<SpeculativeConfig> resolve_speculation(SpeculativeConfig config, const ModelConfig& target,
                                              const ModelConfig* draft, std::int32_t tensor_parallel_size);

// A step verifies 1 + k query tokens of a sequence as a decode, which attention takes up to 8 of.
inline constexpr std::int32_t kMostSpeculativeTokens = 7;

}  // namespace tessera
