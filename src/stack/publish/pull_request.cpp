#include "stack/publish/pull_request.h"

#include <algorithm>

#include "stack/object/printable.h"

namespace tessera::stack {
namespace {

constexpr std::string_view kTemplate =
    "## Purpose\n\n{{purpose}}\n\n## Test Plan\n\n{{test_plan}}\n\n## Test Result\n\n{{test_result}}\n";

// Prose of the plan goes out as the user wrote it (it may use Markdown), but must not be able to forge our
// markers or end a comment.
std::string prose(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const bool opens = text.starts_with("<!--"), closes = text.starts_with("-->");
    if (opens || closes) {
      out += opens ? "&lt;!--" : "--&gt;";
      text.remove_prefix(opens ? 4 : 3);
      continue;
    }
    const auto byte = static_cast<unsigned char>(text[0]);
    if (byte >= 0x20 || byte == '\n' || byte == '\t') out += text[0];
    text.remove_prefix(1);
  }
  return is_utf8(out) ? out : printable(out);
}

std::string replaced(std::string text, std::string_view key, const std::string& value) {
  for (std::size_t at = text.find(key); at != std::string::npos; at = text.find(key, at + value.size())) {
    text.replace(at, key.size(), value);
  }
  return text;
}

std::vector<std::string> warnings_of(const PullRequestInput& input) {
  std::vector<std::string> out;
  const ReportBucket& bucket = input.bucket;
  if (bucket.line_limit > 0 && bucket.counted_lines > bucket.line_limit) {
    out.push_back("It changes " + with_commas(bucket.counted_lines) + " lines that count; above " +
                  with_commas(bucket.line_limit) + " this upstream asks for a discussion first.");
  }
  if (!input.touches_tests) out.push_back("No test is touched.");
  for (const std::string& need : input.unmerged_needs)
    out.push_back("It needs " + need + ", which is not merged.");
  for (const std::string& edit : input.edits)
    out.push_back("It contains an edit, text that nobody has run: " + edit + ".");
  for (const ReportCheck& check : bucket.checks) {
    if (check.has_failed()) out.push_back("The check \"" + check.command + "\" fails.");
  }
  if (bucket.why.empty()) out.push_back("The bucket gives no reason (why).");
  if (bucket.title.empty()) out.push_back("The bucket has no title; its name is used.");
  if (!input.title_tags.empty()) {
    const bool tagged = std::any_of(
        input.title_tags.begin(), input.title_tags.end(),
        [&](const std::string& tag) { return bucket.title.find('[' + tag + ']') != std::string::npos; });
    std::string known;
    for (const std::string& tag : input.title_tags) known += (known.empty() ? "[" : ", [") + tag + ']';
    if (!tagged) out.push_back("The title has none of the tags that this upstream uses: " + known + ".");
  }
  return out;
}

std::string test_result(const PullRequestInput& input) {
  std::string out;
  for (const ReportCheck& check : input.bucket.checks) {
    if (!check.status) continue;  // the test plan names it; nobody has run it
    out += "- `" + printable(check.command) +
           "`: " + (check.has_failed() ? "fails with status " + std::to_string(*check.status) : "passes") +
           "\n";
  }
  if (input.benchmarks.empty()) return out.empty() ? "Not stated.\n" : out;
  Table table{.head = {"configuration", "metric", "before", "after", "change"},
              .rows = {},
              .numeric = {false, false, true, true, true}};
  const auto figure = [](const std::optional<double>& value) {
    return Line{plain(value ? std::to_string(*value) : "-")};
  };
  for (const BenchRow& row : input.benchmarks) {
    const auto share = row.change();
    std::string change = share ? std::to_string(*share * 100.0) : "-";
    if (share)
      change = (*share >= 0 ? "+" : "") + change.substr(0, change.find('.') + 2) + " %" +
               (row.is_regression() ? " (worse)" : "");
    table.rows.push_back({Line{plain(row.configuration)},
                          Line{plain(row.metric + (row.unit.empty() ? "" : " (" + row.unit + ")"))},
                          figure(row.before), figure(row.after), Line{plain(change)}});
  }
  const std::string markdown = to_markdown({.title = "x", .blocks = {std::move(table)}});
  return out + (out.empty() ? "" : "\n") + markdown.substr(markdown.find("\n\n") + 2);
}

// What we own of the body.
std::string stack_part(const PullRequestInput& input) {
  std::string out = std::string(kStackBegin) + "\n";
  if (input.mode == PullRequestMode::kCumulative && !input.unmerged_needs.empty()) {
    out +=
        "Only the last commit is to be reviewed here; the ones below belong to the pull requests that this "
        "one needs.";
    if (!input.compare_link.empty())
      out += " [The last commit alone](<" + percent_encoded(input.compare_link) + ">).";
    out += "\n\n";
  }
  if (input.mode == PullRequestMode::kConsolidated)
    out += "One commit a topic, each to be reviewed by itself; they can go in one by one.\n\n";
  if (input.stack.size() > 1) {
    Table table{.head = {"", "topic", "title", "status"}, .rows = {}};
    for (const StackRow& row : input.stack) {
      const Line name = row.link.empty() ? Line{code(row.name)} : Line{link(row.name, row.link)};
      table.rows.push_back(
          {Line{plain(row.is_this ? "this" : "")}, name, Line{plain(row.title)}, Line{plain(row.status)}});
    }
    const std::string markdown = to_markdown({.title = "x", .blocks = {std::move(table)}});
    out += markdown.substr(markdown.find("\n\n") + 2) + "\n";
  }
  out += "Tessera-Topic: " + prose(input.topic_id) + "\n";
  for (const std::string& author : input.co_authors) out += "Co-authored-by: " + prose(author) + "\n";
  if (!input.sign_off.empty()) out += "Signed-off-by: " + prose(input.sign_off) + "\n";
  return out + std::string(kStackEnd) + "\n";
}

}  // namespace

PullRequestText write_pull_request(const PullRequestInput& input) {
  PullRequestText out{.title = printable(input.bucket.title.empty() ? input.bucket.name : input.bucket.title),
                      .body = {}};
  out.warnings = warnings_of(input);
  std::string plan;
  for (const ReportCheck& check : input.bucket.checks) plan += "```\n" + printable(check.command) + "\n```\n";
  const std::string ours = stack_part(input);
  std::string result = test_result(input);
  const auto body = [&] {
    std::string text(input.body_template.empty() ? std::string(kTemplate) : input.body_template);
    text = replaced(text, "{{purpose}}", input.bucket.why.empty() ? "Not stated." : prose(input.bucket.why));
    text = replaced(text, "{{test_plan}}", plan.empty() ? "Not stated." : plan);
    text = replaced(text, "{{test_result}}", result);
    std::string comment;
    for (const std::string& warning : out.warnings) comment += "- " + prose(warning) + "\n";
    if (!comment.empty()) comment = "<!-- Before sending:\n" + comment + "-->\n\n";
    return comment + text + (text.ends_with('\n') ? "\n" : "\n\n") + ours;
  };
  out.body = body();
  if (out.body.size() > kBodyCareful && !input.benchmarks.empty()) {
    result = std::to_string(input.benchmarks.size()) +
             " figures are in the report; the table is too long for a pull request.\n";
    out.body = body();
  }
  if (out.body.size() >= kBodyLimit) {
    out.warnings.push_back("The text has " + with_commas(static_cast<std::int64_t>(out.body.size())) +
                           " characters, GitHub takes " + with_commas(static_cast<std::int64_t>(kBodyLimit)) +
                           "; it was cut.");
    constexpr std::string_view kCut = "\n\n(cut)\n\n";
    std::string text = out.body.substr(0, out.body.size() - ours.size());
    const std::size_t room = kBodyLimit - 1 - std::min(kBodyLimit / 2, ours.size()) - kCut.size();
    text.resize(std::min(text.size(), room));
    while (!text.empty() && (static_cast<unsigned char>(text.back()) & 0xC0) == 0x80)
      text.pop_back();  // not inside a character
    if (!text.empty() && static_cast<unsigned char>(text.back()) >= 0xC0) text.pop_back();
    out.body = text + std::string(kCut) + ours;
  }
  return out;
}

std::string merge_body(std::string_view existing, std::string_view fresh) {
  const std::size_t fresh_begin = fresh.find(kStackBegin);
  const std::size_t fresh_end =
      fresh.find(kStackEnd, fresh_begin == std::string_view::npos ? 0 : fresh_begin);
  if (fresh_begin == std::string_view::npos || fresh_end == std::string_view::npos)
    return std::string(existing);
  const std::string_view ours = fresh.substr(fresh_begin, fresh_end + kStackEnd.size() - fresh_begin);
  const std::size_t begin = existing.find(kStackBegin);
  const std::size_t end = begin == std::string_view::npos ? begin : existing.find(kStackEnd, begin);
  if (end == std::string_view::npos) {
    return std::string(existing) + (existing.empty() || existing.ends_with('\n') ? "\n" : "\n\n") +
           std::string(ours) + "\n";
  }
  return std::string(existing.substr(0, begin)) + std::string(ours) +
         std::string(existing.substr(end + kStackEnd.size()));
}

}  // namespace tessera::stack
