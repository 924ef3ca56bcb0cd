// rebase: topics onto another target.
#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "stack/command/topic_difference.h"
#include "stack/command/verbs.h"
#include "stack/compose/frozen_tree.h"
#include "stack/compose/operation.h"
#include "stack/compose/topics.h"
#include "stack/move/target.h"
#include "stack/object/digest.h"
#include "stack/object/printable.h"
#include "stack/plan/plan_editor.h"
#include "stack/plan/plan_reader.h"

namespace tessera::stack {
namespace {

constexpr std::string_view kMarks[] = {"<<<<<<< target", "||||||| base", "=======", ">>>>>>> topic"};

std::string conflict_file(const Conflict& conflict) { return "conflicts/" + conflict.id.substr(2) + ".txt"; }

// What the user edits: the three texts between markers. Everything that is left when the markers are gone
// becomes the resolution.
std::string conflict_text(const Conflict& conflict) {
  const auto part = [](std::string_view mark, std::string_view text) {
    std::string out = std::string(mark) + "\n" + std::string(text);
    if (!out.ends_with('\n')) out += '\n';
    return out;
  };
  return part(kMarks[0], conflict.ours) + part(kMarks[1], conflict.base) + part(kMarks[2], conflict.theirs) +
         std::string(kMarks[3]) + "\n";
}

bool has_marks(std::string_view text) {
  for (const std::string_view mark : kMarks) {
    if (mark != "=======" &&
        (text.starts_with(mark) || text.find("\n" + std::string(mark)) != std::string_view::npos))
      return true;
  }
  return false;
}

// Files of conflicts that were solved become resolutions of the plan; open ones are written, unless they are
// there already.
Result<std::size_t> take_resolutions(const Workspace& workspace, const std::vector<Conflict>& conflicts,
                                     PlanEditor& editor) {
  std::size_t taken = 0;
  for (const Conflict& conflict : conflicts) {
    if (!conflict.has_texts || conflict.is_resolved) continue;
    const std::string open = workspace.file.beside(conflict_file(conflict));
    const auto text = load_text(open);
    if (!text) {
      std::error_code failed;
      std::filesystem::create_directories(std::filesystem::path(open).parent_path(), failed);
      TS_TRY(save_text(open, conflict_text(conflict)));
      continue;
    }
    if (has_marks(*text)) continue;
    const std::string relative = "resolutions/" + conflict.id.substr(2) + ".txt";
    const std::string path = workspace.file.beside(relative);
    std::error_code failed;
    std::filesystem::create_directories(std::filesystem::path(path).parent_path(), failed);
    TS_TRY(save_text(path, *text));
    editor.append("[[resolution]]\nconflict = \"" + conflict.id + "\"  # " + printable(conflict.path) +
                  "\nfile     = \"" + relative + "\"\n");
    std::filesystem::remove(open, failed);
    ++taken;
  }
  return taken;
}

struct Counts {
  std::map<PlacementKind, std::int64_t> of;
  void add(PlacementKind kind) { ++of[kind]; }
  std::string text() const {
    std::string out;
    for (const auto& [kind, count] : of)
      out += (out.empty() ? "" : ", ") + std::to_string(count) + " " + std::string(name_of(kind));
    return out.empty() ? "no atoms" : out;
  }
  nlohmann::ordered_json json() const {
    nlohmann::ordered_json out = nlohmann::ordered_json::object();
    for (const auto& [kind, count] : of) out[std::string(name_of(kind))] = count;
    return out;
  }
};

}  // namespace

Result<Exit> run_rebase(const RebaseOptions& options, const Session& session) {
  TS_TRY(const std::string path, session.plan_path());
  TS_TRY(PlanFile file, load_plan(path));
  TS_TRY(Repository repository, Repository::open(file.beside(file.plan.repository)));
  TS_TRY(const Oid onto, repository.resolve_commit(options.onto));
  PlanEditor editor(file.text);
  TS_TRY(editor.set("base", "target", to_hex(onto)));

  // The plan as it will be, opened in full; with resolutions, opened twice.
  const auto open = [&](const std::string& text) -> Result<Workspace> {
    TS_TRY(Plan plan, read_plan(text, std::filesystem::path(path).filename().string()));
    TS_TRY(Repository again, Repository::open(file.beside(plan.repository)));
    TS_TRY(Tree tree, read_frozen(again, plan));
    return make_workspace(PlanFile{path, text, std::move(plan)}, std::move(again), std::move(tree),
                          session.progress());
  };
  TS_TRY(Workspace workspace, open(editor.text()));
  TS_TRY(TargetGround target, ground_on(workspace, workspace.target));
  std::size_t taken = 0;
  if (options.resolve && !session.dry_run) {
    TS_TRY(taken, take_resolutions(workspace, target.conflicts, editor));
    if (taken > 0) {
      TS_TRY(workspace, open(editor.text()));
      TS_TRY(target, ground_on(workspace, workspace.target));
    }
  }
  if (!workspace.claims.errors.empty()) return workspace.claims.errors.front();
  const Graph graph = graph_of(workspace);
  if (!graph.errors.empty()) return graph.errors.front();
  TS_TRY(check_identity(workspace, graph));
  TS_TRY(find_upstream_commits(workspace, workspace.target, target.conflicts));
  TS_TRY(const Composition composition, compose_topics(workspace, graph, target.ground));

  const Plan& plan = workspace.plan();
  std::vector<std::pair<std::string, std::optional<Oid>>> wanted;
  for (const Topic& topic : composition.topics) {
    if (!topic.conflicts.empty()) continue;
    // A topic whose every atom is upstream has no commit any more: its branch goes.
    if (topic.is_empty && !workspace.repository.read_ref(topic.ref)) continue;
    wanted.emplace_back(topic.ref, topic.is_empty ? std::nullopt : std::optional<Oid>(topic.commit));
  }
  const bool was_integrated = workspace.repository.read_ref(composition.integration_ref).has_value();
  if (composition.integration && was_integrated)
    wanted.emplace_back(composition.integration_ref, composition.integration);
  TS_TRY(const std::vector<RefUpdate> updates, run_operation(workspace.repository, file, wanted,
                                                             {.verb = "rebase",
                                                              .when = session.now(),
                                                              .force = options.force,
                                                              .dry_run = session.dry_run,
                                                              .plan_text = editor.text()}));

  Counts all;
  std::vector<std::vector<std::string>> rows;
  nlohmann::ordered_json topics = nlohmann::ordered_json::array();
  std::vector<Counts> by_bucket(plan.buckets.size());
  for (std::size_t f = 0; f < workspace.listing.files.size(); ++f) {
    const FileChange& change = workspace.listing.files[f];
    for (std::int32_t at = change.first_atom; at < change.first_atom + change.atom_count; ++at) {
      const PlacementKind kind =
          target.ground.files[f].placements[static_cast<std::size_t>(at - change.first_atom)].kind;
      all.add(kind);
      for (const std::int32_t owner :
           workspace.claims.ownership.atoms[static_cast<std::size_t>(at)].owners()) {
        if (owner != kUnassigned) by_bucket[static_cast<std::size_t>(owner)].add(kind);
      }
    }
  }
  std::size_t conflicted = 0;
  std::vector<std::pair<std::string, std::string>> differences;
  for (const Topic& topic : composition.topics) {
    const Counts& counts = by_bucket[static_cast<std::size_t>(topic.bucket)];
    const auto has = [&](PlacementKind kind) { return counts.of.contains(kind); };
    std::string outcome = has(PlacementKind::kMerged) || has(PlacementKind::kRemembered) ? "adapted"
                          : has(PlacementKind::kMapped)                                  ? "moved"
                                                                                         : "unchanged";
    if (topic.is_empty) outcome = "upstream";
    if (!topic.conflicts.empty()) {
      outcome = "conflict";
      ++conflicted;
    }
    const std::string& name = plan.buckets[static_cast<std::size_t>(topic.bucket)].name;
    // What a reviewer has to read again: how the topic's own difference changed.
    TopicDifference difference;
    const auto update = std::ranges::find(updates, topic.ref, &RefUpdate::ref);
    if (update != updates.end()) {
      TS_TRY(difference, compare_versions(workspace.repository, update->before, update->after));
    }
    rows.push_back({update == updates.end() ? "" : difference.mark, outcome, name, counts.text()});
    if (!difference.text.empty()) differences.emplace_back(name, difference.text);
    topics.push_back(
        {{"bucket", name},
         {"outcome", outcome},
         {"range_diff", {{"mark", difference.mark}, {"text", difference.text}}},
         {"atoms", counts.json()},
         {"commit", topic.conflicts.empty() && !topic.is_empty ? nlohmann::ordered_json(to_hex(topic.commit))
                                                               : nlohmann::ordered_json(nullptr)}});
  }
  if (!session.json && !session.quiet) session.out << table(rows);
  for (const auto& [name, text] : differences) session.say("changed: " + name + "\n" + text);
  for (const std::string& renamed : target.renamed) session.say("renamed upstream: " + renamed);
  nlohmann::ordered_json conflicts = nlohmann::ordered_json::array();
  std::size_t open_conflicts = 0;
  for (const Conflict& conflict : target.conflicts) {
    open_conflicts += !conflict.is_resolved;
    std::string ids;
    nlohmann::ordered_json atoms = nlohmann::ordered_json::array();
    for (const std::int32_t at : conflict.atoms) {
      ids += " h:" + workspace.listing.short_id(workspace.listing.atoms[static_cast<std::size_t>(at)]);
      atoms.push_back(workspace.listing.atoms[static_cast<std::size_t>(at)].id);
    }
    session.say((conflict.is_resolved ? "resolution used: " : "conflict: ") + conflict.id + "  " +
                printable(conflict.path) + "  " + ids.substr(ids.empty() ? 0 : 1));
    if (!conflict.is_resolved)
      session.say("    " + conflict.why +
                  (options.resolve && conflict.has_texts
                       ? " Solve it in " + conflict_file(conflict) + " and run this again."
                       : ""));
    nlohmann::ordered_json commits = nlohmann::ordered_json::array();
    for (const Oid& id : conflict.upstream) {
      commits.push_back(to_hex(id));
      if (const auto commit = workspace.repository.read_commit(id); commit && !conflict.is_resolved) {
        session.say("    touched by " + to_hex(id).substr(0, 12) + " " +
                    printable(commit->message.substr(0, commit->message.find('\n'))));
      }
    }
    nlohmann::ordered_json entry{{"id", conflict.id}};
    put_path(entry, conflict.path);
    entry.update(
        {{"resolved", conflict.is_resolved}, {"why", conflict.why}, {"atoms", atoms}, {"upstream", commits}});
    conflicts.push_back(entry);
  }
  session.say(all.text() + "; " + std::to_string(conflicted) + " of " +
              std::to_string(composition.topics.size()) + " topics conflict" +
              (taken > 0 ? "; " + std::to_string(taken) + " resolutions recorded" : "") +
              (session.dry_run ? "; nothing was changed: --dry-run" : ""));
  session.answer("rebase", {{"onto", to_hex(onto)},
                            {"atoms", all.json()},
                            {"topics", topics},
                            {"conflicts", conflicts},
                            {"renamed", target.renamed},
                            {"resolutions_recorded", taken}});
  return open_conflicts > 0 ? Exit::kConflict : Exit::kTrue;
}

}  // namespace tessera::stack
