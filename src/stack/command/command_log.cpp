// log: operations so far. undo: the newest one back.
#include <nlohmann/json.hpp>

#include "stack/command/verbs.h"
#include "stack/compose/operation.h"
#include "stack/object/digest.h"

namespace tessera::stack {
namespace {

nlohmann::ordered_json operation_json(const Operation& operation) {
  nlohmann::ordered_json refs = nlohmann::ordered_json::array();
  for (const RefChange& change : operation.refs) {
    const auto text = [](const std::optional<Oid>& oid) {
      return oid ? nlohmann::ordered_json(to_hex(*oid)) : nlohmann::ordered_json(nullptr);
    };
    refs.push_back({{"ref", change.name}, {"before", text(change.expected)}, {"after", text(change.wanted)}});
  }
  return {{"number", operation.number},
          {"verb", operation.verb},
          {"when", operation.when},
          {"plan_changed", operation.plan_after.has_value()},
          {"refs", refs}};
}

}  // namespace

Result<Exit> run_log(const Session& session) {
  TS_TRY(const std::string path, session.plan_path());
  TS_TRY(const PlanFile file, load_plan(path));
  TS_TRY(const Repository repository, Repository::open(file.beside(file.plan.repository)));
  TS_TRY(const std::vector<Operation> operations, read_operations(repository, file.plan));
  std::vector<std::vector<std::string>> rows;
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (auto at = operations.rbegin(); at != operations.rend(); ++at) {
    rows.push_back({std::to_string(at->number), at->when, at->verb,
                    std::to_string(at->refs.size()) + " refs" + (at->plan_after ? ", plan" : "")});
    list.push_back(operation_json(*at));
  }
  if (!session.json && !session.quiet) session.out << table(rows);
  if (operations.empty()) session.say("no operations yet");
  session.answer("log", {{"operations", list}});
  return Exit::kTrue;
}

Result<Exit> run_undo(bool force, const Session& session) {
  TS_TRY(const std::string path, session.plan_path());
  TS_TRY(const PlanFile file, load_plan(path));
  TS_TRY(Repository repository, Repository::open(file.beside(file.plan.repository)));
  TS_TRY(const Operation undone, undo_operation(repository, file, force, session.dry_run));
  session.say((session.dry_run ? "would undo " : "undid ") + std::to_string(undone.number) + " (" +
              undone.verb + " of " + undone.when + "): " + std::to_string(undone.refs.size()) + " refs" +
              (undone.plan_before ? " and the plan are" : " are") + " as before");
  session.answer("undo", {{"undone", operation_json(undone)}});
  return Exit::kTrue;
}

}  // namespace tessera::stack
