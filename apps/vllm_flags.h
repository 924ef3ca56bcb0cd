// vLLM's flags that have no meaning here, or none yet: accepted so that a launch line can stay as it is, with
// a note that says why.
#pragma once

#include <span>
#include <string_view>

namespace tessera {

enum class FlagUse {
  kNoMeaning,    // accepted with any value; a note says why
  kOnlyDefault,  // accepted while its value is `only`; any other value is refused with the reason
  kRefused,      // asks for something that would be missing from the answers: refused with the reason
};

struct VllmFlag {
  std::string_view name;  // "--load-format"
  bool takes_value = true;
  FlagUse use = FlagUse::kNoMeaning;
  std::string_view only = {};    // kOnlyDefault
  std::string_view reason = {};  // completes the sentence "--load-format fastsafetensors has no effect: …"
};

std::span<const VllmFlag> vllm_flags();

}  // namespace tessera
