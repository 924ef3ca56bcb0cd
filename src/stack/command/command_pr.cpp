// pr: the text of one pull request for each upstream topic, or of one for all of them; with --send, the
// drafts.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "stack/command/report_data.h"
#include "stack/command/verbs.h"
#include "stack/compose/operation.h"
#include "stack/object/digest.h"
#include "stack/object/printable.h"
#include "stack/publish/github.h"
#include "stack/publish/http.h"
#include "stack/publish/pull_request.h"

namespace tessera::stack {
namespace {

// "OWNER/NAME" cut in two.
Result<std::pair<std::string, std::string>> parse_repository(const std::string& to) {
  const std::size_t slash = to.find('/');
  if (slash == std::string::npos || slash == 0 || slash + 1 == to.size()) {
    return Error{ErrorKind::kInvalidArgument, "--to",
                 "The target repository reads OWNER/NAME, found '" + to + "'."};
  }
  return std::pair(to.substr(0, slash), to.substr(slash + 1));
}

class PullRequests {
 public:
  PullRequests(const PullRequestOptions& options, const Session& session, StackState& state, Report report)
      : options_(options),
        session_(session),
        state_(state),
        plan_(state.workspace.plan()),
        report_(std::move(report)) {}

  Result<Exit> run() {
    if (!options_.bucket.empty() && !plan_.find_bucket(options_.bucket))
      return Error{ErrorKind::kNotFound, state_.workspace.plan_name(),
                   "No bucket is called '" + options_.bucket + "'."};
    if (!plan_.pr_template.empty()) {
      TS_TRY(body_template_, load_text(state_.workspace.file.beside(plan_.pr_template)));
    }
    if (options_.send) {
      TS_TRY(connect());
    }
    if (options_.mode == "consolidated") {
      TS_TRY(write_consolidated());
    } else {
      TS_TRY(write_each());
    }
    if (!session_.json && !session_.quiet) session_.out << table(rows_);
    if (!branches_.empty() && !options_.send) {
      std::string names;
      for (const std::string& branch : branches_) names += " " + printable(branch);
      session_.say("before --send: git push <your fork>" + names);
    }
    session_.answer("pr", {{"pull_requests", texts_}});
    return Exit::kTrue;
  }

 private:
  Result<void> connect() {
    TS_TRY(const auto to, parse_repository(options_.to));
    if (session_.github_token.empty())
      return Error{ErrorKind::kInvalidArgument, "GITHUB_TOKEN",
                   "--send needs a token in the environment variable GITHUB_TOKEN."};
    GitHubOptions open{.token = session_.github_token,
                       .owner = to.first,
                       .repository = to.second,
                       .head_owner = options_.fork,
                       .base = options_.onto,
                       .wait = session_.wait};
    if (!options_.api.empty()) open.api = options_.api;
    if (!session_.quiet)
      open.log = [this](const std::string& line) { session_.err << printable(line) << '\n'; };
    TS_TRY(GitHub opened, GitHub::open(client_, std::move(open)));
    github_.emplace(std::move(opened));
    return {};
  }

  const Bucket& planned(const ReportBucket& bucket) const {
    return plan_.buckets[static_cast<std::size_t>(*plan_.find_bucket(bucket.name))];
  }

  // What a topic brings into a pull request, alone or with others.
  void add_parts(const ReportBucket& bucket, PullRequestInput& input) const {
    for (const std::string& author : planned(bucket).co_authors) {
      if (std::ranges::find(input.co_authors, author) == input.co_authors.end())
        input.co_authors.push_back(author);
    }
    for (const Benchmark& benchmark : plan_.benchmarks) {
      if (std::ranges::find(benchmark.about, bucket.name) == benchmark.about.end()) continue;
      for (const BenchRow& row : report_.benchmarks) {
        if (row.source == benchmark.file) input.benchmarks.push_back(row);
      }
    }
    input.touches_tests |= std::ranges::any_of(
        bucket.files, [](const std::string& path) { return path.find("test") != std::string::npos; });
    for (const Edit& edit : plan_.edits) {
      if (edit.bucket == bucket.name) input.edits.push_back(edit.path);
    }
  }

  std::vector<StackRow> stack_of(const std::string& bucket) const {
    std::vector<StackRow> rows;
    for (const ReportBucket& other : report_.buckets) {
      if (other.kind == "upstream")
        rows.push_back({other.name, other.title, other.link, other.status, other.name == bucket});
    }
    return rows;
  }

  PullRequestInput input_for(ReportBucket bucket, PullRequestMode mode, const std::string& author) const {
    const std::string name = bucket.name;
    return {.bucket = std::move(bucket),
            .topic_id = plan_.name + "/" + name,
            .mode = mode,
            .stack = stack_of(name),
            .title_tags = plan_.title_tags,
            .body_template = body_template_,
            .sign_off = plan_.sign_off ? (author.empty() ? plan_.author : author) : ""};
  }

  Result<void> write_each() {
    const PullRequestMode mode =
        options_.mode == "cumulative" ? PullRequestMode::kCumulative : PullRequestMode::kIndependent;
    for (const ReportBucket& bucket : report_.buckets) {
      if (bucket.kind != "upstream" || (!options_.bucket.empty() && bucket.name != options_.bucket)) continue;
      PullRequestInput input = input_for(bucket, mode, planned(bucket).author);
      for (const std::string& need : bucket.needs) {
        const auto below = std::ranges::find(report_.buckets, need, &ReportBucket::name);
        if (below != report_.buckets.end() && below->status != "merged") input.unmerged_needs.push_back(need);
      }
      add_parts(bucket, input);
      input.compare_link = last_commit_link(bucket.name);
      const bool waits = mode == PullRequestMode::kIndependent && !input.unmerged_needs.empty();
      TS_TRY(write(input, waits ? "waits for " + input.unmerged_needs.front() : ""));
    }
    return {};
  }

  // A topic's own commit in the fork, without those below it.
  std::string last_commit_link(const std::string& bucket) const {
    const auto to = parse_repository(options_.to);
    if (!to || options_.fork.empty()) return {};
    for (const Topic& topic : state_.composition.topics) {
      if (plan_.buckets[static_cast<std::size_t>(topic.bucket)].name != bucket) continue;
      return "https://github.com/" + options_.fork + "/" + to->second + "/compare/" + to_hex(topic.parent) +
             "..." + to_hex(topic.commit);
    }
    return {};
  }

  Result<void> write_consolidated() {
    if (!options_.bucket.empty())
      return Error{ErrorKind::kInvalidArgument, "--bucket",
                   "A consolidated pull request holds all upstream topics; leave --bucket out."};
    TS_TRY(const TopicLine line,
           consolidate_topics(state_.workspace, state_.graph, state_.ground, state_.composition));
    if (line.buckets.empty())
      return Error{ErrorKind::kNotFound, state_.workspace.plan_name(),
                   "No upstream topic changes anything at the target, so there is nothing to consolidate."};
    TS_TRY(run_operation(state_.workspace.repository, state_.workspace.file, {{line.ref, line.commit}},
                         {.verb = "pr",
                          .when = session_.now(),
                          .force = options_.force,
                          .dry_run = session_.dry_run,
                          .plan_text = {}}));
    ReportBucket all{.name = std::string(kConsolidatedBranch),
                     .kind = "upstream",
                     .title = options_.title,
                     .branch = line.ref.substr(11),
                     .commit = to_hex(line.commit)};
    if (all.title.empty())
      all.title = plan_.name + ": " + std::to_string(line.buckets.size()) + " topics in one";
    PullRequestInput parts;
    std::set<std::string> commands;
    std::set<std::string> files;
    for (const std::int32_t at : line.buckets) {
      const std::string& name = plan_.buckets[static_cast<std::size_t>(at)].name;
      const ReportBucket& bucket = *std::ranges::find(report_.buckets, name, &ReportBucket::name);
      all.why += (all.why.empty() ? "- " : "\n- ") + (bucket.title.empty() ? name : bucket.title) +
                 (bucket.why.empty() ? "" : ": " + bucket.why);
      all.counted_lines += bucket.counted_lines;
      all.line_limit = bucket.line_limit;
      for (const ReportCheck& check : bucket.checks) {
        if (commands.insert(check.command).second || check.has_failed()) all.checks.push_back(check);
      }
      files.insert(bucket.files.begin(), bucket.files.end());
      add_parts(bucket, parts);
    }
    all.files.assign(files.begin(), files.end());
    PullRequestInput input = input_for(std::move(all), PullRequestMode::kConsolidated, "");
    input.co_authors = std::move(parts.co_authors);
    input.benchmarks = std::move(parts.benchmarks);
    input.touches_tests = parts.touches_tests;
    input.edits = std::move(parts.edits);
    return write(input, "");
  }

  // `waiting`: why it is not sent yet; empty: it can go.
  Result<void> write(const PullRequestInput& input, const std::string& waiting) {
    const ReportBucket& bucket = input.bucket;
    const PullRequestText text = write_pull_request(input);
    const std::filesystem::path file =
        std::filesystem::path(options_.output.empty() ? state_.workspace.file.beside("pr")
                                                      : options_.output) /
        (bucket.name + ".md");
    if (!session_.dry_run) {
      TS_TRY(save_below(file, "# " + text.title + "\n\n" + text.body));
    }
    nlohmann::ordered_json entry{
        {"bucket", bucket.name}, {"title", text.title}, {"file", file.string()}, {"warnings", text.warnings}};
    std::string outcome = waiting.empty() ? "ready" : waiting;
    if (waiting.empty() && !bucket.commit.empty()) {
      branches_.push_back(bucket.branch);
      if (github_ && !session_.dry_run) {
        TS_TRY(
            const SentDraft draft,
            github_->send(
                {.topic = input.topic_id, .branch = bucket.branch, .title = text.title, .body = text.body}));
        outcome = std::string(name_of(draft.outcome)) + " " + draft.url;
        entry["sent"] = {{"outcome", name_of(draft.outcome)}, {"number", draft.number}, {"url", draft.url}};
        for (const std::string& warning : draft.warnings) session_.warn(warning);
      }
    }
    rows_.push_back({bucket.name, outcome, file.string()});
    for (const std::string& warning : text.warnings) rows_.push_back({"", "note", warning});
    texts_.push_back(std::move(entry));
    return {};
  }

  const PullRequestOptions& options_;
  const Session& session_;
  StackState& state_;
  const Plan& plan_;
  const Report report_;
  std::string body_template_;
  CurlClient client_;
  std::optional<GitHub> github_;
  std::vector<std::string> branches_;  // that have to be in the fork
  std::vector<std::vector<std::string>> rows_;
  nlohmann::ordered_json texts_ = nlohmann::ordered_json::array();
};

}  // namespace

Result<Exit> run_pull_requests(const PullRequestOptions& options, const Session& session) {
  TS_TRY(StackState state, open_state(session));
  TS_TRY(Report report, collect_report(state, options.check));
  return PullRequests(options, session, state, std::move(report)).run();
}

}  // namespace tessera::stack
