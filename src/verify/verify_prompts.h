// The prompts that `tessera verify` asks: lengths around blocks and chunks, and one that must be copied.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"
#include "verify/transcript.h"

namespace tessera {

using Encode = std::function<Result<std::vector<std::int32_t>>(const std::string& text)>;

// Of 1, 2, 63, 64, 65, 127, 128, 129 and 300 tokens, and a long one that gives 64 hex digits, much else, and
// asks for the digits. Those that do not fit into `room` tokens are left out or shortened.
Result<std::vector<VerifyPrompt>> default_prompts(const Encode& encode, std::int32_t room);
// One prompt a line; empty lines are skipped.
Result<std::vector<VerifyPrompt>> read_prompt_file(const std::string& path, const Encode& encode,
                                                   std::int32_t room);

}  // namespace tessera
