#include "stack/plan/bucket_reader.h"

#include <algorithm>

#include "stack/atom/glob.h"
#include "stack/plan/claim.h"

namespace tessera::stack {
namespace {

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
  std::vector<std::string> rename;
  TS_TRY(table.texts("rename", rename));
  TS_TRY(table.refuse_unknown());
  if (!bytes.empty()) {
    TS_TRY(claim.path, percent_decoded(table, node, bytes));
  }
  const int named = !claim.path.empty() + !glob.empty() + !id.empty() + !rename.empty();
  if (named != 1)
    return table.error(node, "A claim names exactly one of path, path_bytes, glob, rename and id.");
  const int parts = !section.empty() + !text.empty() + (lines != nullptr ? 1 : 0);
  if (parts > 1) return table.error(node, "A claim may narrow a path by one of section, lines and text.");
  if (!id.empty()) {
    const std::string shortened = "h:" + id + (claim.pick.empty() ? "" : "[" + claim.pick + "]");
    TS_TRY(Claim by_id, parse_claim(shortened));
    by_id.is_optional = claim.is_optional;
    return by_id;
  }
  if (!rename.empty()) {
    if (rename.size() != 2 || parts > 0)
      return table.error(node, "'rename' holds the old and the new path, such as [\"a.py\", \"b.py\"].");
    claim.path = rename[0];
    claim.renamed_to = rename[1];
    claim.written = "{ rename = [\"" + rename[0] + "\", \"" + rename[1] + "\"] }";
    return claim;
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

}  // namespace

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

}  // namespace tessera::stack
