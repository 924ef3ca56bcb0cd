#include "bench/report/plots.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>

#include "bench/report/svg.h"

namespace tessera::bench {
namespace {

constexpr std::array<const char*, 12> kColours = {"#2563eb", "#d97706", "#059669", "#9333ea",
                                                  "#dc2626", "#0891b2", "#a16207", "#475569",
                                                  "#db2777", "#65a30d", "#312e81", "#78350f"};
constexpr const char* kFaint = "#cbd5e1";
constexpr const char* kGrey = "#64748b";

std::string amount(double value) {
  std::array<char, 32> text;
  const double size = std::abs(value);
  std::snprintf(text.data(), text.size(),
                size >= 100 || value == std::floor(value) ? "%.0f"
                : size >= 10                              ? "%.1f"
                : size >= 0.1                             ? "%.2f"
                                                          : "%.3g",
                value);
  return text.data();
}

std::string file_name(std::string name) {
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '-';
  }
  return name;
}

// What was measured, on what, when.
std::string occasion(const BenchReport& report) {
  std::string words = report.subject;
  const auto processor = report.machine.find("processor");
  // Where a device was measured, the subject names it.
  if (!report.machine.contains("device") && processor != report.machine.end())
    words += ", measured on " + processor->second;
  if (report.created.size() >= 16)  // 2026-12-01T04:50:46Z
    words += ", " + report.created.substr(0, 10) + ' ' + report.created.substr(11, 5) + " UTC";
  return words;
}

// A page with a title and the occasion under it, wide enough for both; what is drawn begins below y = 60.
Svg page(const BenchReport& report, double width, double height, const std::string& title) {
  const std::string under = occasion(report);
  // Widths of characters of 16 and 12 px, generously: fonts differ.
  const double words =
      std::max(9.0 * static_cast<double>(title.size()), 6.8 * static_cast<double>(under.size()));
  Svg svg(std::max(width, words + 40), height, title);
  svg.text({.x = 20, .y = 46, .fill = kGrey}, under);
  return svg;
}

// From nearly white to a deep blue, by the logarithm: rates of a matrix span two orders.
std::string shade(double share) {
  const auto mix = [&](double from, double to) { return static_cast<int>(from + (to - from) * share); };
  std::array<char, 16> text;
  std::snprintf(text.data(), text.size(), "#%02x%02x%02x", mix(239, 23), mix(246, 64), mix(255, 135));
  return text.data();
}

Plot heat_map(const BenchReport& report, const std::string& metric,
              const std::vector<const Measurement*>& cells) {
  std::set<double> rows, columns;
  double least = 1e300;
  double most = 0;
  for (const Measurement* m : cells) {
    rows.insert(m->axes[0].second);
    columns.insert(m->axes[1].second);
    if (!m->counts() || m->value <= 0) continue;
    least = std::min(least, m->value);
    most = std::max(most, m->value);
  }
  constexpr double kLeft = 110, kTop = 104, kWide = 84, kHigh = 40;
  Svg svg = page(report, kLeft + kWide * static_cast<double>(columns.size()) + 30,
                 kTop + kHigh * static_cast<double>(rows.size()) + 46, metric + ", " + cells.front()->unit);
  double x = kLeft;
  for (const double column : columns) {
    svg.text({.x = x + kWide / 2, .y = kTop - 8, .anchor = "middle"}, amount(column));
    double y = kTop;
    for (const double row : rows) {
      const auto found = std::ranges::find_if(cells, [&](const Measurement* m) {
        return m->axes[0].second == row && m->axes[1].second == column;
      });
      if (found != cells.end()) {
        const Measurement& m = **found;
        const double share =
            most > least && m.value > 0 ? std::log(m.value / least) / std::log(most / least) : 0.5;
        const std::string words = m.counts()                            ? amount(m.value)
                                  : m.standing == Standing::kDoesNotFit ? "no fit"
                                                                        : "(" + amount(m.value) + ")";
        svg.box(x + 2, y + 2, kWide - 4, kHigh - 4,
                m.counts() ? shade(std::clamp(share, 0.0, 1.0)) : "#f1f5f9",
                m.configuration() + ": " + words + ' ' + m.unit + (m.remark.empty() ? "" : ". " + m.remark));
        svg.text({.x = x + kWide / 2,
                  .y = y + kHigh / 2 + 4,
                  .anchor = "middle",
                  .fill = !m.counts()    ? kGrey
                          : share > 0.65 ? "#ffffff"
                                         : "#1f2933"},
                 words);
      }
      y += kHigh;
    }
    x += kWide;
  }
  double y = kTop;
  for (const double row : rows) {
    svg.text({.x = kLeft - 10, .y = y + kHigh / 2 + 4, .anchor = "end"}, amount(row));
    y += kHigh;
  }
  svg.text({.x = 20, .y = kTop - 8, .fill = kGrey}, cells.front()->axes[0].first);
  svg.text({.x = kLeft + 2, .y = kTop - 28, .fill = kGrey}, cells.front()->axes[1].first);
  svg.text({.x = 20, .y = y + 26, .size = 11, .fill = kGrey},
           "Darker is more. Grey: marked, neither averaged nor compared.");
  return {file_name(metric), svg.take()};
}

std::optional<double> setting(const BenchReport& report, const char* name) {
  const auto found = report.settings.find(name);
  if (found == report.settings.end()) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(found->second.c_str(), &end);
  if (end == found->second.c_str() || !(value > 0)) return std::nullopt;
  return value;
}

// Logarithmic from `low` to `high` onto a stretch of the page.
struct LogAxis {
  double low, high, from, to;
  double at(double value) const { return from + (to - from) * std::log(value / low) / std::log(high / low); }
};

std::string tick_label(double tick) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%g", tick);
  return text.data();
}

// Ticks at powers of ten, and at twice and five times these where there would be few.
template <class Draw>
void each_tick(const LogAxis& axis, const Draw& draw) {
  const bool is_short = axis.high / axis.low < 300;
  for (double decade = std::pow(10, std::floor(std::log10(axis.low))); decade <= axis.high; decade *= 10) {
    for (const double times : {1.0, 2.0, 5.0}) {
      const double tick = decade * times;
      if ((times == 1 || is_short) && tick >= axis.low * 0.9999 && tick <= axis.high * 1.0001) draw(tick);
    }
  }
}

std::optional<Plot> roofline(const BenchReport& report) {
  const auto bandwidth = setting(report, "read_gb_s");
  const auto peak = setting(report, "tflop_s");
  struct Point {
    double intensity, rate;
    const Measurement* m;
  };
  std::vector<Point> points;
  for (const Measurement& m : report.measurements) {
    const auto fact = [&](const char* name) {
      const auto found = m.facts.find(name);
      return found == m.facts.end() ? 0.0 : found->second;
    };
    if (fact("us") > 0 && fact("bytes") > 0 && fact("flops") > 0)
      points.push_back({fact("flops") / fact("bytes"), fact("flops") / fact("us") * 1e-6, &m});
  }
  if (points.empty() || !bandwidth || !peak) return std::nullopt;
  const double ridge = *peak * 1e3 / *bandwidth;
  double low_x = ridge / 4, high_x = ridge * 4, low_y = *peak / 2, high_y = *peak * 2;
  std::vector<std::string> series;
  for (const Point& point : points) {
    low_x = std::min(low_x, point.intensity / 2);
    high_x = std::max(high_x, point.intensity * 2);
    low_y = std::min(low_y, point.rate / 2);
    high_y = std::max(high_y, point.rate * 1.5);
    if (std::ranges::find(series, point.m->series) == series.end()) series.push_back(point.m->series);
  }
  constexpr double kLeft = 80, kRight = 620, kTop = 80, kBottom = 410, kLegend = 650;
  const LogAxis x{low_x, high_x, kLeft, kRight};
  const LogAxis y{low_y, high_y, kBottom, kTop};
  const double row = 18;
  Svg svg = page(report, 860, std::max(490.0, kTop + row * static_cast<double>(series.size()) + 30),
                 "Roofline: arithmetic against bytes moved");
  svg.text({.x = 20, .y = 70, .fill = kGrey}, "TFLOP/s");
  each_tick(x, [&](double tick) {
    svg.line(x.at(tick), kTop, x.at(tick), kBottom, kFaint);
    svg.text({.x = x.at(tick), .y = kBottom + 18, .anchor = "middle", .size = 11}, tick_label(tick));
  });
  each_tick(y, [&](double tick) {
    svg.line(kLeft, y.at(tick), kRight, y.at(tick), kFaint);
    svg.text({.x = kLeft - 8, .y = y.at(tick) + 4, .anchor = "end", .size = 11}, tick_label(tick));
  });
  const double start = std::max(low_x, low_y * 1e3 / *bandwidth);
  svg.path(
      {{x.at(start), y.at(start * *bandwidth * 1e-3)}, {x.at(ridge), y.at(*peak)}, {kRight, y.at(*peak)}},
      "#1f2933");
  for (const Point& point : points) {
    const auto at = std::ranges::find(series, point.m->series) - series.begin();
    svg.dot(x.at(point.intensity), y.at(point.rate), 5,
            kColours[static_cast<std::size_t>(at) % kColours.size()],
            point.m->configuration() + ": " + amount(point.rate) + " TFLOP/s at " + amount(point.intensity) +
                " FLOP/byte");
  }
  for (std::size_t i = 0; i < series.size(); ++i) {
    const double middle = kTop + row * static_cast<double>(i) + 6;
    svg.dot(kLegend, middle, 5, kColours[i % kColours.size()], series[i]);
    svg.text({.x = kLegend + 12, .y = middle + 4, .size = 11}, series[i]);
  }
  svg.text({.x = (kLeft + kRight) / 2, .y = kBottom + 38, .anchor = "middle", .fill = kGrey},
           "FLOP per byte");
  svg.text(
      {.x = 20, .y = kBottom + 64, .size = 11, .fill = kGrey},
      "The roof: " + amount(*bandwidth) + " GB/s of reading, " + amount(*peak) + " TFLOP/s of products.");
  return Plot{"roofline", svg.take()};
}

// For each cell a bar from its median to its 99th percentile, with the 90th marked.
std::optional<Plot> latency_plot(const BenchReport& report, const std::string& prefix,
                                 const std::string& title) {
  struct Bar {
    std::string name;
    double p50, p90, p99;
    bool counts;
  };
  std::vector<Bar> bars;
  for (const Measurement& m : report.measurements) {
    const auto p50 = m.facts.find(prefix + "_p50"), p90 = m.facts.find(prefix + "_p90"),
               p99 = m.facts.find(prefix + "_p99");
    if (p50 == m.facts.end() || p90 == m.facts.end() || p99 == m.facts.end() || p50->second <= 0) continue;
    bars.push_back({m.configuration(), p50->second, p90->second, p99->second, m.counts()});
  }
  if (bars.empty()) return std::nullopt;
  double low = 1e300, high = 0;
  for (const Bar& bar : bars) {
    low = std::min(low, bar.p50 / 1.5);
    high = std::max(high, bar.p99 * 1.5);
  }
  const LogAxis x{low, high, 260, 760};
  const double top = 66;
  const double bottom = top + 10 + 20 * static_cast<double>(bars.size());
  Svg svg = page(report, 800, bottom + 68, title + ", ms");
  each_tick(x, [&](double tick) {
    svg.line(x.at(tick), top, x.at(tick), bottom, kFaint);
    svg.text({.x = x.at(tick), .y = bottom + 18, .anchor = "middle", .size = 11}, tick_label(tick));
  });
  double y = top + 10;
  for (const Bar& bar : bars) {
    svg.text({.x = 250, .y = y + 8, .anchor = "end", .size = 11}, bar.name);
    const std::string hint =
        bar.name + ": " + amount(bar.p50) + " / " + amount(bar.p90) + " / " + amount(bar.p99) + " ms";
    svg.box(x.at(bar.p50), y, std::max(2.0, x.at(bar.p99) - x.at(bar.p50)), 10,
            bar.counts ? "#93c5fd" : kFaint, hint);
    const char* const ink = bar.counts ? kColours[0] : kGrey;
    svg.dot(x.at(bar.p50), y + 5, 4, ink, hint);
    svg.line(x.at(bar.p90), y - 1, x.at(bar.p90), y + 11, ink, 2);
    y += 20;
  }
  svg.text(
      {.x = 20, .y = bottom + 50, .size = 11, .fill = kGrey},
      "Dot: median. Stroke: 90th percentile. End of the bar: 99th. The scale is logarithmic. Grey: marked.");
  return Plot{file_name(prefix), svg.take()};
}

}  // namespace

std::vector<Plot> plots_of(const BenchReport& report) {
  std::vector<Plot> plots;
  std::vector<std::string> metrics;
  for (const Measurement& m : report.measurements) {
    if (m.series.empty() && m.axes.size() == 2 && std::ranges::find(metrics, m.metric) == metrics.end())
      metrics.push_back(m.metric);
  }
  for (const std::string& metric : metrics) {
    std::vector<const Measurement*> cells;
    for (const Measurement& m : report.measurements) {
      if (m.metric == metric && m.series.empty() && m.axes.size() == 2) cells.push_back(&m);
    }
    plots.push_back(heat_map(report, metric, cells));
  }
  if (auto plot = roofline(report)) plots.push_back(*std::move(plot));
  if (auto plot = latency_plot(report, "itl_ms", "Time between tokens")) plots.push_back(*std::move(plot));
  if (auto plot =
          latency_plot(report, "ttft_ms", "Time to the first token, with all streams starting at once"))
    plots.push_back(*std::move(plot));
  return plots;
}

}  // namespace tessera::bench
