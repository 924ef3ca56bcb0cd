// Names that atoms introduce and names that they use, by the look of the text: no compiler is asked, so the
// plan may refute a finding.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "stack/atom/atom.h"
#include "stack/plan/ownership.h"

namespace tessera::stack {

struct NameUse {
  // Names by bucket, each with the first atom of the bucket that shows it.
  using Names = std::map<std::string, std::int32_t, std::less<>>;
  // Only source code counts: prose, recipes and settings mention names without needing them.
  std::map<std::int32_t, Names> introduced;  // defined, assigned, declared, or a file of that name created
  std::map<std::int32_t, Names> used;        // occurring in added lines at all
};

// Whether the word at `begin` of `line` is introduced there: behind def, class, struct, #define …, or
// assigned or annotated at the beginning of a statement, or as a key in quotes before a colon.
bool introduces(std::string_view line, std::size_t begin, std::size_t size);

NameUse find_names(const Listing& listing, const Ownership& ownership);

}  // namespace tessera::stack
