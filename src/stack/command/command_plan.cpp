// plan check, pin, loosen, graph: is the plan sound, what needs what.
#include <nlohmann/json.hpp>

#include "stack/command/atom_view.h"
#include "stack/command/verbs.h"
#include "stack/compose/operation.h"
#include "stack/object/next_command.h"
#include "stack/object/printable.h"
#include "stack/plan/pin.h"
#include "stack/plan/plan_editor.h"

namespace tessera::stack {
namespace {

const std::string& name(const Plan& plan, std::int32_t bucket) {
  return plan.buckets[static_cast<std::size_t>(bucket)].name;
}

nlohmann::ordered_json edge_json(const Workspace& workspace, const Edge& edge) {
  nlohmann::ordered_json atoms = nlohmann::ordered_json::array();
  for (const std::int32_t at : edge.atoms)
    atoms.push_back(workspace.listing.atoms[static_cast<std::size_t>(at)].id);
  return {{"from", name(workspace.plan(), edge.from)},
          {"to", edge.to == kUnassigned ? nlohmann::ordered_json(nullptr)
                                        : nlohmann::ordered_json(name(workspace.plan(), edge.to))},
          {"kind", name_of(edge.kind)},
          {"orders", is_order(edge.kind)},
          {"witness", printable(edge.witness)},
          {"atoms", atoms}};
}

// The ids that `plan pin` writes for one bucket: whole atoms by full id; pieces are exact already.
std::vector<std::string> pins_of(const Workspace& workspace, const EqualAtoms& equal, std::int32_t bucket) {
  std::vector<std::string> pins;
  for (std::size_t i = 0; i < workspace.listing.atoms.size(); ++i) {
    const AtomOwner& owner = workspace.claims.ownership.atoms[i];
    if (!owner.is_cut && owner.whole == bucket)
      pins.push_back(pin_of(workspace.listing, equal, static_cast<std::int32_t>(i)));
  }
  return pins;
}

}  // namespace

Result<Exit> run_plan_check(const Session& session) {
  TS_TRY(const std::string path, session.plan_path());
  TS_TRY(const Workspace workspace, open_workspace(path, session.progress()));
  const Graph graph = graph_of(workspace);
  TS_TRY(check_identity(workspace, graph));
  std::vector<Error> errors = workspace.claims.errors;
  errors.insert(errors.end(), graph.errors.begin(), graph.errors.end());
  std::vector<std::string> warnings = workspace.claims.warnings;
  warnings.insert(warnings.end(), graph.warnings.begin(), graph.warnings.end());
  for (const RuleUse& use : workspace.ruled.uses) {
    if (use.paths == 0)
      warnings.push_back(workspace.where(use.line) + ": the rule '" + use.rule + "' matches no path.");
  }
  if (workspace.listing_is_stale) {
    warnings.push_back(
        with_next("The plan's listing fingerprint is of another listing (rules or diff options were edited)",
                  "tessera-stack plan pin"));
  }
  for (std::size_t b = 0; b < workspace.plan().buckets.size(); ++b) {
    const Bucket& bucket = workspace.plan().buckets[b];
    if (lines_of(workspace.listing, workspace.claims.ownership, static_cast<std::int32_t>(b)) == 0 &&
        bucket.take.empty() && bucket.pins.empty()) {
      warnings.push_back(workspace.where(bucket.line) + ": the bucket '" + bucket.name + "' takes nothing.");
    }
    if (bucket.kind != BucketKind::kUpstream && bucket.why.empty()) {
      warnings.push_back(workspace.where(bucket.line) + ": '" + bucket.name + "' is " +
                         std::string(name_of(bucket.kind)) + " and says no why.");
    }
  }
  for (const Error& error : errors) session.complain(error);
  for (const std::string& warning : warnings) session.warn(warning);
  const std::int64_t unassigned = workspace.claims.ownership.unassigned();
  session.say("plan: " + std::to_string(workspace.plan().buckets.size()) + " buckets, " +
              std::to_string(workspace.listing.atoms.size()) + " atoms, " + std::to_string(unassigned) +
              " unassigned, " + std::to_string(errors.size()) + " errors, " +
              std::to_string(warnings.size()) + " warnings");
  nlohmann::ordered_json found = nlohmann::ordered_json::array();
  for (const Error& error : errors)
    found.push_back({{"where", error.where}, {"what", printable(error.what)}});
  session.answer("plan check", {{"atoms", workspace.listing.atoms.size()},
                                {"unassigned", unassigned},
                                {"errors", found},
                                {"warnings", warnings}});
  if (!errors.empty()) return Exit::kInput;
  return unassigned == 0 ? Exit::kTrue : Exit::kFalse;
}

Result<Exit> run_plan_pin(const Session& session) {
  TS_TRY(const std::string path, session.plan_path());
  TS_TRY(Workspace workspace, open_workspace(path, session.progress()));
  if (!workspace.claims.errors.empty()) return workspace.claims.errors.front();
  PlanEditor editor(workspace.file.text);
  const EqualAtoms equal(workspace.listing);
  std::size_t count = 0;
  for (std::size_t b = 0; b < workspace.plan().buckets.size(); ++b) {
    const std::string& bucket = workspace.plan().buckets[b].name;
    const std::vector<std::string> pins = pins_of(workspace, equal, static_cast<std::int32_t>(b));
    count += pins.size();
    TS_TRY(editor.remove_key(bucket, "pins"));
    TS_TRY(editor.add_to_list(bucket, "pins", pins));
  }
  TS_TRY(editor.set("tree", "listing", workspace.listing.fingerprint));
  TS_TRY(run_operation(
      workspace.repository, workspace.file, {},
      {.verb = "plan pin", .when = session.now(), .dry_run = session.dry_run, .plan_text = editor.text()}));
  session.say("pinned " + std::to_string(count) + " atoms");
  session.answer("plan pin", {{"pinned", count}});
  return Exit::kTrue;
}

Result<Exit> run_plan_loosen(const Session& session) {
  TS_TRY(const std::string path, session.plan_path());
  TS_TRY(PlanFile file, load_plan(path));
  TS_TRY(Repository repository, Repository::open(file.beside(file.plan.repository)));
  PlanEditor editor(file.text);
  std::size_t count = 0;
  for (const Bucket& bucket : file.plan.buckets) {
    count += bucket.pins.size();
    TS_TRY(editor.remove_key(bucket.name, "pins"));
  }
  TS_TRY(run_operation(repository, file, {},
                       {.verb = "plan loosen",
                        .when = session.now(),
                        .dry_run = session.dry_run,
                        .plan_text = editor.text()}));
  session.say("removed " + std::to_string(count) + " pins");
  session.answer("plan loosen", {{"removed", count}});
  return Exit::kTrue;
}

Result<Exit> run_plan_graph(const std::string& format, const Session& session) {
  TS_TRY(const std::string path, session.plan_path());
  TS_TRY(const Workspace workspace, open_workspace(path, session.progress()));
  const Graph graph = graph_of(workspace);
  const Plan& plan = workspace.plan();
  if (format == "dot") {
    session.out << "digraph stack {\n  rankdir = BT;\n  node [shape = box];\n";
    for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
      const char* style = plan.buckets[b].kind == BucketKind::kLocal  ? " [style = dashed]"
                          : plan.buckets[b].kind == BucketKind::kDrop ? " [style = dotted]"
                                                                      : "";
      session.out << "  \"" << plan.buckets[b].name << "\"" << style << ";\n";
    }
    for (const Edge& edge : graph.edges) {
      if (edge.to == kUnassigned) continue;
      session.out << "  \"" << name(plan, edge.from) << "\" -> \"" << name(plan, edge.to) << "\" [label = \""
                  << name_of(edge.kind) << "\"" << (is_order(edge.kind) ? "" : ", style = dotted") << "];\n";
    }
    session.out << "}\n";
  } else if (!session.json && format != "json") {
    for (const std::int32_t bucket : graph.order) {
      session.say(name(plan, bucket) + "  (" +
                  std::string(name_of(plan.buckets[static_cast<std::size_t>(bucket)].kind)) + ", " +
                  std::to_string(lines_of(workspace.listing, workspace.claims.ownership, bucket)) +
                  " lines)");
      for (const Edge& edge : graph.edges) {
        if (edge.from != bucket) continue;
        session.say("    " + std::string(is_order(edge.kind) ? "needs " : "near  ") +
                    (edge.to == kUnassigned ? "(unassigned)" : name(plan, edge.to)) + ": " +
                    printable(edge.witness));
      }
    }
    for (const Edge& edge : graph.refuted)
      session.say("refuted: " + name(plan, edge.from) + " -> " +
                  (edge.to == kUnassigned ? "(unassigned)" : name(plan, edge.to)) + ": " +
                  printable(edge.witness));
  } else {
    nlohmann::ordered_json order = nlohmann::ordered_json::array();
    for (const std::int32_t bucket : graph.order) order.push_back(name(plan, bucket));
    nlohmann::ordered_json edges = nlohmann::ordered_json::array();
    for (const Edge& edge : graph.edges) edges.push_back(edge_json(workspace, edge));
    nlohmann::ordered_json refuted = nlohmann::ordered_json::array();
    for (const Edge& edge : graph.refuted) refuted.push_back(edge_json(workspace, edge));
    Session machine = session;
    machine.json = true;
    machine.answer("plan graph", {{"order", order}, {"edges", edges}, {"refuted", refuted}});
  }
  for (const Error& error : graph.errors) session.complain(error);
  for (const std::string& warning : graph.warnings) session.warn(warning);
  return graph.errors.empty() ? Exit::kTrue : Exit::kInput;
}

}  // namespace tessera::stack
