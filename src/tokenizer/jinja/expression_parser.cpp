#include "tokenizer/jinja/expression_parser.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <utility>

namespace tessera::jinja {
namespace {

class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& in) : in_(in) {}

  // a, b, c without brackets is a tuple.
  ExprPtr tuple_or_expression(bool with_conditional = true) {
    const int line = in_.now().line;
    ExprPtr first = with_conditional ? expression() : or_expression();
    if (!in_.is_operator(",")) return first;
    ListExpr tuple{{}, true};
    tuple.items.push_back(std::move(first));
    while (in_.skip_operator(",")) {
      if (ends_tuple()) break;
      tuple.items.push_back(with_conditional ? expression() : or_expression());
    }
    return make(line, std::move(tuple));
  }
  ExprPtr expression() {
    const TokenStream::Nested nested(in_);
    ExprPtr value = or_expression();
    for (int links = 0; in_.is_name("if"); ++links) {
      TokenStream::check_chain(links);
      const int line = in_.take().line;
      ExprPtr condition = or_expression();
      ExprPtr otherwise;
      if (in_.skip_name("else")) otherwise = expression();
      value = make(line, ConditionalExpr{std::move(condition), std::move(value), std::move(otherwise)});
    }
    return value;
  }

  ExprPtr filter_after_bar(ExprPtr input) {
    const int line = in_.now().line;
    FilterExpr made{std::move(input), dotted_name("the name of a filter"), {}};
    if (in_.is_operator("(")) made.arguments = arguments();
    return make(line, std::move(made));
  }

 private:
  bool ends_tuple() const {
    return in_.now().kind == TokenKind::kPrintEnd || in_.now().kind == TokenKind::kBlockEnd ||
           in_.is_operator(")") || in_.is_name("if");
  }

  ExprPtr or_expression() {
    ExprPtr left = and_expression();
    for (int links = 0; in_.is_name("or"); ++links) {
      TokenStream::check_chain(links);
      const int line = in_.take().line;
      ExprPtr right = and_expression();
      left = make(line, BinaryExpr{"or", std::move(left), std::move(right)});
    }
    return left;
  }

  ExprPtr and_expression() {
    ExprPtr left = not_expression();
    for (int links = 0; in_.is_name("and"); ++links) {
      TokenStream::check_chain(links);
      const int line = in_.take().line;
      ExprPtr right = not_expression();
      left = make(line, BinaryExpr{"and", std::move(left), std::move(right)});
    }
    return left;
  }

  ExprPtr not_expression() {
    if (in_.is_name("not")) {
      const TokenStream::Nested nested(in_);
      const int line = in_.take().line;
      return make(line, UnaryExpr{"not", not_expression()});
    }
    return comparison();
  }

  ExprPtr comparison() {
    const int line = in_.now().line;
    CompareExpr made{sum(), {}};
    for (;;) {
      std::string op;
      for (const std::string_view known : {"==", "!=", "<", "<=", ">", ">="}) {
        if (in_.is_operator(known)) op = known;
      }
      if (in_.is_name("in")) op = "in";
      if (in_.is_name("not") && in_.after().kind == TokenKind::kName && in_.after().text == "in") {
        in_.skip();
        op = "not in";
      }
      if (op.empty()) break;
      in_.skip();
      made.rest.emplace_back(op, sum());
    }
    if (made.rest.empty()) return std::move(made.first);
    return make(line, std::move(made));
  }

  ExprPtr sum() {
    return left_associative({"+", "-"}, [this] { return concatenation(); });
  }
  ExprPtr concatenation() {
    const int line = in_.now().line;
    ConcatExpr made;
    made.parts.push_back(product());
    while (in_.skip_operator("~")) made.parts.push_back(product());
    if (made.parts.size() == 1) return std::move(made.parts.front());
    return make(line, std::move(made));
  }
  ExprPtr product() {
    return left_associative({"*", "/", "//", "%"}, [this] { return power(); });
  }
  ExprPtr power() {
    return left_associative({"**"}, [this] { return unary(true); });
  }

  template <class Operand>
  ExprPtr left_associative(std::initializer_list<std::string_view> operators, Operand operand) {
    ExprPtr left = operand();
    for (int links = 0;; ++links) {
      TokenStream::check_chain(links);
      const auto op =
          std::ranges::find_if(operators, [&](std::string_view text) { return in_.is_operator(text); });
      if (op == operators.end()) return left;
      const int line = in_.take().line;
      ExprPtr right = operand();
      left = make(line, BinaryExpr{std::string(*op), std::move(left), std::move(right)});
    }
  }

  ExprPtr unary(bool with_filters) {
    const TokenStream::Nested nested(in_);
    const int line = in_.now().line;
    ExprPtr value;
    if (in_.is_operator("-") || in_.is_operator("+")) {
      std::string op = in_.take().text;
      value = make(line, UnaryExpr{std::move(op), unary(false)});
    } else {
      value = primary();
    }
    value = postfix(std::move(value));
    return with_filters ? filters_and_tests(std::move(value)) : std::move(value);
  }

  ExprPtr primary() {
    const Token token = in_.now();
    switch (token.kind) {
      case TokenKind::kName: {
        in_.skip();
        if (token.text == "true" || token.text == "True") return make(token.line, LiteralExpr{true});
        if (token.text == "false" || token.text == "False") return make(token.line, LiteralExpr{false});
        if (token.text == "none" || token.text == "None") return make(token.line, LiteralExpr{None{}});
        return make(token.line, NameExpr{token.text});
      }
      case TokenKind::kString: {
        std::string text;
        while (in_.now().kind == TokenKind::kString) text += in_.take().text;
        return make(token.line, LiteralExpr{scaffold(text)});
      }
      case TokenKind::kInteger:
      case TokenKind::kFloat:
        in_.skip();
        return make(token.line, LiteralExpr{token.number});
      default:
        break;
    }
    if (in_.skip_operator("(")) {
      if (in_.skip_operator(")")) return make(token.line, ListExpr{{}, true});
      ExprPtr value = tuple_or_expression();
      in_.want_operator(")");
      return value;
    }
    if (in_.skip_operator("[")) {
      ListExpr list{{}, false};
      while (!in_.is_operator("]")) {
        if (!list.items.empty()) in_.want_operator(",");
        if (in_.is_operator("]")) break;
        list.items.push_back(expression());
      }
      in_.want_operator("]");
      return make(token.line, std::move(list));
    }
    if (in_.skip_operator("{")) {
      DictExpr dict;
      while (!in_.is_operator("}")) {
        if (!dict.items.empty()) in_.want_operator(",");
        if (in_.is_operator("}")) break;
        ExprPtr key = expression();
        in_.want_operator(":");
        dict.items.emplace_back(std::move(key), expression());
      }
      in_.want_operator("}");
      return make(token.line, std::move(dict));
    }
    in_.unexpected("a value");
  }

  ExprPtr postfix(ExprPtr value) {
    for (int links = 0;; ++links) {
      TokenStream::check_chain(links);
      const int line = in_.now().line;
      if (in_.skip_operator(".")) {
        if (in_.now().kind == TokenKind::kInteger) {
          ExprPtr index = make(line, LiteralExpr{in_.take().number});
          value = make(line, ItemExpr{std::move(value), std::move(index)});
        } else {
          value = make(line, AttributeExpr{std::move(value), in_.want_name("the name of an attribute")});
        }
      } else if (in_.skip_operator("[")) {
        value = subscript(line, std::move(value));
      } else if (in_.is_operator("(")) {
        value = make(line, CallExpr{std::move(value), arguments()});
      } else {
        return value;
      }
    }
  }

  ExprPtr subscript(int line, ExprPtr object) {
    ExprPtr start;
    if (!in_.is_operator(":")) {
      start = tuple_or_expression();
      if (in_.skip_operator("]")) return make(line, ItemExpr{std::move(object), std::move(start)});
    }
    SliceExpr slice{std::move(object), std::move(start), nullptr, nullptr};
    in_.want_operator(":");
    if (!in_.is_operator("]") && !in_.is_operator(":")) slice.stop = expression();
    if (in_.skip_operator(":") && !in_.is_operator("]")) slice.step = expression();
    in_.want_operator("]");
    return make(line, std::move(slice));
  }

  ExprPtr filters_and_tests(ExprPtr value) {
    for (int links = 0;; ++links) {
      TokenStream::check_chain(links);
      if (in_.skip_operator("|")) {
        value = filter_after_bar(std::move(value));
      } else if (in_.is_name("is")) {
        value = test(std::move(value));
      } else if (in_.is_operator("(")) {
        const int line = in_.now().line;
        value = make(line, CallExpr{std::move(value), arguments()});
      } else {
        return value;
      }
    }
  }

  std::string dotted_name(const std::string& what) {
    std::string name = in_.want_name(what);
    while (in_.skip_operator(".")) name += "." + in_.want_name(what);
    return name;
  }

  ExprPtr test(ExprPtr input) {
    const int line = in_.take().line;
    const bool negated = in_.skip_name("not");
    TestExpr made{std::move(input), dotted_name("the name of a test"), {}, negated};
    if (in_.is_operator("(")) {
      made.arguments = arguments();
    } else if (starts_test_argument()) {
      made.arguments.positional.push_back(postfix(primary()));
    }
    return make(line, std::move(made));
  }

  // `x is divisibleby 3`, but not `x is defined and y`.
  bool starts_test_argument() const {
    const TokenKind kind = in_.now().kind;
    if (kind == TokenKind::kString || kind == TokenKind::kInteger || kind == TokenKind::kFloat) return true;
    if (in_.is_operator("[") || in_.is_operator("{")) return true;
    if (kind != TokenKind::kName) return false;
    for (const std::string_view word : {"else", "or", "and", "if", "is", "in", "not", "recursive"}) {
      if (in_.now().text == word) return false;
    }
    return true;
  }

  Arguments arguments() {
    const TokenStream::Nested nested(in_);
    Arguments made;
    in_.want_operator("(");
    bool first = true;
    while (!in_.is_operator(")")) {
      if (!first) {
        in_.want_operator(",");
        if (in_.is_operator(")")) break;
      }
      first = false;
      if (in_.skip_operator("*")) {
        made.star = expression();
      } else if (in_.skip_operator("**")) {
        made.double_star = expression();
      } else if (in_.now().kind == TokenKind::kName && in_.after().kind == TokenKind::kOperator &&
                 in_.after().text == "=") {
        std::string name = in_.take().text;
        in_.skip();
        made.named.emplace_back(std::move(name), expression());
      } else {
        if (!made.named.empty() || made.double_star)
          fail("An argument without a name follows one with a name.");
        made.positional.push_back(expression());
      }
    }
    in_.want_operator(")");
    return made;
  }

  template <class Node>
  ExprPtr make(int line, Node node) const {
    return ExprPtr(new Expr{line, std::move(node)});
  }

  TokenStream& in_;
};

}  // namespace

ExprPtr parse_expression(TokenStream& in) { return ExpressionParser(in).expression(); }

ExprPtr parse_tuple_or_expression(TokenStream& in, bool with_conditional) {
  return ExpressionParser(in).tuple_or_expression(with_conditional);
}

ExprPtr parse_filter(TokenStream& in, ExprPtr input) {
  return ExpressionParser(in).filter_after_bar(std::move(input));
}

}  // namespace tessera::jinja
