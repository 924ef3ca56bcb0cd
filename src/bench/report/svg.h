// Enough of SVG for plots: text, lines, boxes. One look for all of them; readable in light and dark pages.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace tessera::bench {

struct SvgText {
  double x = 0;
  double y = 0;
  std::string_view anchor = "start";  // start, middle, end
  int size = 12;
  std::string_view fill = "#1f2933";
};

class Svg {
 public:
  Svg(double width, double height, std::string_view title);

  void text(const SvgText& at, std::string_view words);
  void box(double x, double y, double width, double height, std::string_view fill,
           std::string_view hint = {});
  void line(double x1, double y1, double x2, double y2, std::string_view stroke, double width = 1);
  void dot(double x, double y, double radius, std::string_view fill, std::string_view hint);
  void path(const std::vector<std::pair<double, double>>& points, std::string_view stroke, double width = 2);
  std::string take();

 private:
  std::string out_;
};

}  // namespace tessera::bench
