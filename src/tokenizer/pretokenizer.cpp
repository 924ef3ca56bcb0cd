#include "tokenizer/pretokenizer.h"

#include "tokenizer/unicode/characters.h"
#include "tokenizer/unicode/utf8.h"

namespace tessera {

const char* const kGpt2Pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

const char* const kKimiPattern =
    R"([\p{Han}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+)"
    R"(|\s+(?!\S))"
    R"(|\s+)";

namespace {

// Turns the alternation of gaps and matches into pieces.
class PieceMaker {
 public:
  PieceMaker(const SplitRule& rule, std::string_view text, std::vector<std::string_view>& pieces)
      : rule_(rule), text_(text), pieces_(pieces) {}

  void part(std::size_t begin, std::size_t end, bool is_match) {
    if (begin == end) return;
    if (rule_.invert) is_match = !is_match;
    switch (rule_.behavior) {
      case SplitBehavior::kIsolated:
        put(begin, end);
        break;
      case SplitBehavior::kRemoved:
        if (!is_match) put(begin, end);
        break;
      case SplitBehavior::kContiguous:
        if (is_match && last_was_match_) {
          grow_last(end);
        } else {
          put(begin, end);
        }
        break;
      case SplitBehavior::kMergedWithPrevious:
        if (is_match && has_piece_ && !last_was_match_) {
          grow_last(end);
        } else {
          put(begin, end);
        }
        break;
      case SplitBehavior::kMergedWithNext:
        if (!is_match && last_was_match_) {
          grow_last(end);
        } else {
          put(begin, end);
        }
        break;
    }
    last_was_match_ = is_match;
  }

 private:
  void put(std::size_t begin, std::size_t end) {
    pieces_.push_back(text_.substr(begin, end - begin));
    last_begin_ = begin;
    has_piece_ = true;
  }
  void grow_last(std::size_t end) { pieces_.back() = text_.substr(last_begin_, end - last_begin_); }

  const SplitRule& rule_;
  std::string_view text_;
  std::vector<std::string_view>& pieces_;
  std::size_t last_begin_ = 0;
  bool has_piece_ = false;
  bool last_was_match_ = false;
};

Result<void> split_by(const SplitRule& rule, std::string_view text, std::vector<std::string_view>& pieces) {
  PieceMaker maker(rule, text, pieces);
  std::size_t done = 0;
  TS_TRY(rule.pattern.for_each_match(text, [&](std::size_t begin, std::size_t end) {
    maker.part(done, begin, false);
    maker.part(begin, end, true);
    done = end;
  }));
  maker.part(done, text.size(), false);
  return {};
}

}  // namespace

Result<void> PreTokenizer::split(std::string_view text, std::vector<std::string_view>& pieces) const {
  if (text.empty()) return {};
  if (rules.size() == 1) return split_by(rules.front(), text, pieces);
  std::vector<std::string_view> before{text}, after;
  for (const SplitRule& rule : rules) {
    after.clear();
    for (const std::string_view piece : before) TS_TRY(split_by(rule, piece, after));
    before.swap(after);
  }
  pieces.insert(pieces.end(), before.begin(), before.end());
  return {};
}

std::vector<std::size_t> kimi_cuts(std::string_view text) {
  constexpr int kMaxRun = 25'000;
  constexpr int kMaxCharacters = 400'000;
  std::vector<std::size_t> cuts;
  if (text.size() <= kMaxRun) return cuts;
  int characters = 0;  // since the last 400,000 cut
  int run = 0;         // characters of one kind, up to and with this one
  bool run_is_blank = false;
  for (std::size_t at = 0; at < text.size();) {
    if (characters == kMaxCharacters) {
      cuts.push_back(at);
      characters = 0;
      run = 0;
    }
    const Utf8Prefix character = read_utf8(text.substr(at));
    const bool blank = is_python_space(character.point);
    if (run == 0 || blank != run_is_blank) {
      run = 1;
      run_is_blank = blank;
    } else if (++run > kMaxRun) {
      cuts.push_back(at);
      run = 1;
    }
    ++characters;
    at += static_cast<std::size_t>(character.bytes);
  }
  return cuts;
}

}  // namespace tessera
