// absorb: a tree that moved on, into the plan.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "stack/command/atom_view.h"
#include "stack/command/read_tree.h"
#include "stack/command/verbs.h"
#include "stack/compose/frozen_tree.h"
#include "stack/compose/operation.h"
#include "stack/compose/replay.h"
#include "stack/move/absorb.h"
#include "stack/object/digest.h"
#include "stack/object/printable.h"
#include "stack/plan/plan_editor.h"
#include "stack/plan/plan_reader.h"
#include "stack/suggest/suggestion.h"

namespace tessera::stack {
namespace {

// Whether the tree has what a commit changed: putting it on changes nothing.
Result<bool> tree_has(Repository& repository, const Commit& commit, const Tree& tree) {
  std::vector<TreeChange> all;
  for (const TreeEntry& entry : tree.entries) all.push_back({entry.path, entry.mode, entry.oid});
  TS_TRY(const Oid root, repository.write_tree(std::nullopt, std::move(all)));
  TS_TRY(const Replayed replayed, replay(repository, commit, root));
  return replayed.conflicts.empty() && replayed.tree == root;
}

}  // namespace

Result<Exit> run_absorb(const AbsorbOptions& options, const Session& session) {
  TS_TRY(const std::string path, session.plan_path());
  TS_TRY(Workspace old, open_workspace(path, session.progress()));
  SourceSpec spec;
  if (options.tree.empty()) {
    TS_TRY(spec, source_of_plan(old.file));
  } else {
    TS_TRY(spec, parse_source(options.tree));
  }
  TS_TRY(const SourceTree read, read_tree_into(old.repository, spec, session));
  for (const std::string& note : read.tree.notes) session.warn(note);
  const auto open_with = [&](const std::string& text) -> Result<Workspace> {
    TS_TRY(Plan plan, read_plan(text, old.plan_name()));
    TS_TRY(Repository again, Repository::open(old.file.beside(plan.repository)));
    return make_workspace(PlanFile{path, text, std::move(plan)}, std::move(again), read.tree,
                          session.progress());
  };
  TS_TRY(const Workspace fresh, open_with(old.file.text));
  TS_TRY(const Absorption found, absorb(old, fresh));

  const Plan& plan = old.plan();
  const std::string branches = "refs/heads/" + plan.prefix + "/";
  const auto name = [&](std::int32_t bucket) { return plan.buckets[static_cast<std::size_t>(bucket)].name; };
  std::vector<std::vector<std::string>> rows;
  nlohmann::ordered_json proposals = nlohmann::ordered_json::array();
  std::vector<std::vector<std::string>> takes(plan.buckets.size());
  std::vector<std::vector<std::string>> stale(plan.buckets.size());
  std::int64_t open = 0;
  for (const AbsorbProposal& proposal : found.proposals) {
    const Atom& atom = fresh.listing.atoms[static_cast<std::size_t>(proposal.atom)];
    std::string owners;
    nlohmann::ordered_json claims = nlohmann::ordered_json::array();
    for (const auto& [bucket, claim] : proposal.claims) {
      takes[static_cast<std::size_t>(bucket)].push_back(claim);
      owners += (owners.empty() ? "" : " + ") + name(bucket);
      claims.push_back({{"bucket", name(bucket)}, {"claim", claim}});
    }
    std::string could;
    nlohmann::ordered_json candidates = nlohmann::ordered_json::array();
    for (const std::int32_t bucket : proposal.candidates) {
      could += (could.empty() ? "" : " or ") + name(bucket);
      candidates.push_back(name(bucket));
    }
    open += proposal.confidence == Confidence::kAmbiguous || proposal.confidence == Confidence::kNone;
    rows.push_back({std::string(name_of(proposal.confidence)), "h:" + fresh.listing.short_id(atom),
                    place_of(fresh.listing, atom),
                    owners.empty() ? (could.empty() ? "-" : could + "?") : owners,
                    first_line(fresh.listing, atom)});
    nlohmann::ordered_json entry = atom_json(fresh, proposal.atom);
    entry["confidence"] = name_of(proposal.confidence);
    entry["claims"] = claims;
    entry["candidates"] = candidates;
    proposals.push_back(entry);
  }
  for (const auto& [bucket, claim] : found.stale) stale[static_cast<std::size_t>(bucket)].push_back(claim);
  if (!session.json && !session.quiet) session.out << table(rows);
  nlohmann::ordered_json ahead = nlohmann::ordered_json::array();
  PlanEditor editor(old.file.text);
  for (std::size_t b = 0; b < plan.buckets.size(); ++b) {
    for (const char* key : {"take", "leave", "pins"}) {
      TS_TRY(editor.remove_from_list(plan.buckets[b].name, key, stale[b]));
    }
    TS_TRY(editor.add_to_list(plan.buckets[b].name, "take", takes[b]));
  }
  // Reviewers' commits stay on their branches: recorded where the tree lacks them, and ours from now on.
  std::vector<std::pair<std::string, Oid>> state;
  for (const AheadOfTree& branch : found.ahead) {
    TS_TRY(const std::vector<Commit> commits, first_parents(old.repository, branch.ours, branch.now));
    const std::string bucket = branch.ref.substr(std::min(branch.ref.size(), branches.size()));
    const bool is_topic = branch.ref.starts_with(branches) && plan.find_bucket(bucket).has_value();
    if (!is_topic) {
      session.say("moved: " + branch.ref + " is no topic, and nothing of it is taken in");
      continue;
    }
    for (const Commit& commit : commits) {
      TS_TRY(const bool is_there, tree_has(old.repository, commit, read.tree));
      const std::string subject = commit.message.substr(0, commit.message.find('\n'));
      session.say((is_there ? "in the tree already: " : "ahead of tree: ") + to_hex(commit.id).substr(0, 12) +
                  " on " + bucket + ": " + printable(subject));
      ahead.push_back({{"ref", branch.ref}, {"commit", to_hex(commit.id)}, {"in_tree", is_there}});
      if (is_there) continue;
      editor.append("[[ahead]]\nbucket = " + toml_quoted(bucket) + "\ncommit = \"" + to_hex(commit.id) +
                    "\"\nwhy    = " + toml_quoted(printable(subject)) + "\n");
    }
    state.emplace_back(state_ref(plan, "composed/") + branch.ref.substr(5), branch.now);
  }
  TS_TRY(editor.set(
      "tree", "source",
      to_string(options.tree.empty() ? parse_source(plan.source).ok() ? *parse_source(plan.source) : spec
                                     : relative_to(spec, path))));
  TS_TRY(editor.set("tree", "digest", read.tree.digest));
  TS_TRY(editor.set("tree", "listing", fresh.listing.fingerprint));
  TS_TRY(const Workspace after, open_with(editor.text()));
  for (const Error& error : after.claims.errors) session.warn("To correct in the plan: " + error.message());
  const std::int64_t unassigned = after.claims.ownership.unassigned();
  const bool writes = !options.print && !session.dry_run && editor.text() != old.file.text;
  if (writes) {
    TS_TRY(const auto frozen, write_frozen(old.repository, plan, read.tree));
    state.insert(state.end(), frozen.begin(), frozen.end());
    TS_TRY(
        run_operation(old.repository, old.file, {},
                      {.verb = "absorb", .when = session.now(), .plan_text = editor.text(), .state = state}));
  }
  session.say(
      std::to_string(found.proposals.size()) + " atoms drifted, " + std::to_string(found.unchanged) +
      " are owned as before, " + std::to_string(found.stale.size()) + " claims were stale; " +
      std::to_string(open) + " to decide, " + std::to_string(unassigned) + " unassigned" +
      (writes ? "; the plan is changed, read it, then tessera-stack split" : "; the plan is not changed"));
  session.answer("absorb", {{"digest", read.tree.digest},
                            {"proposals", proposals},
                            {"stale", found.stale.size()},
                            {"unchanged", found.unchanged},
                            {"ahead", ahead},
                            {"unassigned", unassigned},
                            {"written", writes}});
  return unassigned == 0 ? Exit::kTrue : Exit::kFalse;
}

}  // namespace tessera::stack
