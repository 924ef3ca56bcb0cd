#include "stack/plan/pin.h"

#include <algorithm>
#include <map>

#include "stack/object/digest.h"

namespace tessera::stack {
namespace {

std::string short_digest(std::string_view bytes) {
  Hasher hasher(Hasher::Kind::kSha256);
  hasher.add(bytes);
  return hasher.hex().substr(0, 8);
}

// What stands around an atom in the tree; the file's ends count as lines of their own.
PinEvidence evidence_of(const Listing& listing, const Atom& atom, std::int32_t equals) {
  const auto& lines = listing.file_of(atom).new_text.lines;
  const auto begin = static_cast<std::size_t>(atom.at.new_begin);
  const auto end = begin + static_cast<std::size_t>(atom.at.new_count);
  std::string sections;
  for (const Section& section : atom.sections) sections += section.kind + ":" + section.name + "\n";
  return {.equals = equals,
          .section = short_digest(sections),
          .above = short_digest(begin > 0 ? lines[begin - 1] : std::string_view()),
          .below = short_digest(end < lines.size() ? lines[end] : std::string_view())};
}

}  // namespace

EqualAtoms::EqualAtoms(const Listing& listing) : families_(1), family_(listing.atoms.size(), 0) {
  std::map<std::pair<std::int32_t, std::string>, std::size_t> by_change;
  for (std::size_t i = 0; i < listing.atoms.size(); ++i) {
    const Atom& atom = listing.atoms[i];
    if (atom.kind != AtomKind::kText) continue;
    const FileChange& file = listing.file_of(atom);
    const auto [at, is_new] = by_change.try_emplace(
        {atom.file, canonical_change(file.old_text.lines, file.new_text.lines, atom.at)}, families_.size());
    if (is_new) families_.emplace_back();
    families_[at->second].push_back(static_cast<std::int32_t>(i));
    family_[i] = at->second;
  }
}

const std::vector<std::int32_t>& EqualAtoms::of(std::int32_t atom) const {
  return families_[family_[static_cast<std::size_t>(atom)]];
}

std::string pin_of(const Listing& listing, const EqualAtoms& equal, std::int32_t at) {
  const Atom& atom = listing.atoms[static_cast<std::size_t>(at)];
  const auto equals = static_cast<std::int32_t>(equal.of(at).size());
  if (equals < 2) return "h:" + atom.id;
  const PinEvidence evidence = evidence_of(listing, atom, equals);
  return "h:" + atom.id + "~" + std::to_string(equals) + ":" + evidence.section + ":" + evidence.above + ":" +
         evidence.below;
}

PinMatch find_pinned(const Listing& listing, const EqualAtoms& equal, const Claim& claim) {
  const PinEvidence& pinned = *claim.evidence;
  std::vector<std::int32_t> family;
  if (const std::vector<std::int32_t> by_id = listing.find(claim.id); !by_id.empty()) {
    family = equal.of(by_id.front());
  } else {
    // The ordinal is gone with an equal atom: the family is the one that had it when it was larger.
    for (const auto& other : equal.families()) {
      for (auto ordinal = static_cast<std::int32_t>(other.size());
           !other.empty() && family.empty() && ordinal < pinned.equals; ++ordinal) {
        const Atom& atom = listing.atoms[static_cast<std::size_t>(other.front())];
        if (id_with_ordinal(listing, atom, ordinal).starts_with(claim.id)) family = other;
      }
    }
  }
  PinMatch match{.candidates = {}, .equals = static_cast<std::int32_t>(family.size())};
  if (match.equals == pinned.equals) {
    std::ranges::copy_if(family, std::back_inserter(match.candidates), [&](std::int32_t at) {
      return listing.atoms[static_cast<std::size_t>(at)].id.starts_with(claim.id);
    });
    return match;
  }
  int best = 1;  // a candidate of which nothing around it is as it was is none
  for (const std::int32_t at : family) {
    const PinEvidence now = evidence_of(listing, listing.atoms[static_cast<std::size_t>(at)], match.equals);
    const int score =
        (now.section == pinned.section) + 2 * (now.above == pinned.above) + 2 * (now.below == pinned.below);
    if (score < best) continue;
    if (score > best) match.candidates.clear();
    best = score;
    match.candidates.push_back(at);
  }
  return match;
}

}  // namespace tessera::stack
