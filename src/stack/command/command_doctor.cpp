// doctor: is the base the base, is everything there, does anything clash?
#include <map>
#include <nlohmann/json.hpp>

#include "stack/command/read_tree.h"
#include "stack/command/verbs.h"
#include "stack/compose/workspace.h"
#include "stack/move/base_search.h"
#include "stack/move/version_hint.h"
#include "stack/object/digest.h"
#include "stack/object/next_command.h"
#include "stack/object/printable.h"

namespace tessera::stack {
namespace {

std::string lower(std::string text) {
  for (char& c : text) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return text;
}

// Paths that one folder of a case-insensitive disk cannot hold together.
std::vector<std::string> case_clashes(const Tree& tree) {
  std::map<std::string, std::string> seen;
  std::vector<std::string> found;
  for (const TreeEntry& entry : tree.entries) {
    const auto [at, is_new] = seen.try_emplace(lower(entry.path), entry.path);
    if (!is_new) found.push_back(at->second + " and " + entry.path);
  }
  return found;
}

// The tree as a commit of this very repository, when its source names one that is there.
Result<std::optional<Oid>> own_commit(const Repository& repository, const std::string& source) {
  TS_TRY(const SourceSpec spec, parse_source(source));
  if (spec.kind != SourceKind::kGit || !spec.path.empty()) return std::optional<Oid>();
  const auto id = repository.resolve_commit(spec.ref.empty() ? "HEAD" : spec.ref);
  return id ? std::optional<Oid>(*id) : std::optional<Oid>();
}

// A second plan for the same tree, from another base.
Result<std::string> init_from(const PlanFile& file, const Oid& base) {
  TS_TRY(const SourceSpec tree, source_of_plan(file));
  return "tessera-stack --plan NEW.toml init --repo " + shell_quoted(file.beside(file.plan.repository)) +
         " --base " + to_hex(base).substr(0, 12) + " --tree " + shell_quoted(to_string(tree));
}

}  // namespace

Result<Exit> run_doctor(const DoctorOptions& options, const Session& session) {
  const bool with_plan = options.repository.empty() && options.tree.empty();
  std::vector<std::string> troubles;
  std::optional<Workspace> workspace;
  std::optional<Repository> own;
  std::optional<Oid> tree_id;
  std::optional<Oid> stated;
  Tree tree;
  if (with_plan) {
    TS_TRY(const std::string path, session.plan_path());
    TS_TRY(Workspace opened, open_workspace(path, session.progress()));
    workspace.emplace(std::move(opened));
    stated = workspace->base.id;
    tree = workspace->ruled.tree;
    std::vector<TreeChange> all;
    for (const TreeEntry& entry : tree.entries) all.push_back({entry.path, entry.mode, entry.oid});
    TS_TRY(tree_id, workspace->repository.write_tree(std::nullopt, std::move(all)));
    for (const Unreadable& gone : workspace->listing.unreadable)
      troubles.push_back(with_next(
          "unreadable: " + printable(gone.path) + ": " + gone.why + "; fetch it, or ignore the path",
          workspace->repository.refetch_command()));
    for (const RuleUse& use : workspace->ruled.uses) {
      if (use.paths == 0)
        troubles.push_back(workspace->where(use.line) + ": the rule '" + use.rule + "' matches no path.");
    }
    if (workspace->listing_is_stale)
      troubles.push_back(with_next("The plan's listing fingerprint is stale", "tessera-stack plan pin"));
  } else {
    if (options.repository.empty() || options.tree.empty())
      return Error{ErrorKind::kInvalidArgument, "doctor",
                   with_next("Without a plan both --repo and --tree are needed",
                             "tessera-stack doctor --repo REPO --tree SOURCE")};
    TS_TRY(Repository opened, Repository::open(options.repository));
    own.emplace(std::move(opened));
    TS_TRY(const SourceSpec spec, parse_source(options.tree));
    TS_TRY(const SourceTree read, read_tree_into(*own, spec, session));
    tree = read.tree;
    std::vector<TreeChange> all;
    for (const TreeEntry& entry : tree.entries) all.push_back({entry.path, entry.mode, entry.oid});
    TS_TRY(tree_id, own->write_tree(std::nullopt, std::move(all)));
    for (const PackageCopy& copy : read.copies)
      troubles.push_back("A second copy of the package stands in " + copy.path + ". " + copy.preference);
  }
  const Repository& repository = with_plan ? workspace->repository : *own;
  for (const std::string& clash : case_clashes(tree))
    troubles.push_back("On a disk that ignores case these are one file: " + printable(clash));
  for (const TreeEntry& entry : tree.entries) {
    if (entry.unreadable && !with_plan)
      troubles.push_back("unreadable: " + printable(entry.path) + ": " + *entry.unreadable);
  }
  BaseSearch search{.branches = options.branches, .every_commit = options.every_commit};
  const std::vector<VersionHint> hints =
      find_version_hints(with_plan ? workspace->raw_tree : tree, repository);
  for (const VersionHint& hint : hints) {
    session.say(printable(hint.where) + " says " + printable(hint.said));
    search.hints.insert(search.hints.end(), hint.names.begin(), hint.names.end());
  }
  if (with_plan) search.own_branches = "refs/heads/" + workspace->plan().prefix + "/";
  TS_TRY(search.own_commit, own_commit(repository, with_plan ? workspace->plan().source : options.tree));
  search.progress = session.progress();
  TS_TRY(const std::vector<BaseCandidate> bases, find_bases(repository, *tree_id, search));
  std::vector<std::vector<std::string>> rows = {{"files", "lines", "commit", "found by", "subject"}};
  nlohmann::ordered_json candidates = nlohmann::ordered_json::array();
  for (const BaseCandidate& base : bases) {
    const auto commit = repository.read_commit(base.commit);
    const std::string subject = commit ? commit->message.substr(0, commit->message.find('\n')) : "";
    rows.push_back({std::to_string(base.files), std::to_string(base.lines),
                    to_hex(base.commit).substr(0, 12) + (stated == base.commit ? " (the plan's)" : ""),
                    base.found_by, subject.substr(0, 60)});
    candidates.push_back({{"commit", to_hex(base.commit)},
                          {"files", base.files},
                          {"lines", base.lines},
                          {"found_by", base.found_by},
                          {"subject", printable(subject)}});
  }
  if (!session.json && !session.quiet) session.out << "base candidates, nearest first:\n" << table(rows);
  if (with_plan && !bases.empty() && bases.front().commit != *stated) {
    TS_TRY(const TreeDistance at_base, repository.distance(workspace->base.tree, *tree_id, true));
    const BaseCandidate& best = bases.front();
    if (std::pair(best.files, best.lines) < std::pair(at_base.files, at_base.lines)) {
      TS_TRY(const std::string from_there, init_from(workspace->file, best.commit));
      troubles.push_back(with_next("The stated base is " + std::to_string(at_base.files) + " files and " +
                                       std::to_string(at_base.lines) + " lines away from the tree, " +
                                       to_hex(best.commit).substr(0, 12) + " only " +
                                       std::to_string(best.files) + " and " + std::to_string(best.lines) +
                                       ": " + std::to_string(at_base.files - best.files) +
                                       " files look like upstream drift",
                                   from_there));
    }
  }
  for (const std::string& trouble : troubles) session.say("trouble: " + session.pasteable(trouble));
  session.say(troubles.empty() ? "nothing is wrong" : std::to_string(troubles.size()) + " things to look at");
  nlohmann::ordered_json said = nlohmann::ordered_json::array();
  for (const VersionHint& hint : hints)
    said.push_back({{"where", printable(hint.where)}, {"said", printable(hint.said)}, {"names", hint.names}});
  session.answer("doctor", {{"versions", said}, {"bases", candidates}, {"troubles", troubles}});
  return troubles.empty() ? Exit::kTrue : Exit::kFalse;
}

}  // namespace tessera::stack
