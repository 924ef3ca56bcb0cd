#include "stack/publish/branch_map.h"

#include <algorithm>
#include <map>

#include "stack/object/printable.h"
#include "stack/publish/document.h"

namespace tessera::stack {
namespace {

// Pixels. A character of the 13 px monospace font is about 7.9 wide.
constexpr double kCharacter = 7.9;
constexpr int kBoxHeight = 44;
constexpr int kRowHeight = 62;
constexpr int kGap = 70;
constexpr int kMargin = 12;
constexpr int kPadding = 12;
constexpr std::size_t kLongestName = 34;

std::string shortened(const std::string& name) {
  const std::string shown = printable(name);
  return shown.size() <= kLongestName ? shown : shown.substr(0, kLongestName - 3) + "...";
}

struct Box {
  int x = 0, y = 0, width = 0;
  std::string name, caption, style;
};

// The column of each topic: one right of the furthest that it needs. A cycle ends where it began.
std::vector<int> columns_of(const BranchMap& map) {
  std::map<std::string, std::size_t> index;
  for (std::size_t i = 0; i < map.topics.size(); ++i) index.emplace(map.topics[i].name, i);
  std::vector<int> columns(map.topics.size(), 1);
  for (std::size_t round = 0; round < map.topics.size(); ++round) {
    bool changed = false;
    for (std::size_t i = 0; i < map.topics.size(); ++i) {
      for (const std::string& need : map.topics[i].needs) {
        const auto found = index.find(need);
        if (found == index.end() || columns[found->second] < columns[i]) continue;
        if (columns[found->second] + 1 > static_cast<int>(map.topics.size())) continue;
        columns[i] = columns[found->second] + 1;
        changed = true;
      }
    }
    if (!changed) break;
  }
  return columns;
}

int width_of(const std::string& name, const std::string& caption) {
  const std::size_t longest = std::max(shortened(name).size(), caption.size());
  return static_cast<int>(static_cast<double>(longest) * kCharacter) + 2 * kPadding;
}

std::string text_at(int x, int y, const char* style, const std::string& text) {
  return "<text x=\"" + std::to_string(x) + "\" y=\"" + std::to_string(y) + "\"" +
         (*style != '\0' ? " class=\"" + std::string(style) + '"' : "") + ">" + html_escaped(text) +
         "</text>\n";
}

std::string draw(const Box& box) {
  return "<g><title>" + html_escaped(box.name) + "</title><rect class=\"box " + box.style + "\" x=\"" +
         std::to_string(box.x) + "\" y=\"" + std::to_string(box.y) + "\" width=\"" +
         std::to_string(box.width) + "\" height=\"" + std::to_string(kBoxHeight) + "\" rx=\"5\"/>\n" +
         text_at(box.x + kPadding, box.y + 19, "", shortened(box.name)) +
         text_at(box.x + kPadding, box.y + 35, "soft", box.caption) + "</g>\n";
}

std::string curve(const Box& from, const Box& to) {
  const int x1 = from.x + from.width, y1 = from.y + kBoxHeight / 2, x2 = to.x, y2 = to.y + kBoxHeight / 2;
  const int bend = std::max(24, (x2 - x1) / 2);
  const auto point = [](int x, int y) { return std::to_string(x) + ' ' + std::to_string(y); };
  return "<path d=\"M " + point(x1, y1) + " C " + point(x1 + bend, y1) + ", " + point(x2 - bend, y2) + ", " +
         point(x2, y2) + "\"/>\n";
}

}  // namespace

std::string draw_branch_map(const BranchMap& map) {
  const std::vector<int> columns = columns_of(map);
  const int last = columns.empty() ? 0 : *std::max_element(columns.begin(), columns.end());
  std::vector<int> widths(static_cast<std::size_t>(last) + 2, 0), used(static_cast<std::size_t>(last) + 2, 0);
  widths.front() = width_of("target", map.target);
  widths.back() = width_of("integration", map.integration);
  for (std::size_t i = 0; i < map.topics.size(); ++i) {
    int& width = widths[static_cast<std::size_t>(columns[i])];
    width = std::max(width, width_of(map.topics[i].name, map.topics[i].caption));
  }
  std::vector<int> left = {kMargin};
  for (const int width : widths) left.push_back(left.back() + width + kGap);
  std::vector<Box> boxes;
  for (std::size_t i = 0; i < map.topics.size(); ++i) {
    const auto column = static_cast<std::size_t>(columns[i]);
    boxes.push_back({.x = left[column],
                     .y = kMargin + used[column]++ * kRowHeight,
                     .width = width_of(map.topics[i].name, map.topics[i].caption),
                     .name = map.topics[i].name,
                     .caption = map.topics[i].caption,
                     .style = map.topics[i].kind});
  }
  const int rows = std::max(1, *std::max_element(used.begin(), used.end()));
  const int middle = kMargin + (rows - 1) * kRowHeight / 2;
  const Box target{.x = left[0],
                   .y = middle,
                   .width = widths.front(),
                   .name = "target",
                   .caption = map.target,
                   .style = "end"};
  const Box integration{.x = left[widths.size() - 1],
                        .y = middle,
                        .width = widths.back(),
                        .name = "integration",
                        .caption = map.integration,
                        .style = "end"};
  std::map<std::string, const Box*> by_name;
  for (const Box& box : boxes) by_name.emplace(box.name, &box);

  const int width = left[widths.size() - 1] + widths.back() + kMargin, height = rows * kRowHeight + kMargin;
  std::string out = "<svg role=\"img\" aria-label=\"Branch map\" viewBox=\"0 0 " + std::to_string(width) +
                    ' ' + std::to_string(height) + "\" width=\"" + std::to_string(width) + "\">\n";
  std::map<std::string, bool> is_needed;
  for (std::size_t i = 0; i < map.topics.size(); ++i) {
    bool stands_on_target = true;
    for (const std::string& need : map.topics[i].needs) {
      const auto found = by_name.find(need);
      if (found == by_name.end()) continue;
      out += curve(*found->second, boxes[i]);
      is_needed[need] = true;
      stands_on_target = false;
    }
    if (stands_on_target) out += curve(target, boxes[i]);
  }
  for (std::size_t i = 0; i < map.topics.size(); ++i) {
    if (!is_needed[map.topics[i].name] && map.topics[i].kind != "drop") out += curve(boxes[i], integration);
  }
  out += draw(target);
  for (const Box& box : boxes) out += draw(box);
  return out + draw(integration) + "</svg>\n";
}

std::string mermaid_branch_map(const BranchMap& map) {
  // Names are free text, so nodes get numbers and names become labels.
  const auto label = [](const std::string& text) {
    std::string out;
    for (const char c : printable(text)) out += c == '"' ? std::string("#quot;") : std::string(1, c);
    return out;
  };
  std::map<std::string, std::size_t> index;
  std::string out = "flowchart LR\n  target[\"target " + label(map.target) + "\"]\n";
  for (std::size_t i = 0; i < map.topics.size(); ++i) {
    index.emplace(map.topics[i].name, i);
    out += "  t" + std::to_string(i) + "[\"" + label(map.topics[i].name) + "<br>" +
           label(map.topics[i].caption) + "\"]\n";
  }
  out += "  integration[\"integration " + label(map.integration) + "\"]\n";
  std::vector<bool> needed(map.topics.size());
  for (std::size_t i = 0; i < map.topics.size(); ++i) {
    bool stands_on_target = true;
    for (const std::string& need : map.topics[i].needs) {
      const auto found = index.find(need);
      if (found == index.end()) continue;
      out += "  t" + std::to_string(found->second) + " --> t" + std::to_string(i) + "\n";
      needed[found->second] = true;
      stands_on_target = false;
    }
    if (stands_on_target) out += "  target --> t" + std::to_string(i) + "\n";
  }
  for (std::size_t i = 0; i < map.topics.size(); ++i) {
    if (!needed[i] && map.topics[i].kind != "drop") out += "  t" + std::to_string(i) + " --> integration\n";
  }
  return out;
}

}  // namespace tessera::stack
