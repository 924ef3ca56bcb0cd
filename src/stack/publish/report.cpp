#include "stack/publish/report.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace tessera::stack {
namespace {

Line text(std::string words) { return {plain(std::move(words))}; }
Line code_line(std::string words) { return {code(std::move(words))}; }
std::string count(std::int64_t value) { return with_commas(value); }

std::string figure(const std::optional<double>& value) {
  if (!value) return "-";
  std::array<char, 64> out;
  std::snprintf(out.data(), out.size(), "%.4g", *value);
  // Whole numbers of many digits are read better with commas than with an exponent.
  if (std::abs(*value) >= 1000 && std::abs(*value) < 1e15)
    return with_commas(static_cast<std::int64_t>(*value + (*value < 0 ? -0.5 : 0.5)));
  return out.data();
}

std::string percent(const std::optional<double>& share) {
  if (!share) return "-";
  std::array<char, 64> out;
  std::snprintf(out.data(), out.size(), "%+.1f %%", *share * 100.0);
  return out.data();
}

std::string listed(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) out += (out.empty() ? "" : ", ") + name;
  return out;
}

class Writer {
 public:
  explicit Writer(const Report& report) : report_(report) { out_.title = "Stack report: " + report.plan; }

  Document run() {
    verdict();
    if (report_.atoms == 0 && report_.buckets.empty() && report_.paths.empty()) return std::move(out_);
    branch_map();
    buckets();
    parity();
    residual();
    upstream();
    locals();
    benchmarks();
    decisions();
    notes();
    return std::move(out_);
  }

 private:
  void heading(int level, std::string words) { out_.blocks.emplace_back(Heading{level, std::move(words)}); }
  void paragraph(Line line) { out_.blocks.emplace_back(Paragraph{std::move(line)}); }
  void bullets(const std::vector<std::string>& items) {
    Bullets list;
    for (const std::string& item : items) list.items.push_back(text(item));
    if (!list.items.empty()) out_.blocks.emplace_back(std::move(list));
  }

  void verdict() {
    if (report_.atoms == 0 && report_.paths.empty()) {
      paragraph({strong("The tree equals the base: no difference, nothing to split.")});
      inputs();
      return;
    }
    paragraph({strong(verdict_of(report_))});
    std::vector<std::string> bad = report_.parity.hidden;
    for (std::string& path : bad) path += " is changed and hidden by an ignore rule";
    bullets(bad);
    inputs();
  }

  void inputs() {
    Table table{.head = {"input", "value"}, .rows = {}};
    for (const auto& [name, value] : report_.inputs) {
      if (!value.empty()) table.rows.push_back({text(name), code_line(value)});
    }
    if (!table.rows.empty()) out_.blocks.emplace_back(std::move(table));
  }

  void branch_map() {
    heading(2, "Branch map");
    out_.blocks.emplace_back(Drawing{draw_branch_map(report_.map), mermaid_branch_map(report_.map)});
    Table table{.head = {"bucket", "kind", "status", "needs", "files", "atoms", "+", "-", "counted", "checks",
                         "branch", "commit"},
                .rows = {},
                .numeric = {false, false, false, false, true, true, true, true, true}};
    for (const ReportBucket& bucket : report_.buckets) {
      const auto passed = std::ranges::count(bucket.checks, std::optional(0), &ReportCheck::status);
      const bool were_run =
          std::ranges::any_of(bucket.checks, &std::optional<int>::has_value, &ReportCheck::status);
      const std::string checks = bucket.checks.empty() ? "-"
                                 : !were_run
                                     ? "not run"
                                     : std::to_string(passed) + " of " + std::to_string(bucket.checks.size());
      // The limit is upstream's; what stays local has none to keep.
      const std::string counted = bucket.line_limit > 0 && bucket.kind == "upstream"
                                      ? count(bucket.counted_lines) + " of " + count(bucket.line_limit) +
                                            (bucket.counted_lines > bucket.line_limit ? ", over" : "")
                                      : count(bucket.counted_lines);
      table.rows.push_back(
          {code_line(bucket.name), text(bucket.kind),
           bucket.link.empty() ? text(bucket.status)
                               : Line{link(bucket.status.empty() ? "link" : bucket.status, bucket.link)},
           text(listed(bucket.needs)), text(count(static_cast<std::int64_t>(bucket.files.size()))),
           text(count(bucket.atoms)), text(count(bucket.added)), text(count(bucket.removed)), text(counted),
           text(checks), bucket.branch.empty() ? text("-") : code_line(bucket.branch),
           bucket.commit.empty() ? text("-") : code_line(bucket.commit.substr(0, 12))});
    }
    drop_empty_columns(table);
    out_.blocks.emplace_back(std::move(table));
  }

  // "status" and "needs" of a young stack say nothing, and a phone has no room for nothing.
  static void drop_empty_columns(Table& table) {
    table.numeric.resize(table.head.size());
    for (std::size_t column = table.head.size(); column-- > 0;) {
      const bool is_empty = std::ranges::all_of(table.rows, [&](const std::vector<Line>& row) {
        return std::ranges::all_of(row[column],
                                   [](const Span& s) { return s.text.empty() || s.text == "-"; });
      });
      if (!is_empty) continue;
      const auto at = static_cast<std::ptrdiff_t>(column);
      table.head.erase(table.head.begin() + at);
      table.numeric.erase(table.numeric.begin() + at);
      for (auto& row : table.rows) row.erase(row.begin() + at);
    }
  }

  void buckets() {
    heading(2, "Buckets");
    for (const ReportBucket& bucket : report_.buckets) {
      heading(3, bucket.title.empty() ? bucket.name : bucket.name + ": " + bucket.title);
      if (!bucket.why.empty()) paragraph(text(bucket.why));
      for (std::size_t i = 0; i < bucket.reasons.size(); ++i) {
        if (i == 0) paragraph(text("Stands on:"));
      }
      bullets(bucket.reasons);
      Bullets files;
      for (const std::string& file : bucket.files) files.items.push_back(code_line(file));
      if (!files.items.empty()) {
        paragraph(text("Files:"));
        out_.blocks.emplace_back(std::move(files));
      }
      if (!bucket.look_first.empty()) {
        paragraph(text("Look first at:"));
        bullets(bucket.look_first);
      }
      for (const ReportCheck& check : bucket.checks) {
        paragraph(
            {plain(!check.status        ? "Check, not run: "
                   : check.has_failed() ? "Check failed with status " + std::to_string(*check.status) + ": "
                                        : "Check passed: "),
             code(check.command),
             plain(check.has_failed() && !check.last_line.empty() ? " said: " + check.last_line : "")});
      }
      last_change(bucket);
      bullets(bucket.questions);
    }
  }

  void last_change(const ReportBucket& bucket) {
    if (!bucket.last_change || bucket.last_change->mark == ">") return;  // a first version changed nothing
    const ReportRangeDiff& last = *bucket.last_change;
    paragraph({plain("Last moved: the " + last.operation +
                     (last.mark == "=" ? " left it saying the same."
                                       : " changed it; the difference of its differences:"))});
    if (!last.text.empty()) out_.blocks.emplace_back(Code{last.text});
  }

  void parity() {
    heading(2, "Parity");
    if (report_.paths.empty()) {
      paragraph(text("Every path is exact."));
    } else {
      Table table{.head = {"path", "class", "atoms", "detail", "layer", "build step"}, .rows = {}};
      for (const ReportPath& path : report_.paths) {
        std::string atoms;
        for (const ReportAtom& atom : path.atoms)
          atoms += (atoms.empty() ? "" : ", ") + atom.id + " " + atom.text_class;
        table.rows.push_back({code_line(path.parity.path), text(std::string(name_of(path.parity.value))),
                              text(atoms), text(path.parity.detail), text(path.layer),
                              path.created_by.empty() ? text("") : code_line(path.created_by)});
      }
      out_.blocks.emplace_back(std::move(table));
    }
    if (!report_.origins.empty()) {
      heading(3, "Where the differing files come from");
      Table table{.head = {"path", "layer", "build step"}, .rows = {}};
      for (const ReportOrigin& origin : report_.origins) {
        table.rows.push_back({code_line(origin.path), text(origin.layer),
                              origin.created_by.empty() ? text("") : code_line(origin.created_by)});
      }
      out_.blocks.emplace_back(std::move(table));
    }
    if (!report_.moves.empty()) {
      heading(3, "Moves");
      paragraph(text("A reading of the difference; its atoms are deletions and insertions."));
      bullets(report_.moves);
    }
    if (!report_.rules.empty()) {
      Table table{.head = {"rule", "paths"}, .rows = {}, .numeric = {false, true}};
      for (const auto& [rule, paths] : report_.rules) {
        table.rows.push_back({code_line(rule), text(paths == 0 ? "0, matches nothing" : count(paths))});
      }
      out_.blocks.emplace_back(std::move(table));
    }
    if (!report_.expectations.empty()) {
      Table table{.head = {"expectation", "holds", "why", "reason", "nearest line"}, .rows = {}};
      for (const ExpectationResult& result : report_.expectations) {
        table.rows.push_back(
            {Line{code(result.path), plain(result.where.empty() ? "" : " (" + result.where + ")")},
             result.holds ? text("yes") : Line{strong("no")}, text(result.why), text(result.reason),
             result.nearest.empty() ? text("") : code_line(result.nearest)});
      }
      out_.blocks.emplace_back(std::move(table));
    }
  }

  void part(const std::string& title, const std::vector<std::string>& items, const std::string& none) {
    // The blank stands outside: Markdown closes no bold text behind one.
    paragraph({strong(title + ":"),
               plain(" " + (items.empty() ? none : count(static_cast<std::int64_t>(items.size()))))});
    bullets(items);
  }

  void residual() {
    heading(2, "Residual");
    part("Unassigned atoms", report_.unassigned_atoms, "none.");
    std::vector<std::string> dropped;
    for (const ReportBucket& bucket : report_.buckets) {
      if (bucket.kind == "drop")
        dropped.push_back(bucket.name + ", " + count(bucket.atoms) + " atoms: " + bucket.why);
    }
    part("Dropped", dropped, "nothing.");
    part("Needs that the plan refutes", report_.refuted, "none.");
    part("Edits, text that is in nobody's tree", report_.edits, "none.");
    part("Remembered resolutions used", report_.resolutions, "none.");
  }

  void upstream() {
    if (report_.upstream.empty()) return;
    heading(2, "Already upstream");
    Table table{.head = {"what", "level", "upstream commit"}, .rows = {}};
    for (const ReportUpstream& found : report_.upstream) {
      table.rows.push_back({text(found.what), text(found.level), code_line(found.commit)});
    }
    out_.blocks.emplace_back(std::move(table));
  }

  void locals() {
    Bullets list;
    for (const ReportBucket& bucket : report_.buckets) {
      if (bucket.kind == "local")
        list.items.push_back(
            {code(bucket.name), plain(": " + (bucket.why.empty() ? "no reason is given." : bucket.why))});
    }
    if (list.items.empty()) return;
    heading(2, "Local topics");
    out_.blocks.emplace_back(std::move(list));
  }

  void benchmarks() {
    if (report_.benchmarks.empty()) return;
    heading(2, "Benchmarks");
    std::vector<BenchRow> rows = report_.benchmarks;
    const auto regressions =
        std::count_if(rows.begin(), rows.end(), [](const BenchRow& row) { return row.is_regression(); });
    if (regressions > 0)
      paragraph({strong(count(regressions) + (regressions == 1 ? " figure is" : " figures are") +
                        " worse than before.")});
    Table table{.head = {"configuration", "metric", "before", "after", "change", "spread", "verdict", "image",
                         "source"},
                .rows = {},
                .numeric = {false, false, true, true, true}};
    for (const BenchRow& row : rows) {
      const std::string unit = row.unit.empty() ? "" : " (" + row.unit + ")";
      const std::string verdict =
          row.is_regression() ? (row.verdict.empty() ? "worse" : row.verdict) : row.verdict;
      table.rows.push_back(
          {text(row.configuration), text(row.metric + unit), text(figure(row.before)),
           text(figure(row.after)), text(percent(row.change())), text(row.spread),
           row.is_regression() ? Line{strong(verdict)} : text(verdict),
           row.image.empty() ? Line{strong("not stated")} : code_line(row.image.substr(0, 19)),
           code_line(row.source)});
    }
    out_.blocks.emplace_back(std::move(table));
  }

  void decisions() {
    std::vector<std::string> open;
    for (const ReportDecision& decision : report_.decisions) {
      if (!decision.answer.empty()) continue;
      open.push_back(decision.ask +
                     (decision.options.empty() ? "" : " Options: " + listed(decision.options) + ".") +
                     (decision.owner.empty() ? " Nobody owns it." : " Owner: " + decision.owner + "."));
    }
    if (open.empty()) return;
    heading(2, "Open decisions");
    bullets(open);
  }

  void notes() {
    if (report_.notes.empty()) return;
    heading(2, "Notes on reading the tree");
    bullets(report_.notes);
  }

  const Report& report_;
  Document out_;
};

}  // namespace

std::string verdict_of(const Report& report) {
  return "parity: " + verdict_line(report.parity) + "; " + count(report.unassigned) + " unassigned of " +
         count(report.atoms) + " atoms";
}

Document report_document(const Report& report) { return Writer(report).run(); }

}  // namespace tessera::stack
