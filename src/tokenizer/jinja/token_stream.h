// The tokens of a template as its parsers walk over them, and the limits that keep a hostile template from
// exhausting the stack.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/jinja/lexer.h"
#include "tokenizer/jinja/value.h"

namespace tessera::jinja {

class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& now() const { return tokens_[at_]; }
  const Token& after() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  void skip() { ++at_; }
  Token take() { return tokens_[now().kind == TokenKind::kEnd ? at_ : at_++]; }
  bool is_operator(std::string_view text) const {
    return now().kind == TokenKind::kOperator && now().text == text;
  }
  bool is_name(std::string_view text) const { return now().kind == TokenKind::kName && now().text == text; }
  bool skip_operator(std::string_view text) {
    if (!is_operator(text)) return false;
    ++at_;
    return true;
  }
  bool skip_name(std::string_view text) {
    if (!is_name(text)) return false;
    ++at_;
    return true;
  }
  [[noreturn]] void unexpected(const std::string& wanted) const {
    const Token& token = now();
    std::string found = token.text;
    if (token.kind == TokenKind::kEnd) found = "the end of the template";
    if (token.kind == TokenKind::kBlockEnd) found = "%}";
    if (token.kind == TokenKind::kPrintEnd) found = "}}";
    if (token.kind == TokenKind::kBlockBegin) found = "{%";
    fail("Expected " + wanted + ", found " + found + ".");
  }
  void want_operator(const std::string& text) {
    if (!skip_operator(text)) unexpected(text);
  }
  std::string want_name(const std::string& what) {
    if (now().kind != TokenKind::kName) unexpected(what);
    return take().text;
  }
  void want_block_end() {
    if (now().kind != TokenKind::kBlockEnd) unexpected("%}");
    ++at_;
  }

  // Holds one level of nesting while it lives.
  class Nested {
   public:
    explicit Nested(TokenStream& stream) : stream_(stream) {
      if (++stream_.depth_ > kMaxDepth)
        fail("The template is nested more than 150 levels deep.", ErrorKind::kTooLarge);
    }
    ~Nested() { --stream_.depth_; }
    Nested(const Nested&) = delete;

   private:
    TokenStream& stream_;
  };

  static void check_chain(int links) {
    if (links > kMaxChain) fail("More than 400 operators in a row.", ErrorKind::kTooLarge);
  }

 private:
  static constexpr int kMaxDepth = 150;  // of nested blocks and brackets; each costs some ten stack frames
  static constexpr int kMaxChain =
      400;  // a + b + c ...: a tree that leans left, walked and freed recursively

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace tessera::jinja
