#include "stack/plan/plan_reader.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "stack/atom/glob.h"
#include "stack/object/digest.h"
#include "stack/plan/claim.h"
#include "stack/plan/toml_table.h"

namespace tessera::stack {
namespace {

constexpr std::size_t kLargestPlan = std::size_t{16} << 20;  // bytes

Result<std::string> percent_decoded(const TomlTable& table, const toml::node& node, std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '%') {
      out += text[i];
      continue;
    }
    const auto digit = [](char c) {
      return c >= '0' && c <= '9'   ? c - '0'
             : c >= 'A' && c <= 'F' ? c - 'A' + 10
             : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                    : -1;
    };
    const int high = i + 1 < text.size() ? digit(text[i + 1]) : -1;
    const int low = i + 2 < text.size() ? digit(text[i + 2]) : -1;
    if (high < 0 || low < 0) return table.error(node, "In 'path_bytes' a '%' is followed by two hex digits.");
    out += static_cast<char>(high * 16 + low);
    i += 2;
  }
  return out;
}

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

// The table form of a claim, for paths that the short form cannot hold.
Result<Claim> claim_table(TomlTable table, const toml::node& node) {
  Claim claim{.kind = ClaimKind::kPath};
  std::string bytes, glob, section, text, id;
  TS_TRY(table.text("path", claim.path));
  TS_TRY(table.text("path_bytes", bytes));
  TS_TRY(table.text("glob", glob));
  TS_TRY(table.text("section", section));
  TS_TRY(table.text("text", text));
  TS_TRY(table.text("id", id));
  TS_TRY(table.text("pick", claim.pick));
  TS_TRY(table.flag("optional", claim.is_optional));
  const toml::node* lines = table.get("lines");
  TS_TRY(table.refuse_unknown());
  if (!bytes.empty()) {
    TS_TRY(claim.path, percent_decoded(table, node, bytes));
  }
  const int named = !claim.path.empty() + !glob.empty() + !id.empty();
  if (named != 1) return table.error(node, "A claim names exactly one of path, path_bytes, glob and id.");
  const int parts = !section.empty() + !text.empty() + (lines != nullptr ? 1 : 0);
  if (parts > 1) return table.error(node, "A claim may narrow a path by one of section, lines and text.");
  if (!id.empty()) {
    const std::string shortened = "h:" + id + (claim.pick.empty() ? "" : "[" + claim.pick + "]");
    TS_TRY(Claim by_id, parse_claim(shortened));
    by_id.is_optional = claim.is_optional;
    return by_id;
  }
  if (!glob.empty()) {
    TS_TRY(check_glob(glob));
    claim.kind = ClaimKind::kGlob;
    claim.path = glob;
  }
  if (!section.empty()) {
    claim.kind = ClaimKind::kSection;
    claim.section = section;
  } else if (!text.empty()) {
    claim.kind = ClaimKind::kText;
    TS_TRY(Pattern pattern, Pattern::compile(text));
    claim.pattern = std::move(pattern);
  } else if (lines != nullptr) {
    const auto* array = lines->as_array();
    claim.kind = ClaimKind::kLines;
    claim.first_line = array != nullptr && array->size() == 2 ? (*array)[0].value_or(0) : 0;
    claim.last_line = array != nullptr && array->size() == 2 ? (*array)[1].value_or(0) : 0;
    if (claim.first_line < 1 || claim.last_line < claim.first_line) {
      return table.error(*lines, "'lines' holds the first and the last line, such as [10, 20].");
    }
  }
  claim.written = "{ path = \"" + claim.path + "\" … }";
  return claim;
}

Result<void> read_claims(TomlTable& table, const std::string& file, const std::string& key,
                         std::vector<Claim>& out) {
  const toml::node* node = table.get(key);
  if (node == nullptr) return {};
  const auto* array = node->as_array();
  if (array == nullptr) return table.error(*node, "'" + key + "' must be a list of claims.");
  for (const toml::node& item : *array) {
    Result<Claim> claim = item.is_string() ? parse_claim(item.as_string()->get())
                          : item.is_table()
                              ? claim_table(TomlTable(*item.as_table(), file, "a claim"), item)
                              : Result<Claim>(table.error(item, "A claim is a text or a table."));
    if (!claim) {
      Error error = std::move(claim).error();
      if (error.where != table.where(item)) error.where = table.where(item) + ": " + error.where;
      return error;
    }
    claim->line = static_cast<std::int32_t>(item.source().begin.line);
    claim->is_pin = key == "pins";
    out.push_back(*std::move(claim));
  }
  return {};
}

bool is_name(std::string_view text) {
  for (const char c : text) {
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
          c == '_' || c == '.'))
      return false;
  }
  // What git would refuse in a ref, and what would hide a file.
  return !text.empty() && text.front() != '-' && text.front() != '.' && text.find("..") == text.npos &&
         !text.ends_with(".lock") && !text.ends_with('.');
}

Result<Bucket> read_bucket(TomlTable table, const std::string& file) {
  Bucket bucket{.name = {},
                .status = {},
                .link = {},
                .title = {},
                .why = {},
                .needs = {},
                .refute = {},
                .check = {},
                .author = {},
                .co_authors = {},
                .take = {},
                .leave = {},
                .pins = {},
                .line = table.line()};
  TS_TRY(table.required_text("name", bucket.name));
  if (!is_name(bucket.name) || is_reserved(bucket.name)) {
    return Error{ErrorKind::kInvalidArgument, table.where(),
                 "A bucket's name becomes a branch: letters, digits, '-', '_' and '.', not "
                 "'integration' or 'consolidated', which are ours; found '" +
                     bucket.name + "'."};
  }
  std::string kind = "upstream";
  TS_TRY(table.text("kind", kind));
  if (kind == "upstream")
    bucket.kind = BucketKind::kUpstream;
  else if (kind == "local")
    bucket.kind = BucketKind::kLocal;
  else if (kind == "drop")
    bucket.kind = BucketKind::kDrop;
  else
    return table.error(*table.get("kind"), "'kind' is upstream, local or drop, found '" + kind + "'.");
  TS_TRY(table.text("status", bucket.status));
  static constexpr std::string_view kStatus[] = {"",         "pending",    "submitted", "merged",
                                                 "declined", "superseded", "backport"};
  if (std::ranges::find(kStatus, bucket.status) == std::end(kStatus)) {
    return table.error(*table.get("status"),
                       "'status' is pending, submitted, merged, declined, superseded or backport, found '" +
                           bucket.status + "'.");
  }
  TS_TRY(table.text("link", bucket.link));
  TS_TRY(table.text("title", bucket.title));
  TS_TRY(table.text("why", bucket.why));
  TS_TRY(table.texts("needs", bucket.needs));
  TS_TRY(table.texts("check", bucket.check));
  TS_TRY(table.text("author", bucket.author));
  TS_TRY(table.texts("co_authors", bucket.co_authors));
  TS_TRY(std::vector<TomlTable> refutations, table.tables("refute"));
  for (TomlTable& entry : refutations) {
    Refutation refutation;
    TS_TRY(entry.required_text("use", refutation.use));
    TS_TRY(entry.required_text("reason", refutation.reason));
    TS_TRY(entry.refuse_unknown());
    bucket.refute.push_back(std::move(refutation));
  }
  TS_TRY(read_claims(table, file, "take", bucket.take));
  TS_TRY(read_claims(table, file, "leave", bucket.leave));
  TS_TRY(read_claims(table, file, "pins", bucket.pins));
  TS_TRY(table.refuse_unknown());
  return bucket;
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

std::string PlanFile::folder() const {
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  return parent.empty() ? "." : parent.string();
}

std::string PlanFile::beside(std::string_view relative) const {
  return (std::filesystem::path(folder()) / std::filesystem::path(relative)).lexically_normal().string();
}

Result<std::string> load_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{ErrorKind::kNotFound, path, "The file cannot be opened."};
  std::ostringstream out;
  out << file.rdbuf();
  if (file.bad()) return Error{ErrorKind::kIo, path, "Reading failed."};
  return std::move(out).str();
}

Result<void> save_text(const std::string& path, std::string_view text) {
  const std::string beside = path + ".new";
  {
    std::ofstream file(beside, std::ios::binary | std::ios::trunc);
    file << text;
    file.close();
    if (!file) return Error{ErrorKind::kIo, beside, "Writing failed; the old file stays."};
  }
  std::error_code failed;
  std::filesystem::rename(beside, path, failed);
  if (failed)
    return Error{ErrorKind::kIo, path, "The new file could not take its place: " + failed.message() + "."};
  return {};
}

Result<void> save_below(const std::filesystem::path& path, std::string_view text) {
  std::error_code failed;
  if (path.has_parent_path()) std::filesystem::create_directories(path.parent_path(), failed);
  return save_text(path.string(), text);
}

Result<PlanFile> load_plan(const std::string& path) {
  auto text = load_text(path);
  if (!text) {
    return Error{ErrorKind::kNotFound, path,
                 "There is no such plan; tessera-stack init writes one, --plan FILE names another."};
  }
  TS_TRY(Plan plan, read_plan(*text, std::filesystem::path(path).filename().string()));
  return PlanFile{path, *std::move(text), std::move(plan)};
}

}  // namespace tessera::stack
