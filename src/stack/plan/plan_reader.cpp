#include "stack/plan/plan_reader.h"

#include "stack/atom/glob.h"
#include "stack/object/digest.h"
#include "stack/plan/bucket_reader.h"
#include "stack/plan/toml_table.h"

namespace tessera::stack {
namespace {

constexpr std::size_t kLargestPlan = std::size_t{16} << 20;  // bytes

// An error that names the plan's line before what it is about.
Result<void> placed(const TomlTable& table, Result<void> checked) {
  if (checked) return {};
  Error error = std::move(checked).error();
  error.where = table.where() + ": " + error.where;
  return error;
}

Result<void> required_glob(TomlTable& table, const std::string& key, std::string& out) {
  TS_TRY(table.required_text(key, out));
  return placed(table, check_glob(out));
}

Result<void> read_oid(TomlTable& table, const std::string& key, std::string& out) {
  TS_TRY(table.text(key, out));
  if (!out.empty() && !oid_from_hex(out)) {
    return table.error(*table.get(key),
                       "'" + key + "' must be a full commit id of 40 hex digits, found '" + out + "'.");
  }
  return {};
}

Result<void> read_date(TomlTable& table, std::int64_t& out) {
  const toml::node* node = table.get("date");
  if (node == nullptr) return {};
  const auto* value = node->as_date_time();
  if (value == nullptr || !value->get().offset) {
    return table.error(*node, "'date' must be a date and time with an offset, such as 2026-05-12T00:00:00Z.");
  }
  const toml::date_time& at = value->get();
  // Days since 1970 by the civil calendar (Howard Hinnant's formula, with years that begin in March).
  const std::int64_t year = at.date.year - (at.date.month <= 2 ? 1 : 0);
  const std::int64_t era = (year >= 0 ? year : year - 399) / 400;
  const std::int64_t in_era = year - era * 400;
  const std::int64_t day = (153 * (at.date.month + (at.date.month > 2 ? -3 : 9)) + 2) / 5 + at.date.day - 1;
  const std::int64_t days = era * 146097 + in_era * 365 + in_era / 4 - in_era / 100 + day - 719468;
  out = days * 86400 + at.time.hour * 3600 + at.time.minute * 60 + at.time.second - at.offset->minutes * 60;
  return {};
}

Result<void> read_inputs(TomlTable& root, Plan& plan) {
  TS_TRY(std::optional<TomlTable> base, root.table("base"));
  if (!base)
    return Error{ErrorKind::kInvalidArgument, root.where(), "The plan needs a [base] with repo and commit."};
  TS_TRY(base->required_text("repo", plan.repository));
  TS_TRY(read_oid(*base, "commit", plan.base));
  TS_TRY(read_oid(*base, "target", plan.target));
  if (plan.base.empty())
    return Error{ErrorKind::kInvalidArgument, base->where(), "[base] needs a 'commit' with its full id."};
  if (plan.target.empty()) plan.target = plan.base;
  TS_TRY(base->refuse_unknown());

  TS_TRY(std::optional<TomlTable> tree, root.table("tree"));
  if (!tree)
    return Error{ErrorKind::kInvalidArgument, root.where(), "The plan needs a [tree] with a source."};
  TS_TRY(tree->required_text("source", plan.source));
  TS_TRY(tree->text("digest", plan.digest));
  TS_TRY(tree->text("image", plan.image));
  TS_TRY(tree->text("listing", plan.listing));
  TS_TRY(std::optional<TomlTable> diff, tree->table("diff"));
  if (diff) {
    std::string algorithm = "myers";
    TS_TRY(diff->text("algorithm", algorithm));
    if (algorithm == "myers")
      plan.algorithm = DiffAlgorithm::kMyers;
    else if (algorithm == "minimal")
      plan.algorithm = DiffAlgorithm::kMinimal;
    else if (algorithm == "patience")
      plan.algorithm = DiffAlgorithm::kPatience;
    else
      return diff->error(*diff->get("algorithm"),
                         "'algorithm' is myers, minimal or patience, found '" + algorithm + "'.");
    TS_TRY(diff->number("rename_view", plan.rename_view));
    TS_TRY(diff->refuse_unknown());
  }
  return tree->refuse_unknown();
}

Result<void> read_style(TomlTable& root, Plan& plan) {
  TS_TRY(std::optional<TomlTable> branches, root.table("branches"));
  if (branches) {
    TS_TRY(branches->text("prefix", plan.prefix));
    std::string shape = "merges";
    TS_TRY(branches->text("shape", shape));
    if (shape != "merges" && shape != "linear") {
      return branches->error(*branches->get("shape"), "'shape' is merges or linear, found '" + shape + "'.");
    }
    plan.shape = shape == "linear" ? BranchShape::kLinear : BranchShape::kMerges;
    TS_TRY(branches->flag("linearise", plan.linearise));
    TS_TRY(branches->text("author", plan.author));
    TS_TRY(read_date(*branches, plan.date));
    TS_TRY(branches->refuse_unknown());
  }
  if (plan.prefix.empty()) plan.prefix = "tessera/" + plan.name;
  TS_TRY(std::optional<TomlTable> style, root.table("style"));
  if (!style) return {};
  TS_TRY(style->texts("title_tags", plan.title_tags));
  TS_TRY(style->flag("sign_off", plan.sign_off));
  TS_TRY(style->text("template", plan.pr_template));
  TS_TRY(std::optional<TomlTable> limit, style->table("max_lines"));
  if (limit) {
    TS_TRY(limit->number("limit", plan.max_lines));
    TS_TRY(limit->texts("exclude", plan.max_lines_exclude));
    for (const std::string& glob : plan.max_lines_exclude) {
      TS_TRY(placed(*limit, check_glob(glob)));
    }
    TS_TRY(limit->refuse_unknown());
  }
  return style->refuse_unknown();
}

Result<void> read_lists(TomlTable& root, Plan& plan) {
  TS_TRY(std::vector<TomlTable> ignores, root.tables("ignore"));
  for (TomlTable& table : ignores) {
    IgnoreRule rule{.glob = {}, .reason = {}, .line = table.line()};
    TS_TRY(required_glob(table, "glob", rule.glob));
    TS_TRY(table.text("reason", rule.reason));
    TS_TRY(table.flag("even_if_changed", rule.even_if_changed));
    TS_TRY(table.refuse_unknown());
    plan.ignore.push_back(std::move(rule));
  }
  TS_TRY(std::vector<TomlTable> subsets, root.tables("subset"));
  for (TomlTable& table : subsets) {
    SubsetRule rule{.keep = {}, .reason = {}, .line = table.line()};
    TS_TRY(required_glob(table, "keep", rule.keep));
    TS_TRY(table.text("reason", rule.reason));
    TS_TRY(table.refuse_unknown());
    plan.subset.push_back(std::move(rule));
  }
  TS_TRY(std::vector<TomlTable> edits, root.tables("edit"));
  for (TomlTable& table : edits) {
    Edit edit{.bucket = {}, .path = {}, .covers = {}, .file = {}, .why = {}, .line = table.line()};
    TS_TRY(table.required_text("bucket", edit.bucket));
    TS_TRY(table.required_text("path", edit.path));
    TS_TRY(table.texts("covers", edit.covers));
    TS_TRY(table.required_text("file", edit.file));
    TS_TRY(table.text("why", edit.why));
    TS_TRY(table.refuse_unknown());
    plan.edits.push_back(std::move(edit));
  }
  TS_TRY(std::vector<TomlTable> resolutions, root.tables("resolution"));
  for (TomlTable& table : resolutions) {
    Resolution resolution{.conflict = {}, .file = {}, .line = table.line()};
    TS_TRY(table.required_text("conflict", resolution.conflict));
    TS_TRY(table.required_text("file", resolution.file));
    TS_TRY(table.refuse_unknown());
    plan.resolutions.push_back(std::move(resolution));
  }
  TS_TRY(std::vector<TomlTable> expects, root.tables("expect"));
  for (TomlTable& table : expects) {
    Expect expect{
        .path = {}, .has = {}, .lacks = {}, .sha256 = {}, .exists = {}, .why = {}, .line = table.line()};
    bool exists = false;
    bool absent = false;
    TS_TRY(table.required_text("path", expect.path));
    TS_TRY(table.text("has", expect.has));
    TS_TRY(table.text("lacks", expect.lacks));
    TS_TRY(table.text("sha256", expect.sha256));
    TS_TRY(table.flag("exists", exists));
    TS_TRY(table.flag("absent", absent));
    if (exists) expect.exists = true;
    if (absent) expect.exists = false;
    TS_TRY(table.text("why", expect.why));
    TS_TRY(table.refuse_unknown());
    if (expect.has.empty() && expect.lacks.empty() && expect.sha256.empty() && !expect.exists) {
      return Error{ErrorKind::kInvalidArgument, table.where(),
                   "[[expect]] needs one of has, lacks, sha256, exists and absent."};
    }
    plan.expects.push_back(std::move(expect));
  }
  TS_TRY(std::vector<TomlTable> ahead, root.tables("ahead"));
  for (TomlTable& table : ahead) {
    Ahead commit{.bucket = {}, .commit = {}, .why = {}, .line = table.line()};
    TS_TRY(table.required_text("bucket", commit.bucket));
    TS_TRY(table.required_text("commit", commit.commit));
    TS_TRY(read_oid(table, "commit", commit.commit));
    TS_TRY(table.text("why", commit.why));
    TS_TRY(table.refuse_unknown());
    plan.ahead.push_back(std::move(commit));
  }
  TS_TRY(std::vector<TomlTable> benchmarks, root.tables("benchmark"));
  for (TomlTable& table : benchmarks) {
    Benchmark benchmark{.file = {}, .about = {}, .image = {}, .line = table.line()};
    TS_TRY(table.required_text("file", benchmark.file));
    TS_TRY(table.texts("about", benchmark.about));
    TS_TRY(table.text("image", benchmark.image));
    TS_TRY(table.refuse_unknown());
    plan.benchmarks.push_back(std::move(benchmark));
  }
  TS_TRY(std::vector<TomlTable> decisions, root.tables("decision"));
  for (TomlTable& table : decisions) {
    Decision decision{.ask = {}, .options = {}, .owner = {}, .answer = {}, .line = table.line()};
    TS_TRY(table.required_text("ask", decision.ask));
    TS_TRY(table.texts("options", decision.options));
    TS_TRY(table.text("owner", decision.owner));
    TS_TRY(table.text("answer", decision.answer));
    TS_TRY(table.refuse_unknown());
    plan.decisions.push_back(std::move(decision));
  }
  return {};
}

// Names that refer to buckets must exist.
Result<void> check_names(const Plan& plan, const std::string& file) {
  std::set<std::string> names;
  for (const Bucket& bucket : plan.buckets) {
    if (!names.insert(bucket.name).second) {
      return Error{ErrorKind::kInvalidArgument, file + ":" + std::to_string(bucket.line),
                   "A second bucket is called '" + bucket.name + "'."};
    }
  }
  const auto check = [&](const std::string& name, std::int32_t line) -> Result<void> {
    if (names.contains(name)) return {};
    const auto suggestion = nearest_key(name, names);
    return Error{
        ErrorKind::kInvalidArgument, file + ":" + std::to_string(line),
        "No bucket is called '" + name + "'" + (suggestion ? "; did you mean '" + *suggestion + "'?" : ".")};
  };
  for (const Bucket& bucket : plan.buckets) {
    for (const std::string& need : bucket.needs) {
      TS_TRY(check(need, bucket.line));
    }
  }
  for (const Edit& edit : plan.edits) {
    TS_TRY(check(edit.bucket, edit.line));
  }
  for (const Ahead& ahead : plan.ahead) {
    TS_TRY(check(ahead.bucket, ahead.line));
  }
  for (const Benchmark& benchmark : plan.benchmarks) {
    for (const std::string& about : benchmark.about) {
      TS_TRY(check(about, benchmark.line));
    }
  }
  return {};
}

}  // namespace

std::string_view name_of(BucketKind kind) {
  switch (kind) {
    case BucketKind::kUpstream:
      return "upstream";
    case BucketKind::kLocal:
      return "local";
    case BucketKind::kDrop:
      return "drop";
  }
  return "unknown";
}

std::optional<std::int32_t> Plan::find_bucket(std::string_view bucket_name) const {
  for (std::size_t i = 0; i < buckets.size(); ++i) {
    if (buckets[i].name == bucket_name) return static_cast<std::int32_t>(i);
  }
  return std::nullopt;
}

Result<Plan> read_plan(std::string_view text, const std::string& name) {
  if (text.size() > kLargestPlan) return Error{ErrorKind::kTooLarge, name, "A plan may have 16 MiB."};
  toml::table document;
  try {
    document = toml::parse(text, name);
  } catch (const toml::parse_error& failed) {  // toml++'s only way to report; it ends here
    return Error{ErrorKind::kInvalidArgument, name + ":" + std::to_string(failed.source().begin.line),
                 std::string(failed.description()) + "."};
  }
  Plan plan;
  TomlTable root(document, name, "the plan");
  std::int32_t format = 0;
  TS_TRY(root.number("format", format));
  if (format != 1)
    return Error{ErrorKind::kUnsupported, name + ":1",
                 "The plan must say 'format = 1'; found " + std::to_string(format) + "."};
  TS_TRY(root.required_text("name", plan.name));
  if (!is_name(plan.name)) {
    return Error{ErrorKind::kInvalidArgument, root.where(*root.get("name")),
                 "The plan's name becomes part of refs: letters, digits, '-', '_' and '.'."};
  }
  TS_TRY(read_inputs(root, plan));
  TS_TRY(read_style(root, plan));
  TS_TRY(read_lists(root, plan));
  TS_TRY(std::vector<TomlTable> buckets, root.tables("bucket"));
  for (TomlTable& table : buckets) {
    TS_TRY(Bucket bucket, read_bucket(std::move(table), name));
    plan.buckets.push_back(std::move(bucket));
  }
  TS_TRY(root.refuse_unknown());
  TS_TRY(check_names(plan, name));
  return plan;
}

}  // namespace tessera::stack
