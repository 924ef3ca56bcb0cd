#include "tokenizer/jinja/strings.h"

#include <algorithm>

#include "tokenizer/unicode/characters.h"
#include "tokenizer/unicode/utf8.h"

namespace tessera::jinja {
namespace {

std::size_t last_character(std::string_view text) {
  std::size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

bool is_blank_at(std::string_view text, std::size_t at) {
  return is_python_space(read_utf8(text.substr(at)).point);
}
std::size_t next_character(std::string_view text, std::size_t at) {
  return at + static_cast<std::size_t>(utf8_bytes_from_lead(text[at]));
}

}  // namespace

Text strip(const Text& text, const std::string_view* characters, Side side) {
  const std::string_view bytes = text.view();
  const auto goes = [&](std::size_t at, std::size_t end) {
    if (characters == nullptr) return is_blank_at(bytes, at);
    // Valid UTF-8 finds only whole characters.
    return characters->find(bytes.substr(at, end - at)) != std::string_view::npos;
  };
  std::size_t begin = 0, end = bytes.size();
  while (side != Side::kRight && begin < end) {
    const std::size_t next = next_character(bytes, begin);
    if (!goes(begin, next)) break;
    begin = next;
  }
  while (side != Side::kLeft && begin < end) {
    const std::size_t last = last_character(bytes.substr(0, end));
    if (!goes(last, end)) break;
    end = last;
  }
  return text.slice(begin, end);
}

std::vector<Text> split(const Text& text, std::string_view separator, long long max_splits) {
  std::vector<Text> parts;
  std::size_t begin = 0;
  while (max_splits < 0 || static_cast<long long>(parts.size()) < max_splits) {
    const std::size_t at = text.view().find(separator, begin);
    if (at == std::string_view::npos) break;
    parts.push_back(text.slice(begin, at));
    begin = at + separator.size();
  }
  parts.push_back(text.slice(begin, text.size()));
  return parts;
}

std::vector<Text> split_from_right(const Text& text, std::string_view separator, long long max_splits) {
  std::vector<Text> parts;
  std::size_t end = text.size();
  while (max_splits < 0 || static_cast<long long>(parts.size()) < max_splits) {
    const std::size_t at = text.view().substr(0, end).rfind(separator);
    if (at == std::string_view::npos) break;
    parts.push_back(text.slice(at + separator.size(), end));
    end = at;
  }
  parts.push_back(text.slice(0, end));
  std::ranges::reverse(parts);
  return parts;
}

std::vector<Text> split_at_blanks(const Text& text, long long max_splits) {
  const std::string_view bytes = text.view();
  std::vector<Text> parts;
  std::size_t at = 0;
  for (;;) {
    while (at < bytes.size() && is_blank_at(bytes, at)) at = next_character(bytes, at);
    if (at == bytes.size()) return parts;
    if (max_splits >= 0 && static_cast<long long>(parts.size()) == max_splits) {
      parts.push_back(strip(text.slice(at, bytes.size()), nullptr, Side::kRight));
      return parts;
    }
    const std::size_t begin = at;
    while (at < bytes.size() && !is_blank_at(bytes, at)) at = next_character(bytes, at);
    parts.push_back(text.slice(begin, at));
  }
}

std::vector<Text> split_at_blanks_from_right(const Text& text, long long max_splits) {
  const std::string_view bytes = text.view();
  std::vector<Text> parts;
  std::size_t end = bytes.size();
  for (;;) {
    while (end > 0 && is_blank_at(bytes, last_character(bytes.substr(0, end))))
      end = last_character(bytes.substr(0, end));
    if (end == 0) break;
    if (max_splits >= 0 && static_cast<long long>(parts.size()) == max_splits) {
      parts.push_back(strip(text.slice(0, end), nullptr, Side::kLeft));
      break;
    }
    std::size_t begin = end;
    while (begin > 0 && !is_blank_at(bytes, last_character(bytes.substr(0, begin))))
      begin = last_character(bytes.substr(0, begin));
    parts.push_back(text.slice(begin, end));
    end = begin;
  }
  std::ranges::reverse(parts);
  return parts;
}

std::vector<Text> split_lines(const Text& text, bool keep_ends) {
  const std::string_view bytes = text.view();
  std::vector<Text> lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < bytes.size();) {
    const char32_t point = read_utf8(bytes.substr(at)).point;
    std::size_t next = next_character(bytes, at);
    const bool ends_line = (point >= 0x0A && point <= 0x0D) || (point >= 0x1C && point <= 0x1E) ||
                           point == 0x85 || point == 0x2028 || point == 0x2029;
    if (ends_line) {
      if (point == '\r' && next < bytes.size() && bytes[next] == '\n') ++next;
      lines.push_back(text.slice(begin, keep_ends ? next : at));
      begin = next;
    }
    at = next;
  }
  if (begin < bytes.size()) lines.push_back(text.slice(begin, bytes.size()));
  return lines;
}

Text replace(const Text& text, const Text& from, const Text& to, long long max_count,
             const std::function<void(std::size_t)>& grown) {
  Text out;
  std::size_t done = 0, from_at = 0;
  for (long long count = 0; max_count < 0 || count < max_count; ++count) {
    std::size_t at = 0;
    if (from.empty()) {
      // Between all characters, and at both ends.
      if (count > 0) {
        if (done == text.size()) break;
        from_at = next_character(text.view(), done);
      }
      at = from_at;
    } else {
      at = text.view().find(from.view(), done);
    }
    if (at == std::string_view::npos) break;
    out.append(text, done, at);
    out.append(to);
    done = at + from.size();
    grown(out.size());
  }
  out.append(text, done, text.size());
  return out;
}

Text map_runs(const Text& text, std::string (*map)(std::string_view)) {
  Text out;
  std::size_t begin = 0;
  for (const auto& run : text.runs()) {
    out.append(map(text.view().substr(begin, run.end - begin)), run.foreign);
    begin = run.end;
  }
  return out;
}

std::string capitalized(std::string_view text) {
  if (text.empty()) return {};
  const auto first = static_cast<std::size_t>(utf8_bytes_from_lead(text.front()));
  const std::string head = to_title(text.substr(0, first));
  return head + to_lower(text.substr(first));
}

std::string swap_case(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const auto length = static_cast<std::size_t>(utf8_bytes_from_lead(text.front()));
    const std::string_view one = text.substr(0, length);
    const std::string upper = to_upper(one);
    out += upper == one ? to_lower(one) : upper;
    text.remove_prefix(length);
  }
  return out;
}

bool all_points(std::string_view text, bool (*is)(char32_t)) {
  return !text.empty() && std::ranges::all_of(utf8_to_points(text), is);
}

}  // namespace tessera::jinja
