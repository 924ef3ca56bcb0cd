// Pins: the ids that `plan pin` writes beside looser claims, with enough of the neighbourhood to find an atom
// again among its equals.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "stack/atom/atom.h"
#include "stack/plan/plan.h"

namespace tessera::stack {

// Which text atoms of a listing are equal but for their ordinals.
class EqualAtoms {
 public:
  explicit EqualAtoms(const Listing& listing);

  // In file order; the atom alone when it has no equals, empty when it is no text.
  const std::vector<std::int32_t>& of(std::int32_t atom) const;
  const std::vector<std::vector<std::int32_t>>& families() const { return families_; }

 private:
  std::vector<std::vector<std::int32_t>> families_;  // the first one is empty
  std::vector<std::size_t> family_;                  // [atoms]
};

// "h:3fa9c1d2e3f4a5b6"; with "~" and evidence when the file holds equal atoms.
std::string pin_of(const Listing& listing, const EqualAtoms& equal, std::int32_t atom);

struct PinMatch {
  std::vector<std::int32_t> candidates;  // one: it is meant; several: they fit equally well
  std::int32_t equals = 0;               // atoms with the pinned bytes that the listing has now
};

// The atom that a claim with evidence means. While as many are equal as were, the ordinal in the id decides.
PinMatch find_pinned(const Listing& listing, const EqualAtoms& equal, const Claim& claim);

}  // namespace tessera::stack
