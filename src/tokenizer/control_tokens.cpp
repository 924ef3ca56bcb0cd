#include "tokenizer/control_tokens.h"

#include <algorithm>

#include "tokenizer/unicode/characters.h"
#include "tokenizer/unicode/utf8.h"

namespace tessera {
namespace {

char32_t character_before(std::string_view text, std::size_t at) {
  do --at;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  return read_utf8(text.substr(at)).point;
}

bool stands_alone(std::string_view text, ByteRange range) {
  if (range.begin > 0 && is_word_character(character_before(text, range.begin))) return false;
  return range.end == text.size() || !is_word_character(read_utf8(text.substr(range.end)).point);
}

// Blanks next to a token that it takes with it. They may belong to a message: they are only blanks.
ByteRange with_blanks(std::string_view text, ByteRange range, const ControlToken& token, std::size_t after) {
  if (token.eats_left) {
    while (range.begin > after) {
      const char32_t before = character_before(text, range.begin);
      if (!is_python_space(before)) break;
      do --range.begin;
      while ((static_cast<unsigned char>(text[range.begin]) & 0xC0) == 0x80);
    }
  }
  if (token.eats_right) {
    while (range.end < text.size() && is_python_space(read_utf8(text.substr(range.end)).point)) {
      range.end += static_cast<std::size_t>(utf8_bytes_from_lead(text[range.end]));
    }
  }
  return range;
}

}  // namespace

Result<ControlTokenTable> ControlTokenTable::make(std::vector<ControlToken> tokens) {
  ControlTokenTable table;
  std::ranges::sort(tokens, {}, &ControlToken::id);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const ControlToken& token = tokens[i];
    const std::string where = "control token " + std::to_string(token.id);
    if (token.id < 0) return Error{ErrorKind::kCorrupt, where, "The id is negative."};
    if (token.text.empty()) return Error{ErrorKind::kCorrupt, where, "Its text is empty."};
    if (i > 0 && tokens[i - 1].id == token.id) {
      return Error{ErrorKind::kCorrupt, where,
                   "Two texts have this id: " + tokens[i - 1].text + " and " + token.text + "."};
    }
    std::size_t node = 0;
    for (const char byte : token.text) {
      auto& next = table.nodes_[node].next;
      const auto at = std::ranges::lower_bound(next, byte, {}, &std::pair<char, std::int32_t>::first);
      if (at != next.end() && at->first == byte) {
        node = static_cast<std::size_t>(at->second);
        continue;
      }
      const auto fresh = static_cast<std::int32_t>(table.nodes_.size());
      next.insert(at, {byte, fresh});
      table.nodes_.emplace_back();
      node = static_cast<std::size_t>(fresh);
    }
    if (table.nodes_[node].token >= 0) {
      return Error{ErrorKind::kCorrupt, where, "Its text " + token.text + " is also that of another id."};
    }
    table.nodes_[node].token = static_cast<std::int32_t>(i);
    table.first_byte_[static_cast<unsigned char>(token.text.front())] = true;
  }
  table.tokens_ = std::move(tokens);
  return table;
}

const ControlToken* ControlTokenTable::find_id(std::int32_t id) const {
  const auto found = std::ranges::lower_bound(tokens_, id, {}, &ControlToken::id);
  return found != tokens_.end() && found->id == id ? &*found : nullptr;
}

const ControlToken* ControlTokenTable::find_text(std::string_view text) const {
  const ControlToken* token = text.empty() ? nullptr : longest_at(text);
  return token != nullptr && token->text == text ? token : nullptr;
}

const ControlToken* ControlTokenTable::longest_at(std::string_view text) const {
  const ControlToken* longest = nullptr;
  std::size_t node = 0;
  for (const char byte : text) {
    const auto& next = nodes_[node].next;
    const auto at = std::ranges::lower_bound(next, byte, {}, &std::pair<char, std::int32_t>::first);
    if (at == next.end() || at->first != byte) break;
    node = static_cast<std::size_t>(at->second);
    if (nodes_[node].token >= 0) longest = &tokens_[static_cast<std::size_t>(nodes_[node].token)];
  }
  return longest;
}

std::vector<ControlTokenTable::Match> ControlTokenTable::find_all(std::string_view text,
                                                                  std::span<const ByteRange> allowed) const {
  std::vector<Match> matches;
  std::size_t done = 0;  // end of the last match
  for (const ByteRange& range : allowed) {
    for (std::size_t at = std::max(range.begin, done); at < range.end; ++at) {
      if (!first_byte_[static_cast<unsigned char>(text[at])]) continue;
      const ControlToken* token = longest_at(text.substr(at, range.end - at));
      if (token == nullptr) continue;
      ByteRange found{at, at + token->text.size()};
      if (token->single_word && !stands_alone(text, found)) continue;
      found = with_blanks(text, found, *token, done);
      matches.push_back({found, token});
      done = found.end;
      at = found.end - 1;
    }
  }
  return matches;
}

}  // namespace tessera
