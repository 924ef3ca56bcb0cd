// report, pr, export, show --patch: what goes to other people, and what came from them.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "stack/command/report_data.h"
#include "stack/command/verbs.h"
#include "stack/object/digest.h"
#include "stack/object/printable.h"
#include "stack/patch/examine.h"
#include "stack/publish/bundle.h"
#include "stack/publish/github.h"
#include "stack/publish/http.h"
#include "stack/publish/pull_request.h"
#include "stack/publish/series.h"

namespace tessera::stack {
namespace {

Result<void> write_file(const std::filesystem::path& path, std::string_view bytes) {
  std::error_code failed;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), failed);
  return save_text(path.string(), bytes);
}

}  // namespace

Result<Exit> run_report(const ReportOptions& options, const Session& session) {
  TS_TRY(const std::string path, session.plan_path());
  TS_TRY(const Workspace workspace, open_workspace(path));
  if (workspace.has_no_difference()) {
    // Nothing to compose, hence no integration to compare: one line says all.
    const Document document = report_document({.plan = workspace.plan().name});
    const std::string text = options.html ? to_html(document) : to_markdown(document);
    if (options.output.empty()) {
      if (!session.json) session.out << text;
    } else if (!session.dry_run) {
      TS_TRY(write_file(options.output, text));
    }
    session.answer("report", {{"verdict", "no difference"}, {"file", options.output}});
    return Exit::kTrue;
  }
  TS_TRY(const StackState state, open_state(session));
  TS_TRY(const Report report, collect_report(state));
  const Document document = report_document(report);
  const std::string text = options.html ? to_html(document) : to_markdown(document);
  if (options.output.empty()) {
    if (!session.json) session.out << text;
  } else if (!session.dry_run) {
    TS_TRY(write_file(options.output, text));
  }
  const std::string verdict = verdict_of(report);
  if (!options.output.empty()) session.say("wrote " + options.output + ": " + verdict);
  session.answer("report", {{"verdict", verdict}, {"file", options.output}});
  return state.verification.is_true({}) ? Exit::kTrue : Exit::kFalse;
}

Result<Exit> run_pull_requests(const PullRequestOptions& options, const Session& session) {
  TS_TRY(const StackState state, open_state(session));
  TS_TRY(const Report report, collect_report(state));
  const Plan& plan = state.workspace.plan();
  if (!options.bucket.empty() && !plan.find_bucket(options.bucket))
    return Error{ErrorKind::kNotFound, state.workspace.plan_name(),
                 "No bucket is called '" + options.bucket + "'."};
  std::string body_template;
  if (!plan.pr_template.empty()) {
    TS_TRY(body_template, load_text(state.workspace.file.beside(plan.pr_template)));
  }
  const PullRequestMode mode =
      options.mode == "cumulative" ? PullRequestMode::kCumulative : PullRequestMode::kIndependent;
  nlohmann::ordered_json texts = nlohmann::ordered_json::array();
  std::vector<std::vector<std::string>> rows;
  std::optional<GitHub> github;
  CurlClient client;
  if (options.send) {
    const std::size_t slash = options.to.find('/');
    if (slash == std::string::npos)
      return Error{ErrorKind::kInvalidArgument, "--to",
                   "The target repository reads OWNER/NAME, found '" + options.to + "'."};
    if (session.github_token.empty())
      return Error{ErrorKind::kInvalidArgument, "GITHUB_TOKEN",
                   "--send needs a token in the environment variable GITHUB_TOKEN."};
    GitHubOptions open{.token = session.github_token,
                       .owner = options.to.substr(0, slash),
                       .repository = options.to.substr(slash + 1),
                       .head_owner = options.fork,
                       .base = options.onto,
                       .wait = session.wait};
    if (!options.api.empty()) open.api = options.api;
    if (!session.quiet)
      open.log = [&session](const std::string& line) { session.err << printable(line) << '\n'; };
    TS_TRY(GitHub opened, GitHub::open(client, std::move(open)));
    github.emplace(std::move(opened));
  }
  for (const ReportBucket& bucket : report.buckets) {
    if (bucket.kind != "upstream" || (!options.bucket.empty() && bucket.name != options.bucket)) continue;
    const Bucket& planned = plan.buckets[static_cast<std::size_t>(*plan.find_bucket(bucket.name))];
    PullRequestInput input{
        .bucket = bucket,
        .topic_id = plan.name + "/" + bucket.name,
        .mode = mode,
        .title_tags = plan.title_tags,
        .body_template = body_template,
        .sign_off = plan.sign_off ? (planned.author.empty() ? plan.author : planned.author) : "",
        .co_authors = planned.co_authors};
    for (const ReportBucket& other : report.buckets) {
      if (other.kind == "upstream")
        input.stack.push_back({other.name, other.title, other.link, other.status, other.name == bucket.name});
    }
    for (const std::string& need : bucket.needs) {
      const auto below = std::ranges::find(report.buckets, need, &ReportBucket::name);
      if (below != report.buckets.end() && below->status != "merged") input.unmerged_needs.push_back(need);
    }
    for (std::size_t i = 0; i < plan.benchmarks.size(); ++i) {
      if (std::ranges::find(plan.benchmarks[i].about, bucket.name) == plan.benchmarks[i].about.end())
        continue;
      std::ranges::copy_if(report.benchmarks, std::back_inserter(input.benchmarks),
                           [&](const BenchRow& row) { return row.source == plan.benchmarks[i].file; });
    }
    input.touches_tests = std::ranges::any_of(
        bucket.files, [](const std::string& path) { return path.find("test") != std::string::npos; });
    for (const Edit& edit : plan.edits) {
      if (edit.bucket == bucket.name) input.edits.push_back(edit.path);
    }
    const PullRequestText text = write_pull_request(input);
    const std::filesystem::path file =
        std::filesystem::path(options.output.empty() ? state.workspace.file.beside("pr") : options.output) /
        (bucket.name + ".md");
    if (!session.dry_run) {
      TS_TRY(write_file(file, "# " + text.title + "\n\n" + text.body));
    }
    nlohmann::ordered_json entry{
        {"bucket", bucket.name}, {"title", text.title}, {"file", file.string()}, {"warnings", text.warnings}};
    std::string sent = input.unmerged_needs.empty() ? "ready" : "waits for " + input.unmerged_needs.front();
    const bool goes = github && !session.dry_run &&
                      (mode == PullRequestMode::kCumulative || input.unmerged_needs.empty()) &&
                      !bucket.commit.empty();
    if (goes) {
      TS_TRY(const SentDraft draft,
             github->send(
                 {.topic = input.topic_id, .branch = bucket.branch, .title = text.title, .body = text.body}));
      sent = std::string(name_of(draft.outcome)) + " " + draft.url;
      entry["sent"] = {{"outcome", name_of(draft.outcome)}, {"number", draft.number}, {"url", draft.url}};
      for (const std::string& warning : draft.warnings) session.warn(warning);
    }
    rows.push_back({bucket.name, sent, file.string()});
    for (const std::string& warning : text.warnings) rows.push_back({"", "note", warning});
    texts.push_back(std::move(entry));
  }
  if (!session.json && !session.quiet) session.out << table(rows);
  session.answer("pr", {{"pull_requests", texts}});
  return Exit::kTrue;
}

Result<Exit> run_export(const ExportOptions& options, const Session& session) {
  TS_TRY(const StackState state, open_state(session));
  const Repository& repository = state.workspace.repository;
  const Plan& plan = state.workspace.plan();
  if (!state.composition.integration)
    return Error{ErrorKind::kConflict, state.workspace.plan_name(),
                 "Topics conflict at the target, so there is no series to export."};
  if (options.format == "bundle") {
    std::vector<Ref> refs = repository.list_refs("refs/heads/" + plan.prefix + "/");
    if (refs.empty())
      return Error{ErrorKind::kNotFound, "refs/heads/" + plan.prefix,
                   "There are no branches to bundle; type tessera-stack split first."};
    TS_TRY(const std::string bytes, make_bundle(repository, refs, {state.workspace.target.id}));
    const std::string file = options.output.empty() ? plan.name + ".bundle" : options.output;
    if (!session.dry_run) {
      TS_TRY(write_file(file, bytes));
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
      TS_TRY(write_file(folder / name, bytes));
    }
    names.push_back((folder / name).string());
  }
  session.say("wrote " + std::to_string(files.size()) + " files to " + folder.string());
  session.answer("export", {{"format", options.format}, {"files", names}});
  return Exit::kTrue;
}

Result<Exit> run_show_patches(const std::vector<std::string>& patches, const Session& session) {
  TS_TRY(const std::string path, session.plan_path());
  TS_TRY(const Workspace workspace, open_workspace(path));
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
