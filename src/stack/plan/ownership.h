// Who owns which atom, or which lines of it: the plan's claims resolved against a listing.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "stack/atom/atom.h"
#include "stack/atom/line_pick.h"
#include "stack/plan/plan.h"

namespace tessera::stack {

inline constexpr std::int32_t kUnassigned = -1;

// The owner of one atom: one bucket for all of it, or one a line when pieces cut it.
struct AtomOwner {
  std::int32_t whole = kUnassigned;  // index into Plan::buckets; meaningless when is_cut
  bool is_cut = false;
  std::vector<std::int32_t> removed{};  // a bucket or kUnassigned for each removed line; only when is_cut
  std::vector<std::int32_t> added{};
  friend bool operator==(const AtomOwner&, const AtomOwner&) = default;

  // The buckets that own anything of it, sorted, kUnassigned included.
  std::vector<std::int32_t> owners() const;
};

struct Ownership {
  std::vector<AtomOwner> atoms;  // [Listing::atoms]

  std::int64_t unassigned() const;  // atoms of which anything is unassigned
};

struct ClaimResolution {
  Ownership ownership;
  std::vector<Error>
      errors;  // two claims on one atom, claims that match nothing, ambiguous ids; each names plan lines
  std::vector<std::string> warnings;  // full sentences
};

// `plan_name` stands in messages, e.g. "stack.toml".
ClaimResolution resolve_claims(const Plan& plan, const Listing& listing, const std::string& plan_name);

}  // namespace tessera::stack
