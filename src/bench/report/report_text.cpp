#include "bench/report/report_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "bench/report/statistics.h"

namespace tessera::bench {
namespace {

std::string amount(double value) {
  std::array<char, 32> text;
  const double size = std::abs(value);
  std::snprintf(text.data(), text.size(), size >= 1000 ? "%.0f" : size >= 10 ? "%.1f" : "%.3f", value);
  return text.data();
}

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.insert(0, width - text.size(), ' ');
  return text;
}

// What stands in a cell whose figure does not count: the figure in brackets, or a word.
std::string cell_text(const Measurement& m) {
  if (m.standing == Standing::kDoesNotFit) return "no fit";
  if (m.standing == Standing::kFailed) return "failed";
  return m.counts() ? amount(m.value) : "(" + amount(m.value) + ")";
}

bool has_two_axes(const Measurement& m) { return m.series.empty() && m.axes.size() == 2; }

std::string matrix_text(const std::vector<const Measurement*>& cells) {
  const std::string& down = cells.front()->axes[0].first;
  const std::string& across = cells.front()->axes[1].first;
  std::set<double> rows, columns;
  for (const Measurement* m : cells) {
    rows.insert(m->axes[0].second);
    columns.insert(m->axes[1].second);
  }
  std::string out =
      cells.front()->metric + ", " + cells.front()->unit + "\n" + padded(down + " \\ " + across, 22);
  for (const double column : columns) out += padded(amount(column).substr(0, amount(column).find('.')), 11);
  out += '\n';
  for (const double row : rows) {
    std::array<char, 32> name;
    std::snprintf(name.data(), name.size(), "%.0f", row);
    out += padded(name.data(), 22);
    for (const double column : columns) {
      const auto found = std::ranges::find_if(cells, [&](const Measurement* m) {
        return m->axes[0].second == row && m->axes[1].second == column;
      });
      out += padded(found == cells.end() ? "-" : cell_text(**found), 11);
    }
    out += '\n';
  }
  return out;
}

std::string line_text(const Measurement& m, std::size_t width) {
  std::string out = "  " + m.configuration();
  out.resize(width, ' ');
  out += padded(cell_text(m), 11) + ' ' + m.unit;
  if (m.samples.size() > 1)
    out += "  (" + amount(percentile(m.samples, 0.1)) + " .. " + amount(percentile(m.samples, 0.9)) + ")";
  if (m.bound && m.value > 0) {
    const double share = m.higher_is_better ? m.value / *m.bound : *m.bound / m.value;
    out += "  " + amount(100 * share) + " % of the bound " + amount(*m.bound);
  }
  const auto fact = [&](const char* name) {
    const auto found = m.facts.find(name);
    return found == m.facts.end() ? 0.0 : found->second;
  };
  if (fact("us") > 0 && fact("bytes") > 0)
    out += "  " + amount(fact("bytes") / fact("us") * 1e-3) + " GB/s  " +
           amount(fact("flops") / fact("us") * 1e-6) + " TFLOP/s";
  return out + '\n';
}

}  // namespace

std::string report_text(const BenchReport& report) {
  std::string out = "bench " + report.kind + ": " + report.subject + "\n" + report.headline + "\n";
  std::vector<std::string> metrics;
  for (const Measurement& m : report.measurements) {
    if (std::ranges::find(metrics, m.metric) == metrics.end()) metrics.push_back(m.metric);
  }
  for (const std::string& metric : metrics) {
    std::vector<const Measurement*> matrix, lines;
    for (const Measurement& m : report.measurements) {
      if (m.metric == metric) (has_two_axes(m) ? matrix : lines).push_back(&m);
    }
    out += '\n';
    if (!matrix.empty()) out += matrix_text(matrix);
    if (!lines.empty()) out += metric + "\n";
    std::size_t width = 44;
    for (const Measurement* m : lines) width = std::max(width, m->configuration().size() + 4);
    for (const Measurement* m : lines) out += line_text(*m, width);
  }
  bool first = true;
  for (const Measurement& m : report.measurements) {
    if (m.remark.empty()) continue;
    if (std::exchange(first, false))
      out += "\nFigures in brackets are not averaged, headlined or compared:\n";
    out += "  " + m.metric + ", " + m.configuration() + ": " + std::string(name_of(m.standing)) + ". " +
           m.remark + "\n";
  }
  if (!report.notes.empty()) out += '\n';
  for (const std::string& note : report.notes) out += "note: " + note + "\n";
  return out;
}

}  // namespace tessera::bench
