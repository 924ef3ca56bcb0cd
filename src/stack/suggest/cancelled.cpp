#include "stack/suggest/cancelled.h"

#include <algorithm>
#include <map>
#include <set>

#include "stack/git/line_diff.h"
#include "stack/object/digest.h"
#include "stack/object/printable.h"
#include "stack/suggest/line_history.h"

namespace tessera::stack {
namespace {

bool is_text(std::string_view bytes) { return bytes.substr(0, 8000).find('\0') == std::string_view::npos; }

using Pairs = std::map<std::pair<std::int32_t, std::int32_t>, CancelledPair>;

// One path through all commits.
Result<void> follow(const Repository& repository, const Oid& base, const std::vector<Commit>& commits,
                    const std::string& path, Pairs& pairs) {
  std::optional<TreeEntry> before = repository.find_entry(base, path);
  const auto text_of = [&](const std::optional<TreeEntry>& entry) -> Result<std::string> {
    if (!entry || entry->mode == FileMode::kGitlink) return std::string();
    return repository.read(entry->oid);
  };
  const auto base_text = text_of(before);
  if (!base_text || !is_text(*base_text)) return {};
  LineHistory history(*base_text);
  std::string now = *base_text;
  for (std::size_t i = 0; i < commits.size(); ++i) {
    const std::optional<TreeEntry> after = repository.find_entry(commits[i].id, path);
    const bool same = before.has_value() == after.has_value() && (!before || before->oid == after->oid);
    before = after;
    if (same) continue;
    auto next = text_of(after);
    if (!next || !is_text(*next)) return {};
    const auto who = static_cast<std::int32_t>(i);
    for (const LineChange& change : diff_lines(now, *next)) {
      if (change.new_count > 0) continue;  // rewritten, not taken back
      for (std::int32_t line = change.old_begin; line < change.old_begin + change.old_count; ++line) {
        const std::int32_t author = history.author_of(static_cast<std::size_t>(line));
        if (author != kNobody && author != who) ++pairs[{author, who}].removed;
      }
    }
    history.step(now, *next, who);
    now = *std::move(next);
  }
  // Lines that base and end share, and that the history removed and wrote again.
  const auto count_kept = [&](std::int32_t old_begin, std::int32_t new_begin, std::int32_t lines) {
    for (std::int32_t i = 0; i < lines; ++i) {
      const std::int32_t remover = history.remover_of(static_cast<std::size_t>(old_begin + i));
      const std::int32_t author = history.author_of(static_cast<std::size_t>(new_begin + i));
      if (remover != kNobody && author != kNobody && remover != author) ++pairs[{remover, author}].restored;
    }
  };
  std::int32_t old_at = 0;
  std::int32_t new_at = 0;
  for (const LineChange& change : diff_lines(*base_text, now)) {
    count_kept(old_at, new_at, change.old_begin - old_at);
    old_at = change.old_begin + change.old_count;
    new_at = change.new_begin + change.new_count;
  }
  count_kept(old_at, new_at, static_cast<std::int32_t>(history.size()) - new_at);
  return {};
}

}  // namespace

Result<std::vector<CancelledPair>> find_cancelled(const Repository& repository, const Oid& base,
                                                  const std::vector<Commit>& commits,
                                                  const StageProgress& progress) {
  TS_TRY(Commit parent, repository.read_commit(base));
  std::set<std::string> once;
  std::set<std::string> again;  // only a path that two commits touch can hold a pair
  for (const Commit& commit : commits) {
    TS_TRY(const std::vector<std::string> paths, repository.changed_paths(parent.tree, commit.tree));
    for (const std::string& path : paths) {
      if (!once.insert(path).second) again.insert(path);
    }
    parent = commit;
  }
  Pairs pairs;
  Stage stage(progress, "what cancels out", again.size());
  for (const std::string& path : again) {
    stage.step();
    TS_TRY(follow(repository, base, commits, path, pairs));
  }
  std::vector<CancelledPair> found;
  for (auto& [who, pair] : pairs) {
    pair.first = static_cast<std::size_t>(who.first);
    pair.second = static_cast<std::size_t>(who.second);
    if (commits[pair.first].parents.size() > 1 || commits[pair.second].parents.size() > 1) continue;
    found.push_back(pair);
  }
  std::ranges::stable_sort(found, std::greater<>(),
                           [](const CancelledPair& p) { return p.removed + p.restored; });
  return found;
}

std::string sentence_of(const CancelledPair& pair, const std::vector<Commit>& commits) {
  const auto shown = [&](std::size_t at) { return to_hex(commits[at].id).substr(0, 12); };
  const auto lines = [](std::int64_t count) {
    return std::to_string(count) + (count == 1 ? " line" : " lines");
  };
  std::string what;
  if (pair.removed > 0) what += " removes " + lines(pair.removed) + " that " + shown(pair.first) + " added";
  if (pair.restored > 0) {
    what += (what.empty() ? " " : " and ") + ("restores " + lines(pair.restored)) + " that " +
            (pair.removed > 0 ? "it" : shown(pair.first)) + " removed";
  }
  const std::string& message = commits[pair.second].message;
  return "Commit " + shown(pair.second) + what + ": " + printable(message.substr(0, message.find('\n')));
}

}  // namespace tessera::stack
