#include "stack/atom/line_pick.h"

#include <algorithm>
#include <charconv>

#include "stack/atom/pattern.h"

namespace tessera::stack {
namespace {

Error bad(std::string_view expression, const std::string& why) {
  return Error{ErrorKind::kInvalidArgument, "[" + std::string(expression) + "]", why};
}

// Items are separated by commas; a comma inside /…/ belongs to the expression, and `\/` is a slash in it.
Result<std::vector<std::string>> items_of(std::string_view expression) {
  std::vector<std::string> items(1);
  bool in_pattern = false;
  for (std::size_t i = 0; i < expression.size(); ++i) {
    const char c = expression[i];
    if (in_pattern && c == '\\' && i + 1 < expression.size()) {
      items.back() += c;
      items.back() += expression[++i];
      continue;
    }
    if (c == '/') in_pattern = !in_pattern;
    if (c == ',' && !in_pattern) {
      items.emplace_back();
    } else if (in_pattern || c != ' ') {
      items.back() += c;
    }
  }
  if (in_pattern) return bad(expression, "A '/' opens an expression that no '/' closes.");
  return items;
}

Result<void> pick_numbers(std::string_view expression, std::string_view item, std::vector<bool>& lines) {
  const std::size_t dots = item.find("..");
  const std::string_view from = item.substr(0, dots);
  const std::string_view to = dots == std::string_view::npos ? from : item.substr(dots + 2);
  std::size_t first = 0;
  std::size_t last = 0;
  const auto read = [](std::string_view text, std::size_t& value) {
    const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
    return status == std::errc() && end == text.data() + text.size();
  };
  if (!read(from, first) || !read(to, last) || first == 0 || first > last) {
    return bad(expression,
               "'" + std::string(item) + "' is no line number or range such as 2..5, counted from 1.");
  }
  if (last > lines.size()) {
    return bad(expression, "Line " + std::to_string(last) + " was asked for, and the atom has " +
                               std::to_string(lines.size()) + " on that side.");
  }
  for (std::size_t i = first; i <= last; ++i) lines[i - 1] = true;
  return {};
}

void append_numbers(std::string& out, char sign, const std::vector<bool>& lines) {
  for (std::size_t i = 0; i < lines.size();) {
    if (!lines[i]) {
      ++i;
      continue;
    }
    std::size_t end = i;
    while (end < lines.size() && lines[end]) ++end;
    if (!out.empty()) out += ',';
    out += sign;
    out += std::to_string(i + 1);
    if (end > i + 1) out += ".." + std::to_string(end);
    i = end;
  }
}

}  // namespace

bool LinePick::is_empty() const {
  return std::ranges::count(removed, true) + std::ranges::count(added, true) == 0;
}
bool LinePick::is_all() const {
  return std::ranges::count(removed, false) + std::ranges::count(added, false) == 0;
}

Result<LinePick> pick_lines(std::string_view expression, std::span<const std::string_view> removed,
                            std::span<const std::string_view> added) {
  LinePick pick{std::vector<bool>(removed.size()), std::vector<bool>(added.size())};
  TS_TRY(const std::vector<std::string> items, items_of(expression));
  for (const std::string& item : items) {
    std::string_view rest = item;
    const char sign = rest.empty() ? '\0' : rest.front();
    if (sign == '+' || sign == '-') rest.remove_prefix(1);
    const bool take_removed = sign != '+';
    const bool take_added = sign != '-';
    if (rest.size() >= 2 && rest.starts_with('/') && rest.ends_with('/')) {
      TS_TRY(const Pattern pattern, Pattern::compile(rest.substr(1, rest.size() - 2)));
      for (std::size_t i = 0; take_removed && i < removed.size(); ++i) {
        if (pattern.found_in(removed[i])) pick.removed[i] = true;
      }
      for (std::size_t i = 0; take_added && i < added.size(); ++i) {
        if (pattern.found_in(added[i])) pick.added[i] = true;
      }
    } else if (sign == '+' || sign == '-') {
      TS_TRY(pick_numbers(expression, rest, sign == '+' ? pick.added : pick.removed));
    } else {
      return bad(expression, "'" + item + "' says neither -N, +N, -N..M, +N..M nor /expression/.");
    }
  }
  return pick;
}

std::string pick_text(const LinePick& pick) {
  std::string out;
  append_numbers(out, '-', pick.removed);
  append_numbers(out, '+', pick.added);
  return out;
}

}  // namespace tessera::stack
