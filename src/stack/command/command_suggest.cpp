// suggest: buckets for what nobody claims, appended to the plan for the user to correct.
#include <nlohmann/json.hpp>

#include "stack/command/verbs.h"
#include "stack/compose/operation.h"
#include "stack/object/printable.h"
#include "stack/plan/plan_editor.h"
#include "stack/suggest/suggestion.h"

namespace tessera::stack {

Result<Exit> run_suggest(const SuggestOptions& options, const Session& session) {
  TS_TRY(const std::string path, session.plan_path());
  TS_TRY(Workspace workspace, open_workspace(path, session.progress()));
  Suggestion suggestion;
  if (options.from_commits.empty()) {
    suggestion = suggest_by_files(workspace);
  } else {
    TS_TRY(const CommitRange range, parse_range(workspace.repository, options.from_commits));
    if (range.from != workspace.base.id)
      session.warn("The range does not begin at the plan's base; what lies between counts as nobody's.");
    TS_TRY(suggestion, suggest_from_commits(workspace, range.from, range.to));
  }
  const std::string toml = to_toml(suggestion);
  if (options.print && !session.json) {
    session.out << toml;
  } else if (!options.print && !toml.empty()) {
    PlanEditor editor(workspace.file.text);
    editor.append(toml);
    TS_TRY(run_operation(
        workspace.repository, workspace.file, {},
        {.verb = "suggest", .when = session.now(), .dry_run = session.dry_run, .plan_text = editor.text()}));
  }
  for (const std::string& note : suggestion.notes) session.err << "note: " << note << '\n';
  std::size_t claims = 0;
  nlohmann::ordered_json buckets = nlohmann::ordered_json::array();
  for (const ProposedBucket& bucket : suggestion.buckets) {
    claims += bucket.take.size();
    nlohmann::ordered_json take = nlohmann::ordered_json::array();
    for (const ProposedClaim& claim : bucket.take)
      take.push_back({{"claim", claim.claim}, {"comment", printable(claim.comment)}});
    buckets.push_back({{"name", bucket.name},
                       {"kind", name_of(bucket.kind)},
                       {"title", printable(bucket.title)},
                       {"rule", printable(bucket.comment)},
                       {"take", take}});
  }
  session.say(
      std::to_string(suggestion.buckets.size()) + " buckets with " + std::to_string(claims) +
      " claims suggested" +
      (suggestion.mixed_atoms > 0 ? "; " + std::to_string(suggestion.mixed_atoms) +
                                        " atoms are mixed and cut into pieces: look at these first"
                                  : "") +
      (options.print || session.dry_run ? "" : "; next: edit the plan, then tessera-stack plan check"));
  session.answer(
      "suggest",
      {{"buckets", buckets}, {"mixed_atoms", suggestion.mixed_atoms}, {"notes", suggestion.notes}});
  return Exit::kTrue;
}

}  // namespace tessera::stack
