// Proposals from a fork's own commits: exact for lines, since every version is followed, deletions included.
#include <algorithm>
#include <map>
#include <set>

#include "stack/atom/line_pick.h"
#include "stack/object/digest.h"
#include "stack/object/printable.h"
#include "stack/suggest/cancelled.h"
#include "stack/suggest/claims_of_atoms.h"
#include "stack/suggest/line_history.h"
#include "stack/suggest/suggestion.h"

namespace tessera::stack {
namespace {

std::string subject_of(const Commit& commit) { return commit.message.substr(0, commit.message.find('\n')); }

// The first paragraph below the subject, without trailers.
std::string reason_of(const Commit& commit) {
  const std::size_t end = commit.message.find("\n\n");
  if (end == std::string::npos) return {};
  std::string body = commit.message.substr(end + 2);
  body = body.substr(0, body.find("\n\n"));
  while (!body.empty() && (body.back() == '\n' || body.back() == ' ')) body.pop_back();
  const bool is_trailer = body.find("-by: ") != std::string::npos;
  return is_trailer ? std::string() : printable(body) == body ? body : std::string();
}

class CommitWalker {
 public:
  CommitWalker(const Workspace& workspace, std::vector<Commit> commits)
      : workspace_(workspace), listing_(workspace.listing), commits_(std::move(commits)) {}

  Result<Suggestion> suggest() {
    fold_fixups();
    Stage stage(workspace_.progress, "who wrote what", listing_.files.size());
    for (const FileChange& file : listing_.files) {
      stage.step();
      TS_TRY(walk_file(file));
    }
    name_buckets();
    return std::move(out_);
  }

 private:
  void fold_fixups() {
    for (std::size_t i = 0; i < commits_.size(); ++i) {
      std::string subject = subject_of(commits_[i]);
      std::size_t whose = i;
      while (subject.starts_with("fixup! ") || subject.starts_with("squash! ")) {
        subject = subject.substr(subject.find(' ') + 1);
        for (std::size_t j = 0; j < i; ++j) {
          if (subject_of(commits_[j]) == subject) whose = static_cast<std::size_t>(folded_[j]);
        }
      }
      folded_.push_back(static_cast<std::int32_t>(whose));
    }
  }

  Result<std::string> text_of(const std::optional<TreeEntry>& entry) const {
    if (!entry) return std::string();
    return workspace_.repository.read(entry->oid);
  }

  Result<void> walk_file(const FileChange& file) {
    LineHistory history(file.is_text ? std::string_view(*file.old_text.bytes) : std::string_view());
    std::string now = file.is_text ? *file.old_text.bytes : std::string();
    std::optional<TreeEntry> before = workspace_.repository.find_entry(workspace_.base.id, file.path);
    std::int32_t last = kNobody;   // that changed the path at all
    std::int32_t moded = kNobody;  // that changed its mode
    std::int32_t maker = kNobody;  // that made it, or removed it, last
    for (std::size_t i = 0; i < commits_.size(); ++i) {
      const std::optional<TreeEntry> after = workspace_.repository.find_entry(commits_[i].id, file.path);
      const std::int32_t who = folded_[i];
      if (before.has_value() != after.has_value()) maker = last = who;
      if (before && after && before->mode != after->mode) moded = last = who;
      const bool changed = before.has_value() != after.has_value() || (before && before->oid != after->oid);
      if (changed) {
        last = who;
        if (file.is_text) {
          TS_TRY(const std::string next, text_of(after));
          history.step(now, next, who);
          now = next;
        }
      }
      before = after;
    }
    // What the tree has beyond the last commit belongs to nobody, and stays unassigned.
    const std::int32_t nobody = static_cast<std::int32_t>(commits_.size());
    if (file.is_text && now != *file.new_text.bytes) {
      history.step(now, *file.new_text.bytes, nobody);
      out_.notes.push_back("The tree has changes of " + printable(file.path) +
                           " that no commit has; they stay unassigned.");
    }
    for (std::int32_t at = file.first_atom; at < file.first_atom + file.atom_count; ++at) {
      const Atom& atom = listing_.atoms[static_cast<std::size_t>(at)];
      switch (atom.kind) {
        case AtomKind::kCreate:
        case AtomKind::kDelete:
          give(at, maker);
          break;
        case AtomKind::kMode:
          give(at, moded);
          break;
        case AtomKind::kType:
        case AtomKind::kBinary:
          give(at, last);
          break;
        case AtomKind::kText:
          give_lines(at, atom, history, nobody);
          break;
      }
    }
    return {};
  }

  void give(std::int32_t at, std::int32_t who) {
    if (who != kNobody && who < static_cast<std::int32_t>(commits_.size())) wholes_[who].push_back(at);
  }

  void give_lines(std::int32_t at, const Atom& atom, const LineHistory& history, std::int32_t nobody) {
    const auto removed = static_cast<std::size_t>(atom.at.old_count);
    const auto added = static_cast<std::size_t>(atom.at.new_count);
    std::vector<std::int32_t> removed_by;
    std::vector<std::int32_t> added_by;
    for (std::size_t i = 0; i < removed; ++i)
      removed_by.push_back(history.remover_of(static_cast<std::size_t>(atom.at.old_begin) + i));
    for (std::size_t i = 0; i < added; ++i)
      added_by.push_back(history.author_of(static_cast<std::size_t>(atom.at.new_begin) + i));
    std::set<std::int32_t> owners(removed_by.begin(), removed_by.end());
    owners.insert(added_by.begin(), added_by.end());
    owners.erase(kNobody);  // a line that this difference draws as changed and that history kept: it follows
                            // its neighbours
    if (owners.size() == 1) {
      give(at, *owners.begin());
      return;
    }
    if (owners.empty()) return;
    ++out_.mixed_atoms;
    for (auto* lines : {&removed_by, &added_by}) {
      std::int32_t neighbour = *owners.begin();
      for (std::int32_t& who : *lines) {
        if (who == kNobody) who = neighbour;
        neighbour = who;
      }
    }
    std::string names;
    for (const std::int32_t who : owners) {
      if (who == nobody) continue;
      LinePick pick{std::vector<bool>(removed), std::vector<bool>(added)};
      for (std::size_t i = 0; i < removed; ++i) pick.removed[i] = removed_by[i] == who;
      for (std::size_t i = 0; i < added; ++i) pick.added[i] = added_by[i] == who;
      pieces_[who].push_back({id_claim(listing_, at) + "[" + pick_text(pick) + "]",
                              "mixed: " + std::to_string(owners.size()) + " commits wrote this atom"});
    }
  }

  void name_buckets() {
    std::set<std::string> taken;
    for (const Bucket& bucket : workspace_.plan().buckets) taken.insert(bucket.name);
    for (std::size_t i = 0; i < commits_.size(); ++i) {
      const auto who = static_cast<std::int32_t>(i);
      if (folded_[i] != who) continue;
      const Commit& commit = commits_[i];
      if (!wholes_.contains(who) && !pieces_.contains(who)) {
        out_.notes.push_back("Commit " + to_hex(commit.id).substr(0, 12) +
                             " owns nothing of the difference: " + printable(subject_of(commit)));
        continue;
      }
      ProposedBucket bucket;
      const std::string base = slug_of(subject_of(commit));
      bucket.name = base;
      for (int n = 2; !taken.insert(bucket.name).second || is_reserved(bucket.name); ++n)
        bucket.name = base + "-" + std::to_string(n);
      bucket.title = subject_of(commit);
      bucket.why = reason_of(commit);
      bucket.author = commit.author.name + " <" + commit.author.email + ">";
      bucket.comment = "commit " + to_hex(commit.id).substr(0, 12);
      bool all_local = true;
      for (const std::int32_t at : wholes_[who])
        all_local &=
            !local_reason(listing_.file_of(listing_.atoms[static_cast<std::size_t>(at)]).path).empty();
      if (all_local && !pieces_.contains(who)) {
        bucket.kind = BucketKind::kLocal;
        bucket.comment += "; probably local by its paths";
      }
      for (const std::string& claim : claims_of_atoms(listing_, wholes_[who]))
        bucket.take.push_back({claim, ""});
      for (const ProposedClaim& piece : pieces_[who]) bucket.take.push_back(piece);
      out_.buckets.push_back(std::move(bucket));
    }
  }

  const Workspace& workspace_;
  const Listing& listing_;
  std::vector<Commit> commits_;       // oldest first
  std::vector<std::int32_t> folded_;  // [commits] into which commit each is folded
  std::map<std::int32_t, std::vector<std::int32_t>> wholes_;
  std::map<std::int32_t, std::vector<ProposedClaim>> pieces_;
  Suggestion out_;
};

}  // namespace

Result<CommitRange> parse_range(const Repository& repository, const std::string& text) {
  const std::size_t dots = text.find("..");
  if (dots == std::string::npos)
    return Error{ErrorKind::kInvalidArgument, text, "A range of commits reads A..B."};
  CommitRange range;
  TS_TRY(range.from, repository.resolve_commit(text.substr(0, dots)));
  TS_TRY(range.to, repository.resolve_commit(text.substr(dots + 2)));
  return range;
}

Result<std::vector<Commit>> first_parents(const Repository& repository, const Oid& from, const Oid& to) {
  TS_TRY(std::vector<Oid> ids, repository.walk(to, {from}, SIZE_MAX, true));
  std::ranges::reverse(ids);
  std::vector<Commit> commits;
  for (const Oid& id : ids) {
    TS_TRY(Commit commit, repository.read_commit(id));
    commits.push_back(std::move(commit));
  }
  return commits;
}

Result<Suggestion> suggest_from_commits(const Workspace& workspace, const Oid& from, const Oid& to) {
  TS_TRY(const std::vector<Commit> commits, first_parents(workspace.repository, from, to));
  TS_TRY(Suggestion out, CommitWalker(workspace, commits).suggest());
  TS_TRY(const std::vector<CancelledPair> pairs,
         find_cancelled(workspace.repository, from, commits, workspace.progress));
  for (const CancelledPair& pair : pairs) out.notes.push_back(sentence_of(pair, commits));
  return out;
}

}  // namespace tessera::stack
