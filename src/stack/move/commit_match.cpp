#include "stack/move/commit_match.h"

#include <algorithm>
#include <map>
#include <set>

#include "stack/object/digest.h"

namespace tessera::stack {
namespace {

constexpr std::size_t kWords = 3;  // of a subject that says something; "Fix typo" is no evidence

std::string subject_of(std::string_view message) {
  return std::string(message.substr(0, message.find('\n')));
}

// The last "(#123)" of a subject, as GitHub's merges write it; 0: none.
std::int64_t number_of(std::string_view subject) {
  const std::size_t at = subject.rfind("(#");
  if (at == std::string_view::npos) return 0;
  std::int64_t number = 0;
  std::size_t end = at + 2;
  for (; end < subject.size() && end < at + 12 && subject[end] >= '0' && subject[end] <= '9'; ++end)
    number = number * 10 + (subject[end] - '0');
  return end < subject.size() && subject[end] == ')' ? number : 0;
}

// Without the number and outer blanks; empty when it has too few words to mean one change.
std::string telling_subject(std::string subject) {
  if (number_of(subject) > 0) subject.resize(subject.rfind("(#"));
  while (subject.ends_with(' ')) subject.pop_back();
  const auto blanks = static_cast<std::size_t>(std::ranges::count(subject, ' '));
  return blanks + 1 >= kWords ? subject : std::string();
}

// The values of "Key: value" lines.
std::vector<std::string> trailers(std::string_view message, std::string_view key) {
  std::vector<std::string> found;
  for (std::size_t at = 0; at < message.size();) {
    const std::size_t end = std::min(message.find('\n', at), message.size());
    const std::string_view line = message.substr(at, end - at);
    if (line.starts_with(key)) found.emplace_back(line.substr(key.size()));
    at = end + 1;
  }
  return found;
}

std::vector<std::string> picked_from(std::string_view message) {
  std::vector<std::string> ids = trailers(message, "(cherry picked from commit ");
  for (std::string& id : ids) id = id.substr(0, id.find(')'));
  std::erase_if(ids, [](const std::string& id) { return id.size() < 7; });
  return ids;
}

// What a message says about which change it is.
struct Keys {
  std::int64_t number;
  std::string subject;
  std::vector<std::string> change_ids;
  std::vector<std::string> picks;

  explicit Keys(const std::string& message)
      : number(number_of(subject_of(message))),
        subject(telling_subject(subject_of(message))),
        change_ids(trailers(message, "Change-Id: ")),
        picks(picked_from(message)) {}
};

bool share(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  return std::ranges::any_of(a, [&](const std::string& one) { return std::ranges::find(b, one) != b.end(); });
}
bool names(const std::vector<std::string>& prefixes, const Oid& commit) {
  if (commit == Oid{}) return false;
  const std::string id = to_hex(commit);
  return std::ranges::any_of(prefixes, [&](const std::string& prefix) { return id.starts_with(prefix); });
}

}  // namespace

std::string_view name_of(CommitEvidence evidence) {
  switch (evidence) {
    case CommitEvidence::kPatchId:
      return "patch-id";
    case CommitEvidence::kCherryPick:
      return "cherry-pick";
    case CommitEvidence::kChangeId:
      return "change-id";
    case CommitEvidence::kNumber:
      return "number";
    case CommitEvidence::kSubject:
      return "subject";
  }
  return "unknown";
}

Result<std::vector<CommitMatch>> match_commits(const Repository& repository,
                                               const std::vector<ForkChange>& changes, const Oid& base,
                                               const Oid& at, const StageProgress& progress) {
  std::vector<Keys> keys;
  // A patch-id is costly, a list of paths is not: only commits that touch the same paths are hashed.
  std::map<std::vector<std::string>, std::vector<std::size_t>> by_paths;
  std::vector<std::optional<Oid>> patch_ids;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    keys.emplace_back(changes[i].message);
    patch_ids.push_back(repository.patch_id(changes[i].before, changes[i].after));
    if (!patch_ids.back()) continue;
    TS_TRY(std::vector<std::string> paths, repository.changed_paths(changes[i].before, changes[i].after));
    by_paths[std::move(paths)].push_back(i);
  }
  std::set<std::pair<std::size_t, CommitEvidence>> seen;
  std::vector<CommitMatch> found;
  const auto add = [&](std::size_t change, CommitEvidence evidence, const Oid& upstream) {
    if (seen.emplace(change, evidence).second) found.push_back({change, evidence, upstream});
  };
  TS_TRY(const std::vector<Oid> history, repository.walk(at, {base}));
  Stage stage(progress, "comparing commits", history.size());
  for (const Oid& id : history) {
    stage.step();
    TS_TRY(const Commit commit, repository.read_commit(id));
    if (commit.parents.size() != 1) continue;
    const Keys theirs(commit.message);
    for (std::size_t i = 0; i < changes.size(); ++i) {
      const Keys& ours = keys[i];
      if (names(theirs.picks, changes[i].commit) || names(ours.picks, commit.id) ||
          share(ours.picks, theirs.picks))
        add(i, CommitEvidence::kCherryPick, commit.id);
      if (share(ours.change_ids, theirs.change_ids)) add(i, CommitEvidence::kChangeId, commit.id);
      if (ours.number > 0 && ours.number == theirs.number) add(i, CommitEvidence::kNumber, commit.id);
      if (!ours.subject.empty() && ours.subject == theirs.subject)
        add(i, CommitEvidence::kSubject, commit.id);
    }
    TS_TRY(const Commit parent, repository.read_commit(commit.parents[0]));
    TS_TRY(const std::vector<std::string> paths, repository.changed_paths(parent.tree, commit.tree));
    const auto same_paths = by_paths.find(paths);
    if (same_paths == by_paths.end()) continue;
    const std::optional<Oid> patch_id = repository.patch_id(parent.tree, commit.tree);
    for (const std::size_t i : same_paths->second) {
      if (patch_id && patch_id == patch_ids[i]) add(i, CommitEvidence::kPatchId, commit.id);
    }
  }
  std::ranges::sort(found, {}, [](const CommitMatch& m) { return std::pair(m.change, m.evidence); });
  return found;
}

Result<std::vector<ForkChange>> changes_of_commits(const Repository& repository, const Oid& from,
                                                   const Oid& to) {
  TS_TRY(std::vector<Oid> ids, repository.walk(to, {from}));
  std::ranges::reverse(ids);
  std::vector<ForkChange> changes;
  for (const Oid& id : ids) {
    TS_TRY(const Commit commit, repository.read_commit(id));
    if (commit.parents.size() != 1) continue;
    TS_TRY(const Commit parent, repository.read_commit(commit.parents[0]));
    changes.push_back({.name = "commit " + to_hex(id).substr(0, 12),
                       .message = commit.message,
                       .before = parent.tree,
                       .after = commit.tree,
                       .commit = id});
  }
  if (changes.size() > 1) {
    TS_TRY(const Commit first, repository.read_commit(from));
    TS_TRY(const Commit last, repository.read_commit(to));
    changes.push_back(
        {.name = "all of them as one", .message = {}, .before = first.tree, .after = last.tree});
  }
  return changes;
}

}  // namespace tessera::stack
