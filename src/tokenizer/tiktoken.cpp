#include "tokenizer/tiktoken.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "tokenizer/parts.h"

namespace tessera {
namespace {

constexpr std::int32_t kKimiSlots = 256;  // when tokenizer_config.json does not say
constexpr std::size_t kMaxTokenBytes =
    4'096;  // the longest honest one has 128; the merge table is quadratic in it
constexpr std::size_t kMaxTokens = 4'000'000;

std::optional<std::string> from_base64(std::string_view text) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  if (text.empty() || text.size() % 4 != 0) return std::nullopt;
  std::string bytes;
  unsigned bits = 0;
  int held = 0;
  while (!text.empty() && text.back() == '=' && text.size() % 4 != 2) text.remove_suffix(1);
  for (const char c : text) {
    const std::size_t digit = kDigits.find(c);
    if (digit == std::string_view::npos) return std::nullopt;
    bits = (bits << 6) | static_cast<unsigned>(digit);
    held += 6;
    if (held >= 8) {
      held -= 8;
      bytes.push_back(static_cast<char>((bits >> held) & 0xFF));
    }
  }
  return bytes;
}

}  // namespace

Result<std::vector<std::string>> read_tiktoken_ranks(std::string_view text, const std::string& where) {
  std::vector<std::string> pieces;
  std::size_t line_number = 0, entries = 0;
  while (!text.empty()) {
    ++line_number;
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    const auto wrong = [&](const std::string& what) {
      return Error{ErrorKind::kCorrupt, where + ":" + std::to_string(line_number), what};
    };
    const std::size_t blank = line.find(' ');
    if (blank == std::string_view::npos) return wrong("Expected base64, a blank and a rank.");
    const auto bytes = from_base64(line.substr(0, blank));
    if (!bytes || bytes->empty()) return wrong("The token is not base64.");
    if (bytes->size() > kMaxTokenBytes) {
      return wrong("A token of " + std::to_string(bytes->size()) + " bytes; at most 4,096 are supported.");
    }
    const std::string_view digits = line.substr(blank + 1);
    std::size_t rank = 0;
    const auto [stop, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), rank);
    if (failed != std::errc() || stop != digits.data() + digits.size())
      return wrong("The rank is not a number.");
    if (rank >= kMaxTokens)
      return wrong("Rank " + std::to_string(rank) + "; at most 4,000,000 tokens are supported.");
    if (rank >= pieces.size()) pieces.resize(rank + 1);
    if (!pieces[rank].empty()) return wrong("Rank " + std::to_string(rank) + " was given before.");
    pieces[rank] = *bytes;
    ++entries;
  }
  if (entries == 0) return Error{ErrorKind::kCorrupt, where, "The file holds no tokens."};
  if (const auto hole = std::ranges::find(pieces, std::string()); hole != pieces.end()) {
    return Error{
        ErrorKind::kCorrupt, where,
        "No token has rank " + std::to_string(hole - pieces.begin()) + ", although there are higher ones."};
  }
  return pieces;
}

Result<Tokenizer> make_tiktoken_tokenizer(std::string_view model_text, const TokenNames& names,
                                          const std::string& where) {
  TS_TRY(std::vector<std::string> pieces, read_tiktoken_ranks(model_text, where));
  const auto entries = static_cast<std::int32_t>(pieces.size());
  std::vector<ControlToken> control = names.added;
  std::int32_t slots = names.reserved_slots.value_or(kKimiSlots);
  for (const ControlToken& token : control) {
    if (token.id < entries) {
      return Error{ErrorKind::kMismatch, "control token " + token.text,
                   "Its id " + std::to_string(token.id) + " is a rank of " + where + ", which has " +
                       std::to_string(entries) + " tokens."};
    }
    if (token.id >= entries + 1'000'000) {
      return Error{ErrorKind::kTooLarge, "control token " + token.text,
                   "Its id " + std::to_string(token.id) + " is more than a million above the last rank."};
    }
    slots = std::max(slots, token.id - entries + 1);
  }
  std::vector<bool> is_named(static_cast<std::size_t>(slots), false);
  for (const ControlToken& token : control) is_named[static_cast<std::size_t>(token.id - entries)] = true;
  for (std::int32_t slot = 0; slot < slots; ++slot) {
    if (is_named[static_cast<std::size_t>(slot)]) continue;
    const std::int32_t id = entries + slot;
    control.push_back({.id = id, .text = "<|reserved_token_" + std::to_string(id) + "|>"});
  }

  auto parts = std::make_unique<Tokenizer::Parts>();
  TS_TRY(parts->control, ControlTokenTable::make(std::move(control)));
  parts->bpe.vocabulary = Vocabulary(std::move(pieces), parts->control.tokens());
  for (int byte = 0; byte < 256; ++byte) {
    const char as_char = static_cast<char>(byte);
    const auto id = parts->bpe.vocabulary.id_of({&as_char, 1});
    if (!id)
      return Error{ErrorKind::kCorrupt, where,
                   "No token stands for the single byte " + std::to_string(byte) + "."};
    parts->bpe.byte_ids[static_cast<std::size_t>(byte)] = *id;
  }
  for (std::int32_t id = 0; id < entries; ++id) {
    if (parts->bpe.vocabulary.id_of(parts->bpe.vocabulary.bytes_of(id)) != id) {
      return Error{ErrorKind::kCorrupt, where,
                   "The token of rank " + std::to_string(id) + " has a lower rank too."};
    }
  }
  parts->bpe.merges = MergeTable::from_ranks(parts->bpe.vocabulary, entries);
  TS_TRY(Regex pattern, Regex::compile(kKimiPattern));
  parts->pretokenizer.rules.push_back({.pattern = std::move(pattern)});
  parts->cut_as_kimi = true;
  const auto id_named = [&](const char* name) -> std::optional<std::int32_t> {
    const auto text = names.find(name);
    const ControlToken* token = text ? parts->control.find_text(*text) : nullptr;
    if (token == nullptr) return std::nullopt;
    return token->id;
  };
  parts->bos = id_named("bos_token");
  parts->eos = id_named("eos_token");
  parts->pad = id_named("pad_token");
  return Tokenizer(std::move(parts));
}

}  // namespace tessera
