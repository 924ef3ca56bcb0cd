// A compiled pattern of a tokenizer (PCRE2, just-in-time compiled). The patterns are written for other
// engines (Rust's regex, Oniguruma) and are translated first (regex_dialect.h). Const, thread-safe, and blind
// to the locale.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tessera {

class Regex {
 public:
  // `pattern` as the tokenizer's file writes it.
  static Result<Regex> compile(const std::string& pattern);
  // Matches `literal` itself.
  static Result<Regex> compile_literal(const std::string& literal);

  // Calls `found(begin, end)` in bytes for each match, in order; matches do not overlap and are not empty.
  // `text` is valid UTF-8. An error means that the engine's limit was reached.
  template <class Found>
  Result<void> for_each_match(std::string_view text, Found&& found) const {
    const Matcher matcher = start(text);
    std::size_t from = 0;
    while (from < text.size()) {
      TS_TRY(const Span span, next(matcher, text, from));
      if (span.begin == span.end) break;
      found(span.begin, span.end);
      from = span.end;
    }
    return {};
  }

 private:
  struct Code;     // the compiled pattern
  struct Scratch;  // what one walk over a text needs
  struct Freed {
    void operator()(Code* code) const;
    void operator()(Scratch* scratch) const;
  };
  using Matcher = std::unique_ptr<Scratch, Freed>;
  struct Span {
    std::size_t begin = 0, end = 0;  // empty: no further match
  };

  static Result<Regex> compile_translated(const std::string& translated, const std::string& shown);
  Matcher start(std::string_view text) const;
  Result<Span> next(const Matcher& matcher, std::string_view text, std::size_t from) const;

  std::unique_ptr<Code, Freed> code_;
};

}  // namespace tessera
