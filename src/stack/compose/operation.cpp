#include "stack/compose/operation.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "stack/compose/workspace.h"
#include "stack/object/digest.h"
#include "stack/object/next_command.h"

namespace tessera::stack {
namespace {

using Json = nlohmann::ordered_json;

std::string short_ref(const std::string& ref) { return ref.starts_with("refs/") ? ref.substr(5) : ref; }
std::string undo_ref(const Plan& plan, std::int32_t number, const std::string& what) {
  char digits[16];
  std::snprintf(digits, sizeof digits, "%06d", number);  // so that refs sort as numbers
  return state_ref(plan, "undo/") + digits + "/" + what;
}
// Where our last run left a branch.
std::string composed_ref(const Plan& plan, const std::string& ref) {
  return state_ref(plan, "composed/") + short_ref(ref);
}

Json to_json(const std::optional<Oid>& oid) { return oid ? Json(to_hex(*oid)) : Json(nullptr); }
std::optional<Oid> oid_from(const Json& json) {
  return json.is_string() ? oid_from_hex(json.get<std::string>()) : std::nullopt;
}

std::string written(const Operation& operation) {
  Json refs = Json::array();
  for (const RefChange& change : operation.refs) {
    refs.push_back(
        {{"ref", change.name}, {"before", to_json(change.expected)}, {"after", to_json(change.wanted)}});
  }
  return Json{{"format", 1},
              {"verb", operation.verb},
              {"when", operation.when},
              {"refs", refs},
              {"plan_before", to_json(operation.plan_before)},
              {"plan_after", to_json(operation.plan_after)}}
      .dump(1);
}

Result<Operation> parse(const std::string& bytes, std::int32_t number) {
  const Json json = Json::parse(bytes, nullptr, false);
  const Error bad{ErrorKind::kCorrupt, "operation " + std::to_string(number),
                  "Its record cannot be read; somebody changed refs/tessera-stack by hand."};
  if (!json.is_object() || !json.contains("refs") || !json["refs"].is_array()) return bad;
  Operation operation{.number = number,
                      .verb = json.value("verb", ""),
                      .when = json.value("when", ""),
                      .refs = {},
                      .plan_before = {},
                      .plan_after = {}};
  for (const Json& ref : json["refs"]) {
    if (!ref.is_object() || !ref.contains("ref") || !ref["ref"].is_string()) return bad;
    operation.refs.push_back({ref["ref"].get<std::string>(), oid_from(ref.value("before", Json())),
                              oid_from(ref.value("after", Json()))});
  }
  operation.plan_before = oid_from(json.value("plan_before", Json()));
  operation.plan_after = oid_from(json.value("plan_after", Json()));
  return operation;
}

}  // namespace

std::string_view name_of(Outcome outcome) {
  switch (outcome) {
    case Outcome::kNew:
      return "new";
    case Outcome::kModified:
      return "modified";
    case Outcome::kUnmodified:
      return "unmodified";
    case Outcome::kDeleted:
      return "deleted";
    case Outcome::kEmpty:
      return "empty";
    case Outcome::kConflict:
      return "conflict";
  }
  return "unknown";
}

Result<std::vector<Operation>> read_operations(const Repository& repository, const Plan& plan) {
  std::vector<Operation> operations;
  const std::string prefix = state_ref(plan, "undo/");
  for (const Ref& ref : repository.list_refs(prefix)) {
    if (!ref.name.ends_with("/op")) continue;
    const std::int32_t number = std::atoi(ref.name.substr(prefix.size()).c_str());
    TS_TRY(const std::string bytes, repository.read(ref.id));
    TS_TRY(Operation operation, parse(bytes, number));
    operations.push_back(std::move(operation));
  }
  return operations;
}

Result<std::vector<RefUpdate>> run_operation(
    Repository& repository, const PlanFile& file,
    const std::vector<std::pair<std::string, std::optional<Oid>>>& wanted, const RunOptions& options) {
  const Plan& plan = file.plan;
  std::vector<RefUpdate> updates;
  Operation operation{.number = 1,
                      .verb = options.verb,
                      .when = options.when,
                      .refs = {},
                      .plan_before = {},
                      .plan_after = {}};
  std::vector<RefChange> changes;
  const std::optional<std::string> checked_out = repository.head_branch();
  for (const auto& [ref, after] : wanted) {
    const std::optional<Oid> before = repository.read_ref(ref);
    RefUpdate update{ref, before, after, Outcome::kUnmodified};
    const std::string ours = composed_ref(plan, ref);
    const std::optional<Oid> last = repository.read_ref(ours);
    if (before != after) {
      update.outcome = !before ? Outcome::kNew : after ? Outcome::kModified : Outcome::kDeleted;
      if (before && before != last && !options.force) {
        return Error{ErrorKind::kConflict, ref,
                     last ? with_next("This branch is at " + to_hex(*before).substr(0, 12) +
                                          ", and our last run left it at " + to_hex(*last).substr(0, 12) +
                                          ". No ref was changed. --force overwrites what was done there, "
                                          "absorb takes it in",
                                      "tessera-stack absorb")
                          : with_next("This branch is at " + to_hex(*before).substr(0, 12) +
                                          " and is not ours. No ref was changed. --force overwrites it, "
                                          "another prefix under [branches] leaves it alone",
                                      repository.git() + " log -3 " + shell_quoted(ref))};
      }
      if (checked_out == ref) {
        return Error{ErrorKind::kConflict, ref,
                     with_next("This branch is checked out, and moving it would leave the working folder "
                               "behind. No ref was changed",
                               repository.git() + " switch --detach")};
      }
      changes.push_back({ref, before, after});
      operation.refs.push_back({ref, before, after});
    }
    if (last != after) changes.push_back({ours, last, after});
    updates.push_back(std::move(update));
  }
  for (const auto& [ref, after] : options.state) {
    const std::optional<Oid> before = repository.read_ref(ref);
    if (before == after) continue;
    changes.push_back({ref, before, after});
    operation.refs.push_back({ref, before, after});
  }
  const bool plan_changes = options.plan_text && *options.plan_text != file.text;
  if (options.dry_run || (changes.empty() && !plan_changes)) return updates;

  TS_TRY(const std::vector<Operation> earlier, read_operations(repository, plan));
  if (!earlier.empty()) operation.number = earlier.back().number + 1;
  if (plan_changes) {
    TS_TRY(operation.plan_before, repository.write(file.text));
    TS_TRY(operation.plan_after, repository.write(*options.plan_text));
    changes.push_back({undo_ref(plan, operation.number, "plan-before"), std::nullopt, operation.plan_before});
    changes.push_back({undo_ref(plan, operation.number, "plan-after"), std::nullopt, operation.plan_after});
  }
  if (!operation.refs.empty() || plan_changes) {
    TS_TRY(const Oid record, repository.write(written(operation)));
    changes.push_back({undo_ref(plan, operation.number, "op"), std::nullopt, record});
    for (const RefChange& change : operation.refs) {
      // Old values stay reachable, so that git's clean-up cannot take away what undo needs.
      if (change.expected)
        changes.push_back(
            {undo_ref(plan, operation.number, short_ref(change.name)), std::nullopt, change.expected});
    }
  }
  TS_TRY(repository.change_refs(changes));
  if (plan_changes) {
    if (const auto saved = save_text(file.path, *options.plan_text); !saved) {
      for (RefChange& change : changes) std::swap(change.expected, change.wanted);
      TS_TRY(repository.change_refs(changes));
      return saved.error();
    }
  }
  return updates;
}

Result<Operation> undo_operation(Repository& repository, const PlanFile& file, bool force, bool dry_run) {
  TS_TRY(const std::vector<Operation> operations, read_operations(repository, file.plan));
  if (operations.empty())
    return Error{ErrorKind::kNotFound, file.plan.name,
                 with_next("There is nothing to undo", "tessera-stack log")};
  const Operation& last = operations.back();
  std::vector<RefChange> changes;
  const std::optional<std::string> checked_out = repository.head_branch();
  for (const RefChange& change : last.refs) {
    const std::optional<Oid> now = repository.read_ref(change.name);
    if (now != change.wanted && !force) {
      return Error{ErrorKind::kConflict, change.name,
                   with_next("This ref was moved after operation " + std::to_string(last.number) + " (" +
                                 last.verb + "); undoing would lose that. No ref was changed",
                             "tessera-stack undo --force")};
    }
    if (checked_out == change.name) {
      return Error{
          ErrorKind::kConflict, change.name,
          with_next("This branch is checked out. No ref was changed", repository.git() + " switch --detach")};
    }
    changes.push_back({change.name, now, change.expected});
    if (change.name.starts_with("refs/tessera-stack/")) continue;
    const std::string ours = composed_ref(file.plan, change.name);
    changes.push_back({ours, repository.read_ref(ours), change.expected});
  }
  if (last.plan_after) {
    TS_TRY(const std::string after, repository.read(*last.plan_after));
    if (after != file.text && !force) {
      return Error{ErrorKind::kConflict, file.path,
                   with_next("The plan was edited after operation " + std::to_string(last.number) + " (" +
                                 last.verb + "); undoing would lose that. No ref was changed",
                             "tessera-stack undo --force")};
    }
  }
  char digits[16];
  std::snprintf(digits, sizeof digits, "%06d", last.number);
  for (const Ref& ref : repository.list_refs(state_ref(file.plan, "undo/") + digits + "/"))
    changes.push_back({ref.name, ref.id, std::nullopt});
  if (dry_run) return last;
  std::optional<std::string> plan_text;
  if (last.plan_before) {
    TS_TRY(plan_text, repository.read(*last.plan_before));
  }
  TS_TRY(repository.change_refs(changes));
  if (plan_text) {
    TS_TRY(save_text(file.path, *plan_text));
  }
  return last;
}

}  // namespace tessera::stack
