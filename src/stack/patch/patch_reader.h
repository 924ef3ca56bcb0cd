// Reads patch files as they are found in the wild: `git diff` in all its options, mails, plain `diff -u`, and
// prose that is none.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "stack/patch/patch.h"

namespace tessera::stack {

struct PatchLimits {
  std::uint64_t binary_bytes = 256ULL << 20;  // of one unpacked binary content
};

// kInvalidArgument when there is no diff inside ("prose, no diff": which is not the same as an empty
// difference); kCorrupt, with the line, when a hunk does not hold what its header says.
Result<PatchFile> read_patch(std::string_view text, const std::string& where, const PatchLimits& limits = {});

}  // namespace tessera::stack
