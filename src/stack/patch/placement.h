// Where the hunks of a patch fit in a text, by a ladder of ever weaker evidence. No fuzz: a rung with several
// candidates refuses.
//
//   mapped    the text that the patch was made against is known: lines are followed through its difference to
//   this one exact     all old lines stand at the stated line unique    all old lines stand together in one
//   place of the file, whatever the offset reduced   as unique, with context taken away from the outside, one
//   line of it or a removed line at least remaining
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "stack/patch/patch.h"

namespace tessera::stack {

enum class Rung { kMapped, kExact, kUnique, kReduced, kAmbiguous, kNowhere };
std::string_view name_of(Rung rung);

struct HunkPlacement {
  Rung rung = Rung::kNowhere;
  std::int64_t line = 0;                   // where its first remaining line stands, from 1
  std::int64_t offset = 0;                 // lines away from where the patch says
  int context_dropped = 0;                 // kReduced: context lines not looked at
  std::vector<std::int64_t> candidates{};  // kAmbiguous: the first of the lines where it would fit
  std::int64_t candidate_count = 0;
  bool is_placed() const { return rung != Rung::kAmbiguous && rung != Rung::kNowhere; }
};

struct FilePlacement {
  std::vector<HunkPlacement> hunks{};  // [hunks]
  std::optional<std::string>
      result{};          // the text afterwards; absent unless every hunk is placed, in order and apart
  Rung weakest() const;  // kMapped when there are no hunks
};

// `preimage`: the bytes that the index line names, when they are known.
FilePlacement place_hunks(const FilePatch& patch, std::string_view text,
                          const std::optional<std::string>& preimage = std::nullopt);

// The content after the patch, exactly as stated: no offset, whole or not at all. Text or binary; `before` is
// empty for a new file.
Result<std::string> apply_exactly(const FilePatch& patch, std::string_view before);

}  // namespace tessera::stack
