#include "stack/move/absorb.h"

#include <algorithm>
#include <map>
#include <set>

#include "stack/atom/line_pick.h"
#include "stack/plan/pin.h"
#include "stack/suggest/claims_of_atoms.h"

namespace tessera::stack {
namespace {

constexpr std::int32_t kBase = -2;       // a line that is the base's
constexpr std::int32_t kUndecided = -3;  // a drifted line that several topics could own, or none

std::int32_t owner_at(const AtomOwner& owner, const std::vector<std::int32_t>& lines, std::size_t i) {
  return owner.is_cut ? lines[i] : owner.whole;
}

// One file, line by line: who owned what in the old tree.
struct OldFile {
  std::vector<std::string_view> lines;  // of the old tree
  std::vector<std::int32_t> owner;      // [lines] a bucket, kUnassigned or kBase
  std::vector<std::int32_t> remover;    // [lines of the base] who removed it; kBase: still there
  std::map<std::int32_t, std::set<std::int32_t>>
      gone_at;  // line of the old tree → owners of what was removed just before it
};

OldFile describe(const Workspace& old, const FileChange* file, const Text& base_text) {
  OldFile out;
  if (file == nullptr || !file->is_text) {
    out.lines = base_text.lines;
    out.owner.assign(out.lines.size(), kBase);
    out.remover.assign(base_text.lines.size(), kBase);
    return out;
  }
  out.lines = file->new_text.lines;
  out.owner.assign(out.lines.size(), kBase);
  out.remover.assign(file->old_text.lines.size(), kBase);
  for (std::int32_t at = file->first_atom; at < file->first_atom + file->atom_count; ++at) {
    const Atom& atom = old.listing.atoms[static_cast<std::size_t>(at)];
    if (atom.kind != AtomKind::kText) continue;
    const AtomOwner& owner = old.claims.ownership.atoms[static_cast<std::size_t>(at)];
    for (std::int32_t i = 0; i < atom.at.new_count; ++i) {
      out.owner[static_cast<std::size_t>(atom.at.new_begin + i)] =
          owner_at(owner, owner.added, static_cast<std::size_t>(i));
    }
    for (std::int32_t i = 0; i < atom.at.old_count; ++i) {
      const std::int32_t who = owner_at(owner, owner.removed, static_cast<std::size_t>(i));
      out.remover[static_cast<std::size_t>(atom.at.old_begin + i)] = who;
      if (atom.at.new_count == 0) out.gone_at[atom.at.new_begin].insert(who);
    }
  }
  return out;
}

class Absorber {
 public:
  Absorber(const Workspace& old, const Workspace& fresh) : old_(old), fresh_(fresh), equal_(fresh.listing) {}

  Result<Absorption> run() {
    for (const FileChange& file : fresh_.listing.files) absorb_file(file);
    find_stale();
    find_ahead();
    return std::move(out_);
  }

 private:
  // The buckets that own atoms of a file or, failing that, of its folder.
  std::set<std::int32_t> near(const std::string& path) const {
    std::set<std::int32_t> in_file;
    std::set<std::int32_t> in_folder;
    const std::string folder = path.substr(0, path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1);
    for (std::size_t i = 0; i < old_.listing.atoms.size(); ++i) {
      const std::string& other = old_.listing.file_of(old_.listing.atoms[i]).path;
      const bool same_folder =
          !folder.empty() && other.starts_with(folder) && other.find('/', folder.size()) == std::string::npos;
      if (other != path && !same_folder) continue;
      for (const std::int32_t who : old_.claims.ownership.atoms[i].owners()) {
        if (who != kUnassigned) (other == path ? in_file : in_folder).insert(who);
      }
    }
    return in_file.empty() ? in_folder : in_file;
  }

  void absorb_file(const FileChange& file) {
    const FileChange* before = old_.listing.find_file(file.path);
    std::vector<std::int32_t> added_owner;    // [lines of the new tree]
    std::vector<std::int32_t> removed_owner;  // [lines of the base]
    std::map<std::int32_t, std::set<std::int32_t>>
        candidates_;  // per drifted line of the new tree, who could own it
    std::vector<std::set<std::int32_t>> removed_candidates;
    if (file.is_text) {
      const OldFile was = describe(old_, before, file.old_text);
      std::string old_bytes;
      for (const std::string_view line : was.lines) old_bytes += line;
      added_owner.assign(file.new_text.lines.size(), kBase);
      removed_owner = was.remover;
      removed_candidates.resize(was.remover.size());
      // Where each line of the old tree came from in the base, to carry drift that removes base lines.
      std::vector<std::int32_t> base_line(was.lines.size(), -1);
      std::size_t next = 0;
      for (std::size_t i = 0; i < was.lines.size(); ++i) {
        if (was.owner[i] != kBase) continue;
        while (next < was.remover.size() && was.remover[next] != kBase) ++next;
        if (next < was.remover.size()) base_line[i] = static_cast<std::int32_t>(next++);
      }
      std::size_t at = 0;
      std::size_t now = 0;
      for (const LineChange& change : diff_lines(old_bytes, *file.new_text.bytes)) {
        for (; at < static_cast<std::size_t>(change.old_begin); ++at, ++now) added_owner[now] = was.owner[at];
        std::set<std::int32_t> owners = owners_of(was, change);
        if (owners.empty()) owners = near(file.path);
        const bool is_weak = owners_of(was, change).empty();
        const std::int32_t who = owners.size() == 1 ? *owners.begin() : kUndecided;
        for (std::int32_t i = 0; i < change.old_count; ++i, ++at) {
          if (base_line[at] >= 0) {
            removed_owner[static_cast<std::size_t>(base_line[at])] = who;
            removed_candidates[static_cast<std::size_t>(base_line[at])] = owners;
          }
        }
        for (std::int32_t i = 0; i < change.new_count; ++i, ++now) {
          added_owner[now] = who;
          candidates_[static_cast<std::int32_t>(now)] = owners;
          if (is_weak) weak_.insert({file.path, static_cast<std::int32_t>(now)});
        }
      }
      for (; at < was.lines.size() && now < added_owner.size(); ++at, ++now) added_owner[now] = was.owner[at];
    }
    for (std::int32_t at = file.first_atom; at < file.first_atom + file.atom_count; ++at) {
      const Atom& atom = fresh_.listing.atoms[static_cast<std::size_t>(at)];
      const AtomOwner& owner = fresh_.claims.ownership.atoms[static_cast<std::size_t>(at)];
      if (atom.kind != AtomKind::kText) {
        absorb_fact(file, before, at, owner);
        continue;
      }
      absorb_text(file, at, atom, owner, added_owner, removed_owner, candidates_, removed_candidates);
    }
  }

  // Topics that own the removed lines or, when those are the base's, the two neighbours.
  static std::set<std::int32_t> owners_of(const OldFile& was, const LineChange& change) {
    std::set<std::int32_t> owners;
    for (std::int32_t i = change.old_begin; i < change.old_begin + change.old_count; ++i) {
      if (was.owner[static_cast<std::size_t>(i)] >= 0) owners.insert(was.owner[static_cast<std::size_t>(i)]);
    }
    if (!owners.empty()) return owners;
    const std::int32_t behind = change.old_begin + change.old_count;
    if (change.old_begin > 0 && was.owner[static_cast<std::size_t>(change.old_begin - 1)] >= 0)
      owners.insert(was.owner[static_cast<std::size_t>(change.old_begin - 1)]);
    if (behind < static_cast<std::int32_t>(was.owner.size()) &&
        was.owner[static_cast<std::size_t>(behind)] >= 0)
      owners.insert(was.owner[static_cast<std::size_t>(behind)]);
    for (const std::int32_t place : {change.old_begin, behind}) {
      const auto gone = was.gone_at.find(place);
      if (gone == was.gone_at.end()) continue;
      for (const std::int32_t who : gone->second) {
        if (who >= 0) owners.insert(who);
      }
    }
    return owners;
  }

  void absorb_fact(const FileChange& file, const FileChange* before, std::int32_t at,
                   const AtomOwner& owner) {
    if (owner.whole != kUnassigned) {
      ++out_.unchanged;
      return;
    }
    AbsorbProposal proposal{.atom = at};
    std::set<std::int32_t> owners;
    if (before != nullptr) {
      for (std::int32_t other = before->first_atom; other < before->first_atom + before->atom_count;
           ++other) {
        if (old_.listing.atoms[static_cast<std::size_t>(other)].kind !=
            fresh_.listing.atoms[static_cast<std::size_t>(at)].kind)
          continue;
        const std::int32_t who = old_.claims.ownership.atoms[static_cast<std::size_t>(other)].whole;
        if (who != kUnassigned) owners.insert(who);
      }
    }
    proposal.confidence = Confidence::kOwner;
    if (owners.empty()) {
      owners = near(file.path);
      proposal.confidence = Confidence::kWeak;
    }
    finish(std::move(proposal), owners, id_claim(fresh_.listing, at));
  }

  void finish(AbsorbProposal proposal, const std::set<std::int32_t>& owners, const std::string& claim) {
    proposal.candidates.assign(owners.begin(), owners.end());
    if (owners.size() == 1)
      proposal.claims.emplace_back(*owners.begin(), claim);
    else
      proposal.confidence = owners.empty() ? Confidence::kNone : Confidence::kAmbiguous;
    out_.proposals.push_back(std::move(proposal));
  }

  void absorb_text(const FileChange& file, std::int32_t at, const Atom& atom, const AtomOwner& owner,
                   const std::vector<std::int32_t>& added_owner,
                   const std::vector<std::int32_t>& removed_owner,
                   const std::map<std::int32_t, std::set<std::int32_t>>& candidates,
                   const std::vector<std::set<std::int32_t>>& removed_candidates) {
    const auto removed = static_cast<std::size_t>(atom.at.old_count);
    const auto added = static_cast<std::size_t>(atom.at.new_count);
    std::vector<std::int32_t> removed_by;
    std::vector<std::int32_t> added_by;
    AbsorbProposal proposal{.atom = at};
    std::set<std::int32_t> could;
    bool is_weak = false;
    for (std::size_t i = 0; i < removed; ++i) {
      const std::size_t line = static_cast<std::size_t>(atom.at.old_begin) + i;
      removed_by.push_back(removed_owner[line]);
      could.insert(removed_candidates[line].begin(), removed_candidates[line].end());
    }
    for (std::size_t i = 0; i < added; ++i) {
      const std::int32_t line = atom.at.new_begin + static_cast<std::int32_t>(i);
      added_by.push_back(added_owner[static_cast<std::size_t>(line)]);
      if (const auto found = candidates.find(line); found != candidates.end())
        could.insert(found->second.begin(), found->second.end());
      is_weak |= weak_.contains({file.path, line});
    }
    // A line of the base that this difference draws as changed follows its neighbours.
    for (auto* lines : {&removed_by, &added_by}) {
      std::int32_t neighbour = kBase;
      for (std::int32_t& who : *lines) {
        if (who == kBase) who = neighbour;
        neighbour = who;
      }
      for (auto who = lines->rbegin(); who != lines->rend(); ++who) {
        if (*who == kBase) *who = neighbour;
        neighbour = *who;
      }
    }
    std::set<std::int32_t> owners(removed_by.begin(), removed_by.end());
    owners.insert(added_by.begin(), added_by.end());
    owners.erase(kBase);
    // Is it as the plan has it?
    const bool fits = owner.is_cut ? owner.removed == removed_by && owner.added == added_by
                                   : owners.size() == 1 && *owners.begin() == owner.whole;
    if (fits) {
      ++out_.unchanged;
      return;
    }
    for (const std::int32_t who : owners) {
      if (who >= 0) could.insert(who);
    }
    if (owners.size() == 1 && *owners.begin() >= 0) {
      proposal.confidence = is_weak ? Confidence::kWeak : Confidence::kOwner;
      proposal.candidates.assign(could.begin(), could.end());
      proposal.claims.emplace_back(*owners.begin(), id_claim(fresh_.listing, at));
      out_.proposals.push_back(std::move(proposal));
      return;
    }
    proposal.candidates.assign(could.begin(), could.end());
    const bool any_owner = std::ranges::any_of(owners, [](std::int32_t who) { return who >= 0; });
    proposal.confidence = any_owner       ? Confidence::kPieces
                          : could.empty() ? Confidence::kNone
                                          : Confidence::kAmbiguous;
    for (const std::int32_t who : owners) {
      if (who < 0) continue;
      LinePick pick{std::vector<bool>(removed), std::vector<bool>(added)};
      for (std::size_t i = 0; i < removed; ++i) pick.removed[i] = removed_by[i] == who;
      for (std::size_t i = 0; i < added; ++i) pick.added[i] = added_by[i] == who;
      proposal.claims.emplace_back(who, id_claim(fresh_.listing, at) + "[" + pick_text(pick) + "]");
    }
    if (any_owner && owners.contains(kUndecided)) proposal.confidence = Confidence::kAmbiguous;
    out_.proposals.push_back(std::move(proposal));
  }

  // Ids that the new listing does not have. Looser claims that match nothing are the user's to judge.
  void find_stale() {
    for (std::size_t b = 0; b < fresh_.plan().buckets.size(); ++b) {
      const Bucket& bucket = fresh_.plan().buckets[b];
      for (const auto* claims : {&bucket.take, &bucket.leave, &bucket.pins}) {
        for (const Claim& claim : *claims) {
          const bool by_id = claim.kind == ClaimKind::kAtom || claim.kind == ClaimKind::kPiece;
          if (by_id && !is_there(claim)) out_.stale.emplace_back(static_cast<std::int32_t>(b), claim.written);
        }
      }
    }
  }

  bool is_there(const Claim& claim) const {
    if (claim.evidence) return !find_pinned(fresh_.listing, equal_, claim).candidates.empty();
    return !fresh_.listing.find(claim.id).empty();
  }

  void find_ahead() {
    const std::string composed = state_ref(old_.plan(), "composed/");
    for (const Ref& ref : old_.repository.list_refs(composed)) {
      const std::string branch = "refs/" + ref.name.substr(composed.size());
      const std::optional<Oid> now = old_.repository.read_ref(branch);
      if (now && *now != ref.id) out_.ahead.push_back({branch, ref.id, *now});
    }
  }

  const Workspace& old_;
  const Workspace& fresh_;
  const EqualAtoms equal_;
  std::set<std::pair<std::string, std::int32_t>>
      weak_;  // drifted lines whose owner was found by file or folder only
  Absorption out_;
};

}  // namespace

std::string_view name_of(Confidence confidence) {
  switch (confidence) {
    case Confidence::kOwner:
      return "owner";
    case Confidence::kPieces:
      return "pieces";
    case Confidence::kWeak:
      return "weak";
    case Confidence::kAmbiguous:
      return "ambiguous";
    case Confidence::kNone:
      return "none";
  }
  return "unknown";
}

Result<Absorption> absorb(const Workspace& old, const Workspace& fresh) { return Absorber(old, fresh).run(); }

}  // namespace tessera::stack
