// Regions of edits: text that the plan gives for a stretch of a file as it shall be after one topic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "stack/atom/atom.h"
#include "stack/plan/ownership.h"
#include "stack/plan/plan.h"

namespace tessera::stack {

struct EditRegion {
  std::int32_t edit = 0;             // index into Plan::edits
  std::int32_t bucket = 0;           // after which it holds
  std::int32_t file = 0;             // index into Listing::files
  std::int32_t first_atom = 0;       // index into Listing::atoms; the region spans from here …
  std::int32_t last_atom = 0;        // … to here, with the unchanged lines between
  std::vector<std::int32_t> owners;  // buckets that own lines in it, sorted, without kUnassigned
  std::string text;
};

// Reads the edits' files. `folder` is the plan's.
Result<std::vector<EditRegion>> read_regions(const Plan& plan, const Listing& listing,
                                             const Ownership& ownership, const std::string& folder,
                                             const std::string& plan_name);

}  // namespace tessera::stack
