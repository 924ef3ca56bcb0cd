#include "server/record/secrets.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace tessera {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_word(char c) { return is_letter(c) || (c >= '0' && c <= '9') || c == '-' || c == '_'; }
bool is_key_character(char c) {
  return is_word(c) || c == '.' || c == '+' || c == '/' || c == '=' || c == '~';
}

struct Shape {
  std::string_view begin;
  std::size_t least;  // characters after it; fewer are prose about keys
};
constexpr std::array kShapes = {
    Shape{"Bearer ", 8},      Shape{"bearer ", 8}, Shape{"sk-", 16},   Shape{"hf_", 16},  Shape{"ghp_", 16},
    Shape{"gho_", 16},        Shape{"ghu_", 16},   Shape{"ghs_", 16},  Shape{"ghr_", 16}, Shape{"glpat-", 16},
    Shape{"github_pat_", 16}, Shape{"xoxb-", 16},  Shape{"xoxp-", 16}, Shape{"AKIA", 16}, Shape{"AIza", 30},
};

constexpr std::array<std::string_view, 11> kNames = {
    "api_key",       "apikey",       "api-key",       "password",      "passwd",     "secret",
    "client_secret", "access_token", "refresh_token", "authorization", "private_key"};

std::string without(std::string_view text, std::string_view what) {
  std::string out;
  std::size_t copied = 0;
  for (std::size_t at = 0; !what.empty() && (at = text.find(what, at)) != std::string_view::npos;) {
    out += text.substr(copied, at - copied);
    out += kRemoved;
    copied = at += what.size();
  }
  out += text.substr(copied);
  return out;
}

// Length of the key that begins at `at`, 0 for none; `keep` of it stays in the text.
std::size_t shaped_key(std::string_view text, std::size_t at, std::size_t& keep) {
  if (at > 0 && is_word(text[at - 1])) return 0;
  for (const Shape& shape : kShapes) {
    if (!text.substr(at).starts_with(shape.begin)) continue;
    std::size_t end = at + shape.begin.size();
    while (end < text.size() && is_key_character(text[end])) ++end;
    if (end - at - shape.begin.size() < shape.least) continue;
    keep = shape.begin.ends_with(' ') ? shape.begin.size() : 0;
    return end - at;
  }
  return 0;
}

std::string without_shaped_keys(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t keep = 0;
    const std::size_t length = is_letter(text[at]) ? shaped_key(text, at, keep) : 0;
    if (length == 0) {
      out += text[at++];
      continue;
    }
    out += text.substr(at, keep);
    out += kRemoved;
    at += length;
  }
  return out;
}

std::string without_private_keys(std::string_view text) {
  constexpr std::string_view kBegin = "-----BEGIN ", kEnd = "-----END ", kDashes = "-----";
  constexpr std::size_t kLongestHead = 64, kLongestKey = 64U << 10;
  std::string out;
  std::size_t copied = 0;
  for (std::size_t at = 0; (at = text.find(kBegin, at)) != std::string_view::npos;) {
    at += kBegin.size();
    const std::string_view head = text.substr(at, kLongestHead);
    const std::size_t head_end = head.find(kDashes);
    if (head_end == std::string_view::npos ||
        head.substr(0, head_end).find("PRIVATE KEY") == std::string_view::npos)
      continue;
    const std::size_t inside = at + head_end + kDashes.size();
    const std::string_view rest = text.substr(inside, kLongestKey);
    // Without an end the key was cut: what there is of it goes up to the end of the string that holds it.
    std::size_t length = std::min({rest.find(kEnd), rest.find('"'), rest.size()});
    while (length > 0 && rest[length - 1] == '\\') --length;  // it belongs to that quote
    out += text.substr(copied, inside - copied);
    out += kRemoved;
    copied = at = inside + length;
  }
  out += text.substr(copied);
  return out;
}

// `known` is in lower case.
bool is_name(std::string_view known, std::string_view name) {
  const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; };
  return std::ranges::equal(known, name, {}, {}, lower);
}

std::size_t backslashes_before(std::string_view text, std::size_t at) {
  std::size_t count = 0;
  while (count < at && text[at - 1 - count] == '\\') ++count;
  return count;
}

// "name": "value". In JSON inside a JSON string each of these quotes has one backslash before it, a level
// deeper three, then seven.
std::string without_named_values(std::string_view text) {
  std::string out;
  std::size_t copied = 0;
  const auto skip_blanks = [&](std::size_t at) {
    while (at < text.size() && std::string_view(" \n\t\r").find(text[at]) != std::string_view::npos) ++at;
    return at;
  };
  for (std::size_t at = 0; (at = text.find('"', at)) != std::string_view::npos;) {
    const std::size_t depth = backslashes_before(text, at);
    const std::size_t name_begin = ++at;
    if (depth > 7 || (depth & (depth + 1)) != 0) continue;
    const auto is_quote = [&](std::size_t i) {
      return i < text.size() && text[i] == '"' && backslashes_before(text, i) == depth;
    };
    std::size_t name_end = name_begin;
    while (name_end < text.size() && is_word(text[name_end])) ++name_end;
    const std::string_view name = text.substr(name_begin, name_end - name_begin);
    if (std::ranges::none_of(kNames, [&](auto known) { return is_name(known, name); })) continue;
    if (!is_quote(name_end + depth)) continue;
    const std::size_t colon = skip_blanks(name_end + depth + 1);
    if (colon >= text.size() || text[colon] != ':') continue;
    const std::size_t value = skip_blanks(colon + 1) + depth + 1;
    if (!is_quote(value - 1)) continue;
    // What closes the value has as many backslashes, or these after escaped ones; fewer close what is around
    // it.
    std::size_t end = value;
    std::size_t before = 0;
    while ((end = text.find('"', end)) != std::string_view::npos) {
      before = std::min(backslashes_before(text, end), end - value);
      if (before < depth || before % (2 * (depth + 1)) == depth) break;
      ++end;
    }
    if (end == std::string_view::npos || before < depth) continue;
    out += text.substr(copied, value - copied);
    out += kRemoved;
    copied = end - depth;
    at = end + 1;
  }
  out += text.substr(copied);
  return out;
}

}  // namespace

std::string remove_secrets(std::string text, std::span<const std::string> own_keys) {
  for (const std::string& key : own_keys) text = without(text, key);
  return without_named_values(without_shaped_keys(without_private_keys(text)));
}

}  // namespace tessera
