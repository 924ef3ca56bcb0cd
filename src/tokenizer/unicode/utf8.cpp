#include "tokenizer/unicode/utf8.h"

#include <algorithm>

namespace tessera {

Utf8Prefix read_utf8(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned lead = at(0);
  if (lead < 0x80) return {Utf8Prefix::kCharacter, 1, lead};
  if (lead < 0xC2 || lead > 0xF4) return {Utf8Prefix::kBroken, 1, 0};
  const int bytes = utf8_bytes_from_lead(text[0]);
  // The second byte is narrower after some leads: no overlong forms, no surrogates, nothing above U+10FFFF.
  const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  char32_t point = lead & (0xFFU >> (bytes + 1));
  for (int i = 1; i < bytes; ++i) {
    if (static_cast<std::size_t>(i) == text.size()) return {Utf8Prefix::kUnfinished, i, 0};
    const unsigned byte = at(static_cast<std::size_t>(i));
    const bool fits = i == 1 ? byte >= low && byte <= high : byte >= 0x80 && byte <= 0xBF;
    if (!fits) return {Utf8Prefix::kBroken, i, 0};
    point = (point << 6) | (byte & 0x3FU);
  }
  return {Utf8Prefix::kCharacter, bytes, point};
}

std::size_t utf8_prefix_bytes(std::string_view text) {
  std::size_t i = 0;
  while (i < text.size()) {
    if (static_cast<unsigned char>(text[i]) < 0x80) {
      ++i;
      continue;
    }
    const Utf8Prefix prefix = read_utf8(text.substr(i));
    if (prefix.kind != Utf8Prefix::kCharacter) break;
    i += static_cast<std::size_t>(prefix.bytes);
  }
  return i;
}

bool is_utf8(std::string_view text) { return utf8_prefix_bytes(text) == text.size(); }

std::string repair_utf8(std::string_view text) {
  std::string out;
  Utf8Repair repair;
  repair.push(text, out);
  out += repair.flush();
  return out;
}

std::u32string utf8_to_points(std::string_view text) {
  std::u32string points;
  while (!text.empty()) {
    const Utf8Prefix prefix = read_utf8(text);
    points.push_back(prefix.kind == Utf8Prefix::kCharacter ? prefix.point : U'\uFFFD');
    text.remove_prefix(static_cast<std::size_t>(prefix.bytes));
  }
  return points;
}

std::string points_to_utf8(std::u32string_view points) {
  std::string text;
  for (const char32_t point : points) append_utf8(text, point);
  return text;
}

std::size_t count_points(std::string_view valid) {
  return static_cast<std::size_t>(
      std::ranges::count_if(valid, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

void Utf8Repair::push(std::string_view bytes, std::string& out) {
  // First finish (or give up) the character that is waiting, byte by byte: at most three bytes can be held.
  while (held_count_ > 0 && !bytes.empty()) {
    held_[held_count_++] = bytes.front();
    const std::string_view held(held_.data(), held_count_);
    const Utf8Prefix prefix = read_utf8(held);
    if (prefix.kind == Utf8Prefix::kUnfinished) {
      bytes.remove_prefix(1);
      continue;
    }
    if (prefix.kind == Utf8Prefix::kCharacter) {
      out += held;
      bytes.remove_prefix(1);
    } else {
      out += kReplacementCharacter;  // the new byte does not belong to it and is looked at again below
    }
    held_count_ = 0;
  }
  while (!bytes.empty()) {
    const std::size_t good = utf8_prefix_bytes(bytes);
    out += bytes.substr(0, good);
    bytes.remove_prefix(good);
    if (bytes.empty()) return;
    const Utf8Prefix prefix = read_utf8(bytes);
    if (prefix.kind == Utf8Prefix::kUnfinished) {
      held_count_ = bytes.copy(held_.data(), held_.size());
      return;
    }
    out += kReplacementCharacter;
    bytes.remove_prefix(static_cast<std::size_t>(prefix.bytes));
  }
}

std::string Utf8Repair::flush() {
  if (held_count_ == 0) return {};
  held_count_ = 0;
  return std::string(kReplacementCharacter);
}

}  // namespace tessera
