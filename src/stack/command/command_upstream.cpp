// upstream: what of the difference another commit has already, by atoms and by commits.
#include <map>
#include <nlohmann/json.hpp>

#include "stack/command/atom_view.h"
#include "stack/command/verbs.h"
#include "stack/compose/composer.h"
#include "stack/move/commit_match.h"
#include "stack/move/upstream.h"
#include "stack/object/digest.h"
#include "stack/object/next_command.h"
#include "stack/object/printable.h"
#include "stack/suggest/cancelled.h"
#include "stack/suggest/suggestion.h"

namespace tessera::stack {
namespace {

std::string subject_at(const Repository& repository, const Oid& id) {
  const auto commit = repository.read_commit(id);
  return to_hex(id).substr(0, 12) +
         (commit ? " " + commit->message.substr(0, commit->message.find('\n')) : std::string());
}

// Each bucket as the one commit that its topic would be on the base, were it merged as a whole.
Result<std::vector<ForkChange>> changes_of_buckets(Workspace& workspace) {
  std::vector<ForkChange> changes;
  if (!workspace.claims.errors.empty()) return changes;
  const Graph graph = graph_of(workspace);
  const Ground ground = ground_on_base(workspace.listing);
  const Composer composer(workspace.listing, workspace.claims.ownership, workspace.regions, graph.rank,
                          ground);
  TreeComposer trees(composer, ground, workspace.repository);
  const Plan& plan = workspace.plan();
  for (std::size_t i = 0; i < plan.buckets.size(); ++i) {
    const Bucket& bucket = plan.buckets[i];
    BucketSet only{std::vector<bool>(plan.buckets.size()), false};
    only.add(static_cast<std::int32_t>(i));
    TS_TRY(const TreeComposer::Composed composed, trees.compose(workspace.base.tree, only));
    std::string subject = bucket.title.empty() ? bucket.name : bucket.title;
    // A pull request's address says its number as well as a subject does.
    if (const std::size_t at = bucket.link.rfind("/pull/"); at != std::string::npos)
      subject += " (#" + bucket.link.substr(at + 6) + ")";
    changes.push_back({.name = "bucket " + bucket.name,
                       .message = subject + "\n\n" + bucket.why + "\n",
                       .before = workspace.base.tree,
                       .after = composed.tree});
  }
  return changes;
}

struct CommitAnswer {
  std::vector<std::vector<std::string>> rows;
  std::string summary;  // empty when nothing was compared
  std::vector<std::string> cancelled;
  nlohmann::ordered_json json = nlohmann::ordered_json::array();

  void say(const Session& session) const {
    if (!session.json && !session.quiet && !rows.empty()) session.out << table(rows);
    if (!summary.empty()) session.say(summary);
    for (const std::string& sentence : cancelled) session.say("cancelled: " + sentence);
  }
};

Result<CommitAnswer> look_at_commits(Workspace& workspace, const std::string& range, const Commit& target) {
  CommitAnswer answer;
  const Repository& repository = workspace.repository;
  TS_TRY(std::vector<ForkChange> changes, changes_of_buckets(workspace));
  if (!range.empty()) {
    TS_TRY(const CommitRange ends, parse_range(repository, range));
    TS_TRY(std::vector<ForkChange> own, changes_of_commits(repository, ends.from, ends.to));
    std::ranges::move(own, std::back_inserter(changes));
    TS_TRY(const std::vector<Commit> line_of_commits, first_parents(repository, ends.from, ends.to));
    TS_TRY(const std::vector<CancelledPair> pairs,
           find_cancelled(repository, ends.from, line_of_commits, workspace.progress));
    for (const CancelledPair& pair : pairs) answer.cancelled.push_back(sentence_of(pair, line_of_commits));
  }
  if (changes.empty()) return answer;
  const auto matches = match_commits(repository, changes, workspace.base.id, target.id, workspace.progress);
  if (!matches) return answer;  // a shallow history: nothing can be compared, and levels by atom stand
  std::map<CommitEvidence, std::size_t> counts;
  std::size_t matched = 0;
  for (std::size_t i = 0; i < changes.size(); ++i) {
    std::vector<CommitMatch> own;
    std::ranges::copy_if(*matches, std::back_inserter(own),
                         [&](const CommitMatch& m) { return m.change == i; });
    if (own.empty()) continue;
    const bool is_equal = own.front().evidence == CommitEvidence::kPatchId;
    nlohmann::ordered_json evidence = nlohmann::ordered_json::object();
    std::string names;
    for (const CommitMatch& match : own) {
      if (changes[i].commit != Oid{}) ++counts[match.evidence];
      names += (names.empty() ? "" : ", ") + std::string(name_of(match.evidence));
      evidence[std::string(name_of(match.evidence))] = to_hex(match.upstream);
    }
    matched += changes[i].commit != Oid{};
    answer.rows.push_back({is_equal ? "equal" : "changed before it was merged", changes[i].name, names,
                           subject_at(repository, own.front().upstream)});
    answer.json.push_back({{"name", changes[i].name}, {"equal", is_equal}, {"evidence", evidence}});
  }
  if (!range.empty()) {
    const auto commits =
        std::ranges::count_if(changes, [](const ForkChange& c) { return c.commit != Oid{}; });
    answer.summary = std::to_string(matched) + " of " + std::to_string(commits) + " commits are there";
    std::string by;
    for (const auto& [evidence, count] : counts)
      by += (by.empty() ? " (" : ", ") + std::to_string(count) + " " + std::string(name_of(evidence));
    answer.summary += by + (by.empty() ? "" : ")");
  }
  return answer;
}

}  // namespace

Result<Exit> run_upstream(const UpstreamOptions& options, const Session& session) {
  TS_TRY(const std::string path, session.plan_path());
  TS_TRY(Workspace workspace, open_workspace(path, session.progress()));
  TS_TRY(const Oid id, workspace.repository.resolve_commit(options.at));
  TS_TRY(const Commit target, workspace.repository.read_commit(id));
  TS_TRY(const std::vector<UpstreamFinding> findings, find_upstream(workspace, target));
  TS_TRY(const CommitAnswer commits, look_at_commits(workspace, options.from_commits, target));
  std::map<UpstreamLevel, std::int64_t> counts;
  std::vector<std::vector<std::string>> rows;
  nlohmann::ordered_json found = nlohmann::ordered_json::array();
  for (const UpstreamFinding& finding : findings) {
    ++counts[finding.level];
    const Atom& atom = workspace.listing.atoms[static_cast<std::size_t>(finding.atom)];
    std::string commit = "-";
    if (finding.commit) {
      commit = to_hex(*finding.commit).substr(0, 12);
      if (const auto read = workspace.repository.read_commit(*finding.commit))
        commit += " " + read->message.substr(0, read->message.find('\n'));
    }
    rows.push_back({std::string(name_of(finding.level)), "h:" + workspace.listing.short_id(atom),
                    place_of(workspace.listing, atom),
                    bucket_names(workspace.plan(),
                                 workspace.claims.ownership.atoms[static_cast<std::size_t>(finding.atom)]),
                    commit});
    nlohmann::ordered_json entry = atom_json(workspace, finding.atom);
    entry["level"] = name_of(finding.level);
    entry["commit"] =
        finding.commit ? nlohmann::ordered_json(to_hex(*finding.commit)) : nlohmann::ordered_json(nullptr);
    found.push_back(entry);
  }
  if (!session.json && !session.quiet) session.out << table(rows);
  std::string summary;
  nlohmann::ordered_json levels = nlohmann::ordered_json::object();
  for (const auto& [level, count] : counts) {
    summary += (summary.empty() ? " (" : ", ") + std::to_string(count) + " " + std::string(name_of(level));
    levels[std::string(name_of(level))] = count;
  }
  session.say(std::to_string(findings.size()) + " of " + std::to_string(workspace.listing.atoms.size()) +
              " atoms are at " + to_hex(id).substr(0, 12) + summary + (summary.empty() ? "" : ")"));
  commits.say(session);
  if (findings.size() * 2 > workspace.listing.atoms.size()) {
    session.warn(with_next("Most of the difference is upstream at " + options.at +
                               ": the plan's base is probably older than the tree's",
                           "tessera-stack doctor"));
  }
  session.answer("upstream", {{"at", to_hex(id)},
                              {"total", workspace.listing.atoms.size()},
                              {"levels", levels},
                              {"atoms", found},
                              {"commits", commits.json},
                              {"cancelled", commits.cancelled}});
  return Exit::kTrue;
}

}  // namespace tessera::stack
