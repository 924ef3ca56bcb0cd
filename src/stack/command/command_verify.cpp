// verify: the proof, path by path, and the user's own expectations.
#include <nlohmann/json.hpp>

#include "stack/atom/glob.h"
#include "stack/command/read_tree.h"
#include "stack/command/target_ground.h"
#include "stack/command/verbs.h"
#include "stack/command/verification.h"
#include "stack/compose/composer.h"
#include "stack/compose/topics.h"
#include "stack/object/digest.h"
#include "stack/object/next_command.h"
#include "stack/object/printable.h"

namespace tessera::stack {
namespace {

std::vector<ParityRule> parity_rules(const Plan& plan) {
  std::vector<ParityRule> rules;
  for (const IgnoreRule& rule : plan.ignore) {
    rules.push_back(
        {.label = "ignore " + rule.glob,
         .matches = [glob = rule.glob](std::string_view path) { return glob_matches(glob, path); },
         .even_if_changed = rule.even_if_changed});
  }
  // What is outside every keep is hidden by all subset rules together.
  if (!plan.subset.empty()) {
    std::string label = "subset";
    for (const SubsetRule& rule : plan.subset) label += " " + rule.keep;
    rules.push_back({.label = label,
                     .matches =
                         [subset = plan.subset](std::string_view path) {
                           return std::ranges::none_of(
                               subset, [&](const SubsetRule& r) { return glob_matches(r.keep, path); });
                         },
                     .only_missing_from_tree = true});
  }
  return rules;
}

std::vector<Expectation> expectations_of(const Workspace& workspace) {
  std::vector<Expectation> out;
  for (const Expect& expect : workspace.plan().expects) {
    out.push_back({.path = expect.path,
                   .has = expect.has,
                   .lacks = expect.lacks,
                   .sha256 = expect.sha256,
                   .exists = expect.exists == true,
                   .absent = expect.exists == false,
                   .why = expect.why,
                   .where = workspace.where(expect.line)});
  }
  return out;
}

nlohmann::ordered_json results_json(const std::vector<ExpectationResult>& results) {
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const ExpectationResult& result : results) {
    nlohmann::ordered_json entry{{"where", result.where},
                                 {"holds", result.holds},
                                 {"reason", printable(result.reason)},
                                 {"nearest", printable(result.nearest)}};
    put_path(entry, result.path);
    out.push_back(entry);
  }
  return out;
}

// By one of the plan's recorded commits.
bool is_touched(const Workspace& workspace, std::string_view path) {
  return std::ranges::any_of(workspace.plan().ahead, [&](const Ahead& ahead) {
    const auto paths = paths_of_ahead(workspace, ahead);
    return paths && std::ranges::binary_search(*paths, path);
  });
}

}  // namespace

bool Verification::is_true(const std::vector<ParityClass>& allowed) const {
  const auto holds = [](const std::vector<ExpectationResult>& results) {
    return std::ranges::all_of(results, &ExpectationResult::holds);
  };
  return unassigned == 0 && is_accepted(parity, allowed) && holds(on_tree) && holds(on_integration);
}

Result<Verification> verify_workspace(Workspace& workspace, const Graph& graph, const Ground& ground,
                                      const std::string& source, const Session& session) {
  Verification out;
  const std::string ref = "refs/heads/" + workspace.plan().prefix + "/integration";
  std::optional<Oid> tip = workspace.repository.read_ref(ref);
  // Without a difference there is nothing to integrate: the target is what the branch would be.
  if (!tip && workspace.has_no_difference()) tip = workspace.target.id;
  if (!tip)
    return Error{
        ErrorKind::kNotFound, ref,
        with_next("There is no integration branch yet", "tessera-stack split && tessera-stack integrate")};
  out.integration_commit = *tip;
  TS_TRY(out.integration, workspace.repository.read_tree(*tip));
  bool is_raw = true;
  if (!source.empty()) {
    TS_TRY(const SourceSpec spec, parse_source(source));
    TS_TRY(SourceTree read, read_tree_into(workspace.repository, spec, session));
    out.tree = std::move(read.tree);
  } else if (workspace.target.id == workspace.base.id) {
    out.tree = workspace.raw_tree;
  } else {
    TS_TRY(out.tree, expected_tree(workspace, graph, ground));
    is_raw = false;  // the rules were applied before it was moved
  }
  // What the plan composes: without what it drops, as the integration should be, and with it, as the tree is.
  const Composer composer(workspace.listing, workspace.claims.ownership, workspace.regions, graph.rank,
                          ground);
  TreeComposer trees(composer, ground, workspace.repository);
  const BucketSet buckets{std::vector<bool>(workspace.plan().buckets.size(), true), false};
  BucketSet kept = buckets;
  for (std::size_t i = 0; i < kept.has.size(); ++i)
    kept.has[i] = workspace.plan().buckets[i].kind != BucketKind::kDrop;
  std::optional<Tree> planned;
  std::optional<Tree> with_dropped;
  TS_TRY(const TreeComposer::Composed with, trees.compose(workspace.target.tree, buckets));
  if (with.conflicts.empty()) {
    TS_TRY(with_dropped, workspace.repository.read_tree(with.tree));
    TS_TRY(TreeComposer::Composed without, trees.compose(workspace.target.tree, kept));
    for (const Ahead& ahead : workspace.plan().ahead) {
      TS_TRY(without.tree, replay_ahead(workspace, ahead, without.tree));
    }
    TS_TRY(planned, workspace.repository.read_tree(without.tree));
  }
  const auto is_same = [](const TreeEntry* a, const TreeEntry* b) {
    return (a == nullptr) == (b == nullptr) && (a == nullptr || (a->oid == b->oid && a->mode == b->mode));
  };
  const auto is_ahead = [&](std::string_view path) {
    return is_same(out.integration.find(path), planned->find(path)) &&
           is_same(out.tree.find(path), with_dropped->find(path)) && is_touched(workspace, path);
  };
  out.parity = compare_trees({.tree = out.tree,
                              .integration = out.integration,
                              .tree_blobs = workspace.repository,
                              .integration_blobs = workspace.repository,
                              .base = &workspace.base_tree,
                              .planned = planned ? &*planned : nullptr,
                              .with_dropped = with_dropped ? &*with_dropped : nullptr,
                              .rules = is_raw ? parity_rules(workspace.plan()) : std::vector<ParityRule>{},
                              .is_ahead = planned && !workspace.plan().ahead.empty()
                                              ? std::function<bool(std::string_view)>(is_ahead)
                                              : std::function<bool(std::string_view)>(),
                              .progress = session.progress()});
  const std::vector<Expectation> expectations = expectations_of(workspace);
  out.on_tree = check_expectations(expectations, out.tree, workspace.repository);
  out.on_integration = check_expectations(expectations, out.integration, workspace.repository);
  out.unassigned = workspace.claims.ownership.unassigned();
  out.atoms = static_cast<std::int64_t>(workspace.listing.atoms.size());
  return out;
}

Result<Exit> run_verify(const VerifyOptions& options, const Session& session) {
  TS_TRY(const std::string path, session.plan_path());
  TS_TRY(Workspace workspace, open_workspace(path, session.progress()));
  const Graph graph = graph_of(workspace);
  TS_TRY(check_identity(workspace, graph));
  TS_TRY(const Ground ground, target_ground(workspace));
  TS_TRY(const Verification found, verify_workspace(workspace, graph, ground, options.tree, session));
  std::vector<ParityClass> allowed;
  for (const std::string& name : options.allow) {
    if (const auto value = parity_class_from(name)) allowed.push_back(*value);
  }
  nlohmann::ordered_json paths = nlohmann::ordered_json::array();
  std::vector<std::vector<std::string>> rows;
  for (const PathParity& entry : found.parity.paths) {
    nlohmann::ordered_json json;
    put_path(json, entry.path);
    json["class"] = name_of(entry.value);
    json["detail"] = entry.detail;
    paths.push_back(json);
    if (entry.value != ParityClass::kIgnored)
      rows.push_back({std::string(name_of(entry.value)), entry.path, entry.detail});
  }
  if (!session.json && !session.quiet) session.out << table(rows);
  for (const auto* results : {&found.on_tree, &found.on_integration}) {
    for (const ExpectationResult& result : *results) {
      if (result.holds) continue;
      session.err << "expectation: " << result.where << ": "
                  << (results == &found.on_tree ? "tree: " : "integration: ") << printable(result.path)
                  << ": " << printable(result.reason)
                  << (result.nearest.empty() ? "" : " Nearest: " + printable(result.nearest)) << '\n';
    }
  }
  for (const std::string& hidden : found.parity.hidden)
    session.warn("A rule hides " + hidden + ", which the base has and the tree changed.");
  const bool holds = found.is_true(allowed);
  if (workspace.has_no_difference() && options.tree.empty())
    session.say("The tree equals the base: no difference, nothing to split.");
  session.say("parity: " + verdict_line(found.parity) + "; " + with_commas(found.unassigned) +
              " unassigned of " + with_commas(found.atoms) + " atoms");
  nlohmann::ordered_json counts;
  for (int c = 0; c < kParityClasses; ++c)
    counts[std::string(name_of(static_cast<ParityClass>(c)))] =
        found.parity.counts[static_cast<std::size_t>(c)];
  session.answer(
      "verify",
      {{"holds", holds},
       {"verdict", verdict_line(found.parity)},
       {"integration", to_hex(found.integration_commit)},
       {"tree_digest", found.tree.digest},
       {"counts", counts},
       {"unassigned", found.unassigned},
       {"atoms", found.atoms},
       {"paths", paths},
       {"expectations",
        {{"tree", results_json(found.on_tree)}, {"integration", results_json(found.on_integration)}}}});
  return holds ? Exit::kTrue : Exit::kFalse;
}

}  // namespace tessera::stack
