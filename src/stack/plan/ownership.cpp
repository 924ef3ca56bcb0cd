#include "stack/plan/ownership.h"

#include <algorithm>
#include <set>

#include "stack/atom/glob.h"
#include "stack/object/next_command.h"
#include "stack/object/printable.h"
#include "stack/plan/pin.h"

namespace tessera::stack {
namespace {

struct Match {
  std::int32_t bucket = kUnassigned;
  const Claim* claim = nullptr;
};

// More exact claims first; among globs the longest.
std::pair<int, std::size_t> rank_of(const Claim& claim) {
  return {static_cast<int>(claim.kind), claim.kind == ClaimKind::kGlob ? claim.path.size() : 0};
}

bool path_matches(const Claim& claim, const FileChange& file) {
  switch (claim.kind) {
    case ClaimKind::kAtom:
    case ClaimKind::kPiece:
      return true;
    case ClaimKind::kGlob:
    case ClaimKind::kText:
      return glob_matches(claim.path, file.path);
    case ClaimKind::kPath:
      return claim.path == file.path || (!claim.renamed_to.empty() && claim.renamed_to == file.path);
    case ClaimKind::kSection:
    case ClaimKind::kLines:
      return claim.path == file.path;
  }
  return false;
}

// Of an atom whose path matches.
bool atom_matches(const Claim& claim, const Listing& listing, const Atom& atom) {
  switch (claim.kind) {
    case ClaimKind::kAtom:
    case ClaimKind::kPiece:
      return atom.id.starts_with(claim.id);
    case ClaimKind::kGlob:
    case ClaimKind::kPath:
      return true;
    case ClaimKind::kText: {
      const auto lines = listing.added(atom).empty() ? listing.removed(atom) : listing.added(atom);
      return std::ranges::any_of(lines, [&](std::string_view line) { return claim.pattern->found_in(line); });
    }
    case ClaimKind::kSection: {
      const auto names = [&](const Section& s) {
        return s.name == claim.section && (claim.section_kind.empty() || s.kind == claim.section_kind);
      };
      return std::ranges::any_of(atom.sections, names) ||
             std::ranges::any_of(sections_begun(listing.file_of(atom).path, listing.added(atom)), names);
    }
    case ClaimKind::kLines: {
      if (atom.kind != AtomKind::kText) return false;
      const std::int32_t begin =
          atom.at.new_begin + 1;  // a pure deletion stands between lines: it counts as the line that follows
      const std::int32_t end = std::max(begin, atom.at.new_begin + atom.at.new_count);
      return begin <= claim.last_line && end >= claim.first_line;
    }
  }
  return false;
}

class Resolver {
 public:
  Resolver(const Plan& plan, const Listing& listing, const std::string& name)
      : plan_(plan), listing_(listing), name_(name), equal_(listing) {}

  ClaimResolution resolve() {
    const std::size_t count = listing_.atoms.size();
    std::vector<std::vector<Match>> whole(count);
    std::vector<std::vector<Match>> pieces(count);
    for (std::size_t b = 0; b < plan_.buckets.size(); ++b) {
      const Bucket& bucket = plan_.buckets[b];
      std::vector<bool> left(count, false);
      for (const Claim& claim : bucket.leave) {
        for (const std::int32_t at : found_by(claim)) left[static_cast<std::size_t>(at)] = true;
      }
      for (const auto* claims : {&bucket.take, &bucket.pins}) {
        for (const Claim& claim : *claims) {
          for (const std::int32_t at : found_by(claim)) {
            const auto i = static_cast<std::size_t>(at);
            if (left[i] && claim.kind != ClaimKind::kPiece) continue;
            (claim.kind == ClaimKind::kPiece ? pieces : whole)[i].push_back(
                {static_cast<std::int32_t>(b), &claim});
          }
        }
      }
    }
    for (std::size_t i = 0; i < count; ++i)
      out_.ownership.atoms.push_back(owner_of(listing_.atoms[i], whole[i], pieces[i]));
    return std::move(out_);
  }

 private:
  std::string where(const Claim& claim) const { return name_ + ":" + std::to_string(claim.line); }
  std::string id_of(const Atom& atom) const { return "h:" + listing_.short_id(atom); }
  std::string shown(const Atom& atom) const {
    return id_of(atom) + " (" + printable(listing_.file_of(atom).path) + ")";
  }

  std::string shown_all(const std::vector<std::int32_t>& atoms) const {
    std::string out;
    for (const std::int32_t at : atoms)
      out += (out.empty() ? "" : ", ") + shown(listing_.atoms[static_cast<std::size_t>(at)]);
    return out;
  }

  // A rename is a reading of the difference; a claim on one must read it rightly.
  bool is_rename(const Claim& claim) {
    const FileChange* from = listing_.find_file(claim.path);
    const FileChange* to = listing_.find_file(claim.renamed_to);
    if (from != nullptr && !from->after && to != nullptr && !to->before) return true;
    if (!claim.is_optional) {
      out_.errors.push_back({ErrorKind::kNotFound, where(claim),
                             "The claim " + printable(claim.written) +
                                 " names no rename: the tree has to lack " + printable(claim.path) +
                                 ", which the base has, and to have made " + printable(claim.renamed_to) +
                                 "."});
    }
    return false;
  }

  std::vector<std::int32_t> found_by(const Claim& claim) {
    std::vector<std::int32_t> found;
    if (!claim.renamed_to.empty() && !is_rename(claim)) return found;
    if (claim.evidence) {
      PinMatch match = find_pinned(listing_, equal_, claim);
      if (match.candidates.size() < 2) {
        if (match.candidates.empty() && !claim.is_optional)
          out_.errors.push_back({ErrorKind::kNotFound, where(claim), nothing_found(claim)});
        return match.candidates;
      }
      out_.errors.push_back({ErrorKind::kInvalidArgument, where(claim),
                             "Of " + std::to_string(claim.evidence->equals) + " equal blocks " +
                                 std::to_string(match.equals) + " are left, and the pin " + claim.id +
                                 " fits several: " + shown_all(match.candidates) +
                                 "; put the one that is meant in its place."});
      return {};
    }
    for (const FileChange& file : listing_.files) {
      if (!path_matches(claim, file)) continue;
      for (std::int32_t at = file.first_atom; at < file.first_atom + file.atom_count; ++at) {
        if (atom_matches(claim, listing_, listing_.atoms[static_cast<std::size_t>(at)])) found.push_back(at);
      }
    }
    const bool by_id = claim.kind == ClaimKind::kAtom || claim.kind == ClaimKind::kPiece;
    if (found.empty() && !claim.is_optional) {
      out_.errors.push_back({ErrorKind::kNotFound, where(claim), nothing_found(claim)});
    }
    if (by_id && found.size() > 1) {
      out_.errors.push_back(
          {ErrorKind::kInvalidArgument, where(claim),
           with_next(
               "The id " + claim.written + " is ambiguous; it could be " + shown_all(found),
               "tessera-stack show " + id_of(listing_.atoms[static_cast<std::size_t>(found.front())]))});
      found.clear();
    }
    return found;
  }

  std::string nothing_found(const Claim& claim) const {
    std::string what = "The claim " + printable(claim.written) + " matches no atom";
    if (!claim.path.empty() && claim.kind != ClaimKind::kGlob && claim.kind != ClaimKind::kText) {
      what += listing_.find_file(claim.path) == nullptr ? ": this path does not differ"
                                                        : ": the path differs elsewhere";
    }
    const bool differs = listing_.find_file(claim.path) != nullptr;
    return with_next(what + "; correct it, remove it, or mark it optional",
                     "tessera-stack list" + (differs ? " " + shell_quoted(claim.path) : std::string()));
  }

  AtomOwner owner_of(const Atom& atom, const std::vector<Match>& whole, const std::vector<Match>& pieces) {
    AtomOwner owner{.whole = best_of(atom, whole)};
    if (pieces.empty()) return owner;
    const auto removed = listing_.removed(atom);
    const auto added = listing_.added(atom);
    if (atom.kind != AtomKind::kText) {
      const Claim& claim = *pieces.front().claim;
      out_.errors.push_back({ErrorKind::kInvalidArgument, where(claim),
                             "The atom " + shown(atom) + " is a " + std::string(name_of(atom.kind)) +
                                 ", which has no lines to take a piece of."});
      return owner;
    }
    owner.is_cut = true;
    owner.removed.assign(removed.size(),
                         owner.whole);  // what no piece takes stays with the claim on the whole atom, if any
    owner.added.assign(added.size(), owner.whole);
    std::vector<const Claim*> removed_by(removed.size());
    std::vector<const Claim*> added_by(added.size());
    for (const Match& match : pieces) {
      auto pick = pick_lines(match.claim->pick, removed, added);
      if (!pick) {
        Error error = std::move(pick).error();
        error.where = where(*match.claim) + ": " + match.claim->written;
        out_.errors.push_back(std::move(error));
        continue;
      }
      if (pick->is_empty()) {
        out_.errors.push_back({ErrorKind::kNotFound, where(*match.claim),
                               with_next("The piece " + match.claim->written + " chooses no line",
                                         "tessera-stack show " + id_of(atom))});
      }
      take_lines(atom, match, pick->removed, owner.removed, removed_by, '-');
      take_lines(atom, match, pick->added, owner.added, added_by, '+');
    }
    // Cut into one part only is not cut.
    const std::vector<std::int32_t> owners = owner.owners();
    if (owners.size() == 1) owner = {.whole = owners.front()};
    return owner;
  }

  void take_lines(const Atom& atom, const Match& match, const std::vector<bool>& chosen,
                  std::vector<std::int32_t>& owners, std::vector<const Claim*>& by, char sign) {
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      if (!chosen[i]) continue;
      if (by[i] != nullptr && owners[i] != match.bucket) {
        out_.errors.push_back(
            {ErrorKind::kConflict, where(*match.claim),
             with_next("Line " + std::string(1, sign) + std::to_string(i + 1) + " of " + shown(atom) +
                           " is also claimed by " + plan_.buckets[static_cast<std::size_t>(owners[i])].name +
                           " on line " + std::to_string(by[i]->line),
                       "tessera-stack show " + id_of(atom))});
        continue;
      }
      owners[i] = match.bucket;
      by[i] = match.claim;
    }
  }

  std::int32_t best_of(const Atom& atom, const std::vector<Match>& found) {
    if (found.empty()) return kUnassigned;
    const Match best = *std::ranges::max_element(found, {}, [](const Match& m) { return rank_of(*m.claim); });
    for (const Match& other : found) {
      if (other.bucket == best.bucket || rank_of(*other.claim) != rank_of(*best.claim)) continue;
      out_.errors.push_back({ErrorKind::kConflict, where(*other.claim),
                             with_next("Two buckets claim " + shown(atom) + " with equal right: " +
                                           plan_.buckets[static_cast<std::size_t>(best.bucket)].name +
                                           " on line " + std::to_string(best.claim->line) + " and " +
                                           plan_.buckets[static_cast<std::size_t>(other.bucket)].name +
                                           " on line " + std::to_string(other.claim->line) +
                                           "; make one more exact, or put the atom under the other's 'leave'",
                                       "tessera-stack show " + id_of(atom))});
      break;
    }
    return best.bucket;
  }

  const Plan& plan_;
  const Listing& listing_;
  const std::string& name_;
  const EqualAtoms equal_;
  ClaimResolution out_;
};

}  // namespace

std::vector<std::int32_t> AtomOwner::owners() const {
  if (!is_cut) return {whole};
  std::set<std::int32_t> all(removed.begin(), removed.end());
  all.insert(added.begin(), added.end());
  return {all.begin(), all.end()};
}

std::int64_t Ownership::unassigned() const {
  return std::ranges::count_if(atoms, [](const AtomOwner& a) { return a.owners().front() == kUnassigned; });
}

ClaimResolution resolve_claims(const Plan& plan, const Listing& listing, const std::string& plan_name) {
  return Resolver(plan, listing, plan_name).resolve();
}

}  // namespace tessera::stack
