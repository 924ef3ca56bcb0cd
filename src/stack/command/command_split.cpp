// split: topic branches. integrate: the branch with all of them, and the proof that it is the tree.
#include <nlohmann/json.hpp>
#include <set>

#include "stack/command/atom_view.h"
#include "stack/command/checkout.h"
#include "stack/command/target_ground.h"
#include "stack/command/verbs.h"
#include "stack/compose/operation.h"
#include "stack/compose/topics.h"
#include "stack/object/digest.h"
#include "stack/object/next_command.h"
#include "stack/object/printable.h"

namespace tessera::stack {
namespace {

struct Composed {
  Workspace workspace;
  Graph graph;
  Ground ground;
  Composition composition;
};

Result<Composed> compose_all(const Session& session) {
  TS_TRY(const std::string path, session.plan_path());
  TS_TRY(Workspace workspace, open_workspace(path, session.progress()));
  if (!workspace.claims.errors.empty()) return workspace.claims.errors.front();
  Graph graph = graph_of(workspace);
  if (!graph.errors.empty()) {
    Error error = graph.errors.front();
    if (error.kind == ErrorKind::kConflict)
      error.kind = ErrorKind::kInvalidArgument;  // a plan to correct, no ref to look at
    return error;
  }
  for (const std::string& warning : graph.warnings) session.warn(warning);
  TS_TRY(check_identity(workspace, graph));
  TS_TRY(Ground ground, target_ground(workspace));
  TS_TRY(Composition composition, compose_topics(workspace, graph, ground));
  return Composed{std::move(workspace), std::move(graph), std::move(ground), std::move(composition)};
}

std::string short_of(const std::optional<Oid>& oid) { return oid ? to_hex(*oid).substr(0, 12) : "-"; }

}  // namespace

Result<Exit> run_split(const SplitOptions& options, const Session& session) {
  TS_TRY(Composed all, compose_all(session));
  const Plan& plan = all.workspace.plan();
  std::vector<std::pair<std::string, std::optional<Oid>>> wanted;
  for (const Topic& topic : all.composition.topics) {
    if (topic.conflicts.empty() && !topic.is_empty) wanted.emplace_back(topic.ref, topic.commit);
  }
  TS_TRY(const std::vector<RefUpdate> updates,
         run_operation(all.workspace.repository, all.workspace.file, wanted,
                       {.verb = "split",
                        .when = session.now(),
                        .force = options.force,
                        .dry_run = session.dry_run,
                        .plan_text = {}}));
  std::vector<std::vector<std::string>> rows;
  nlohmann::ordered_json topics = nlohmann::ordered_json::array();
  bool checks_pass = true;
  std::size_t conflicts = 0;
  std::size_t next = 0;
  const StageProgress progress = session.progress();
  Stage stage(progress, "checks", options.check ? all.composition.topics.size() : 0);
  for (const Topic& topic : all.composition.topics) {
    if (options.check) stage.step();
    const Bucket& bucket = plan.buckets[static_cast<std::size_t>(topic.bucket)];
    Outcome outcome = Outcome::kEmpty;
    if (!topic.conflicts.empty()) {
      outcome = Outcome::kConflict;
      ++conflicts;
    } else if (!topic.is_empty) {
      outcome = updates[next++].outcome;
    }
    std::string below;
    nlohmann::ordered_json needs = nlohmann::ordered_json::array();
    for (const std::int32_t need : all.graph.needs[static_cast<std::size_t>(topic.bucket)]) {
      below += (below.empty() ? "" : ", ") + plan.buckets[static_cast<std::size_t>(need)].name;
      needs.push_back(plan.buckets[static_cast<std::size_t>(need)].name);
    }
    const bool has_commit = topic.conflicts.empty() && !topic.is_empty;
    rows.push_back({std::string(name_of(outcome)), has_commit ? short_of(topic.commit) : "-",
                    topic.ref.substr(11), below.empty() ? "on the target" : "on " + below});
    nlohmann::ordered_json json{{"bucket", bucket.name},
                                {"kind", name_of(bucket.kind)},
                                {"branch", topic.ref},
                                {"outcome", name_of(outcome)},
                                {"commit", has_commit ? nlohmann::ordered_json(to_hex(topic.commit))
                                                      : nlohmann::ordered_json(nullptr)},
                                {"needs", needs}};
    if (options.check && has_commit && !bucket.check.empty()) {
      TS_TRY(const std::vector<CheckResult> results,
             run_checks(all.workspace.repository, topic.tree, bucket.check));
      nlohmann::ordered_json checks = nlohmann::ordered_json::array();
      for (const CheckResult& result : results) {
        checks_pass &= result.status == 0;
        rows.push_back({result.status == 0 ? "  passed" : "  FAILED", "", result.command,
                        result.status == 0 ? "" : result.last_line});
        checks.push_back({{"command", result.command},
                          {"status", result.status},
                          {"last_line", printable(result.last_line)}});
      }
      json["checks"] = checks;
    }
    topics.push_back(std::move(json));
  }
  if (!session.json && !session.quiet) session.out << table(rows);
  const std::int64_t unassigned = all.workspace.claims.ownership.unassigned();
  session.say(std::to_string(all.composition.topics.size()) + " topics; " + std::to_string(unassigned) +
              " of " + std::to_string(all.workspace.listing.atoms.size()) + " atoms unassigned" +
              (session.dry_run ? "; nothing was changed: --dry-run" : ""));
  // Branches of ours whose bucket is gone are the user's to delete.
  nlohmann::ordered_json stale = nlohmann::ordered_json::array();
  const std::string prefix = "refs/heads/" + plan.prefix + "/";
  for (const Ref& ref : all.workspace.repository.list_refs(prefix)) {
    const std::string name = ref.name.substr(prefix.size());
    const auto bucket = plan.find_bucket(name);
    if (is_reserved(name) ||
        (bucket && plan.buckets[static_cast<std::size_t>(*bucket)].kind != BucketKind::kDrop))
      continue;
    session.say("stale: " + ref.name.substr(11) + " belongs to no topic of the plan; git branch -D " +
                ref.name.substr(11) + " removes it");
    stale.push_back(ref.name);
  }
  session.answer("split", {{"stale", stale}, {"topics", topics}, {"unassigned", unassigned}});
  if (conflicts > 0) {
    session.warn(
        with_next(std::to_string(conflicts) + " topics conflict at the target and keep their branches",
                  "tessera-stack rebase --onto " + plan.target.substr(0, 12)));
    return Exit::kConflict;
  }
  return checks_pass ? Exit::kTrue : Exit::kFalse;
}

Result<Exit> run_integrate(const SplitOptions& options, const Session& session) {
  TS_TRY(Composed all, compose_all(session));
  if (!all.composition.integration) {
    return Error{ErrorKind::kConflict, all.workspace.plan_name(),
                 with_next("Topics conflict at the target, so there is nothing to integrate",
                           "tessera-stack rebase --onto " + all.workspace.plan().target.substr(0, 12))};
  }
  // The proof: integration differs from the tree exactly where the plan leaves something out, or has more.
  std::set<std::string> ahead;
  for (const Ahead& more : all.workspace.plan().ahead) {
    TS_TRY(const std::vector<std::string> paths, paths_of_ahead(all.workspace, more));
    ahead.insert(paths.begin(), paths.end());
  }
  TS_TRY(const Tree expected, expected_tree(all.workspace, all.graph, all.ground));
  TS_TRY(const Tree composed, all.workspace.repository.read_tree(*all.composition.integration_tree));
  std::vector<std::string> left_out;
  for (std::size_t i = 0; i < all.workspace.listing.files.size(); ++i) {
    const std::string& path = all.ground.files[i].path;
    const TreeEntry* wanted = expected.find(path);
    const TreeEntry* have = composed.find(path);
    const bool equal = (wanted == nullptr) == (have == nullptr) &&
                       (wanted == nullptr || (wanted->mode == have->mode && wanted->oid == have->oid));
    if (equal || ahead.contains(path)) continue;
    bool explained = false;
    const FileChange& file = all.workspace.listing.files[i];
    for (std::int32_t at = file.first_atom; at < file.first_atom + file.atom_count; ++at) {
      for (const std::int32_t owner :
           all.workspace.claims.ownership.atoms[static_cast<std::size_t>(at)].owners()) {
        explained |= owner == kUnassigned ||
                     all.workspace.plan().buckets[static_cast<std::size_t>(owner)].kind == BucketKind::kDrop;
      }
    }
    if (!explained)
      return Error{ErrorKind::kInternal, printable(path),
                   "The integration differs from the tree, though nothing of this file is left out. This is "
                   "a bug of tessera-stack; no ref was changed."};
    left_out.push_back(path);
  }
  const std::int64_t unassigned = all.workspace.claims.ownership.unassigned();
  const bool is_exact = left_out.empty() && ahead.empty();
  if (is_exact && expected.digest != composed.digest && all.workspace.listing.unreadable.empty()) {
    return Error{ErrorKind::kInternal, all.workspace.plan_name(),
                 "The integration's tree has the digest " + composed.digest + ", the tree has " +
                     expected.digest + ". This is a bug of tessera-stack; no ref was changed."};
  }
  TS_TRY(const std::vector<RefUpdate> updates,
         run_operation(all.workspace.repository, all.workspace.file,
                       {{all.composition.integration_ref, all.composition.integration}},
                       {.verb = "integrate",
                        .when = session.now(),
                        .force = options.force,
                        .dry_run = session.dry_run,
                        .plan_text = {}}));
  session.say(std::string(name_of(updates[0].outcome)) + "  " + short_of(all.composition.integration) + "  " +
              all.composition.integration_ref.substr(11));
  session.say("tree: " + to_hex(*all.composition.integration_tree) +
              (is_exact ? ", equal to the tree that runs" : ""));
  for (const std::string& path : left_out)
    session.say("left out of " + printable(path) + ": dropped or unassigned atoms");
  for (const std::string& path : ahead) session.say("ahead of the tree in " + printable(path));
  if (unassigned > 0)
    session.say(std::to_string(unassigned) + " atoms are unassigned: tessera-stack list --unassigned");
  nlohmann::ordered_json paths = nlohmann::ordered_json::array();
  for (const std::string& path : left_out) paths.push_back(printable(path));
  session.answer("integrate", {{"branch", all.composition.integration_ref},
                               {"commit", to_hex(*all.composition.integration)},
                               {"tree", to_hex(*all.composition.integration_tree)},
                               {"outcome", name_of(updates[0].outcome)},
                               {"exact", is_exact},
                               {"left_out", paths},
                               {"unassigned", unassigned}});
  return unassigned == 0 ? Exit::kTrue : Exit::kFalse;
}

}  // namespace tessera::stack
