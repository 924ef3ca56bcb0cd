#include "bench/report/svg.h"

#include <array>

#include "base/markup.h"

namespace tessera::bench {
namespace {

std::string number(double value) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.1f", value);
  return text.data();
}

std::string hint_of(std::string_view hint) {
  return hint.empty() ? "" : "<title>" + markup_escaped(hint) + "</title>";
}

}  // namespace

Svg::Svg(double width, double height, std::string_view title) {
  out_ = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + number(width) + " " + number(height) +
         "\" width=\"" + number(width) + "\" height=\"" + number(height) +
         "\" font-family=\"system-ui, sans-serif\">\n<title>" + markup_escaped(title) +
         "</title>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
  text({.x = 20, .y = 28, .size = 16}, title);
}

void Svg::text(const SvgText& at, std::string_view words) {
  out_ += "<text x=\"" + number(at.x) + "\" y=\"" + number(at.y) + "\" text-anchor=\"" +
          std::string(at.anchor) + "\" font-size=\"" + std::to_string(at.size) + "\" fill=\"" +
          std::string(at.fill) + "\">" + markup_escaped(words) + "</text>\n";
}

void Svg::box(double x, double y, double width, double height, std::string_view fill, std::string_view hint) {
  out_ += "<rect x=\"" + number(x) + "\" y=\"" + number(y) + "\" width=\"" + number(width) + "\" height=\"" +
          number(height) + "\" rx=\"3\" fill=\"" + std::string(fill) + "\">" + hint_of(hint) + "</rect>\n";
}

void Svg::line(double x1, double y1, double x2, double y2, std::string_view stroke, double width) {
  out_ += "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) + "\" y2=\"" +
          number(y2) + "\" stroke=\"" + std::string(stroke) + "\" stroke-width=\"" + number(width) + "\"/>\n";
}

void Svg::dot(double x, double y, double radius, std::string_view fill, std::string_view hint) {
  out_ += "<circle cx=\"" + number(x) + "\" cy=\"" + number(y) + "\" r=\"" + number(radius) + "\" fill=\"" +
          std::string(fill) + "\">" + hint_of(hint) + "</circle>\n";
}

void Svg::path(const std::vector<std::pair<double, double>>& points, std::string_view stroke, double width) {
  out_ += "<polyline fill=\"none\" stroke=\"" + std::string(stroke) + "\" stroke-width=\"" + number(width) +
          "\" points=\"";
  for (const auto& [x, y] : points) out_ += number(x) + "," + number(y) + " ";
  out_ += "\"/>\n";
}

std::string Svg::take() { return std::move(out_) + "</svg>\n"; }

}  // namespace tessera::bench
