// report, export, show --patch: what goes to other people, and what came from them.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "stack/command/report_data.h"
#include "stack/command/verbs.h"
#include "stack/object/digest.h"
#include "stack/object/next_command.h"
#include "stack/object/printable.h"
#include "stack/patch/examine.h"
#include "stack/publish/bundle.h"
#include "stack/publish/series.h"

namespace tessera::stack {
Result<Exit> run_report(const ReportOptions& options, const Session& session) {
  TS_TRY(const std::string path, session.plan_path());
  TS_TRY(const Workspace workspace, open_workspace(path, session.progress()));
  if (workspace.has_no_difference()) {
    // Nothing to compose, hence no integration to compare: one line says all.
    const Document document = report_document({.plan = workspace.plan().name});
    const std::string text = options.html ? to_html(document) : to_markdown(document);
    if (options.output.empty()) {
      if (!session.json) session.out << text;
    } else if (!session.dry_run) {
      TS_TRY(save_below(options.output, text));
    }
    session.answer("report", {{"verdict", "no difference"}, {"file", options.output}});
    return Exit::kTrue;
  }
  TS_TRY(const StackState state, open_state(session));
  TS_TRY(const Report report, collect_report(state, options.check));
  const Document document = report_document(report);
  const std::string text = options.html ? to_html(document) : to_markdown(document);
  if (options.output.empty()) {
    if (!session.json) session.out << text;
  } else if (!session.dry_run) {
    TS_TRY(save_below(options.output, text));
  }
  const std::string verdict = verdict_of(report);
  if (!options.output.empty()) session.say("wrote " + options.output + ": " + verdict);
  session.answer("report", {{"verdict", verdict}, {"file", options.output}});
  return state.verification.is_true({}) ? Exit::kTrue : Exit::kFalse;
}

Result<Exit> run_export(const ExportOptions& options, const Session& session) {
  TS_TRY(const StackState state, open_state(session));
  const Repository& repository = state.workspace.repository;
  const Plan& plan = state.workspace.plan();
  if (!state.composition.integration)
    return Error{ErrorKind::kConflict, state.workspace.plan_name(),
                 with_next("Topics conflict at the target, so there is no series to export",
                           "tessera-stack rebase --onto " + plan.target.substr(0, 12))};
  if (options.format == "bundle") {
    std::vector<Ref> refs = repository.list_refs("refs/heads/" + plan.prefix + "/");
    if (refs.empty())
      return Error{ErrorKind::kNotFound, "refs/heads/" + plan.prefix,
                   with_next("There are no branches to bundle", "tessera-stack split")};
    TS_TRY(const std::string bytes, make_bundle(repository, refs, {state.workspace.target.id}));
    const std::string file = options.output.empty() ? plan.name + ".bundle" : options.output;
    if (!session.dry_run) {
      TS_TRY(save_below(file, bytes));
    }
    session.say("wrote " + file + ": " + std::to_string(refs.size()) + " branches");
    session.answer("export", {{"format", "bundle"}, {"files", {file}}});
    return Exit::kTrue;
  }
  TS_TRY(const std::vector<SeriesPatch> series,
         read_series(repository, state.workspace.target.id, *state.composition.integration));
  std::map<std::string, std::string> files;
  if (options.format == "quilt") {
    std::map<std::string, QuiltHeader> headers;
    for (const Bucket& bucket : plan.buckets) {
      headers[bucket.name] = {.description = bucket.title.empty() ? bucket.name : bucket.title,
                              .forwarded = bucket.kind == BucketKind::kLocal ? "not-needed"
                                           : bucket.link.empty()             ? "no"
                                                                             : bucket.link};
    }
    TS_TRY(files, quilt_series(repository, series, headers));
  } else {
    TS_TRY(files, mail_series(repository, series));
  }
  const std::filesystem::path folder = options.output.empty() ? "patches" : options.output;
  nlohmann::ordered_json names = nlohmann::ordered_json::array();
  for (const auto& [name, bytes] : files) {
    if (!session.dry_run) {
      TS_TRY(save_below(folder / name, bytes));
    }
    names.push_back((folder / name).string());
  }
  session.say("wrote " + std::to_string(files.size()) + " files to " + folder.string());
  session.answer("export", {{"format", options.format}, {"files", names}});
  return Exit::kTrue;
}

Result<Exit> run_show_patches(const std::vector<std::string>& patches, const Session& session) {
  TS_TRY(const std::string path, session.plan_path());
  TS_TRY(const Workspace workspace, open_workspace(path, session.progress()));
  std::vector<NamedText> texts;
  for (const std::string& file : patches) {
    TS_TRY(std::string text, load_text(file));
    texts.push_back({file, std::move(text)});
  }
  const std::vector<PatchFinding> findings = examine_patches(
      texts,
      {.tree = workspace.ruled.tree, .blobs = workspace.repository, .other_trees = {&workspace.base_tree}});
  bool all_known = true;
  nlohmann::ordered_json out = nlohmann::ordered_json::array();
  for (const PatchFinding& finding : findings) {
    session.say(describe(finding));
    nlohmann::ordered_json files = nlohmann::ordered_json::array();
    for (const FileFinding& file : finding.files) {
      nlohmann::ordered_json entry;
      put_path(entry, file.path);
      entry["verdict"] = name_of(file.verdict);
      files.push_back(entry);
      all_known &= file.verdict == PatchVerdict::kFits || file.verdict == PatchVerdict::kFitsMoved ||
                   file.verdict == PatchVerdict::kAlreadyThere;
    }
    all_known &= finding.unreadable.empty();
    out.push_back({{"patch", printable(finding.name)},
                   {"unreadable", finding.unreadable},
                   {"files", files},
                   {"warnings", finding.warnings}});
  }
  const std::vector<std::string> notes = compare_findings(findings);
  for (const std::string& note : notes) session.say(note);
  session.answer("show", {{"patches", out}, {"notes", notes}});
  return all_known ? Exit::kTrue : Exit::kFalse;
}

}  // namespace tessera::stack
