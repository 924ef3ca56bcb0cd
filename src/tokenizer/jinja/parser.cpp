#include "tokenizer/jinja/parser.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "tokenizer/jinja/lexer.h"

namespace tessera::jinja {
namespace {

constexpr int kMaxDepth = 150;  // of nested blocks and brackets; each costs the parser some ten stack frames
constexpr int kMaxChain = 400;  // a + b + c ...: a tree that leans to the left, walked and freed recursively

class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  Block run() {
    try {
      Block block = statements({});
      if (now().kind != TokenKind::kEnd) unexpected("the end of the template");
      return block;
    } catch (Failure& failure) {
      if (failure.line == 0) failure.line = now().line;
      throw;
    }
  }

 private:
  // --- tokens

  const Token& now() const { return tokens_[at_]; }
  const Token& after() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
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

  struct Nested {
    explicit Nested(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > kMaxDepth)
        fail("The template is nested more than 150 levels deep.", ErrorKind::kTooLarge);
    }
    ~Nested() { --parser_.depth_; }
    Parser& parser_;
  };

  static void check_chain(int links) {
    if (links > kMaxChain) fail("More than 400 operators in a row.", ErrorKind::kTooLarge);
  }

  template <class Node>
  ExprPtr make(int line, Node node) const {
    return ExprPtr(new Expr{line, std::move(node)});
  }

  // --- statements

  // Up to {% NAME where NAME is one of `ends`; the tag's name is the next token then.
  Block statements(std::initializer_list<std::string_view> ends) {
    const Nested nested(*this);
    Block block;
    for (;;) {
      const int line = now().line;
      switch (now().kind) {
        case TokenKind::kText:
          block.push_back({line, TextStatement{take().text}});
          break;
        case TokenKind::kPrintBegin:
          ++at_;
          block.push_back({line, PrintStatement{tuple_or_expression()}});
          if (now().kind != TokenKind::kPrintEnd) unexpected("}}");
          ++at_;
          break;
        case TokenKind::kBlockBegin: {
          ++at_;
          if (now().kind != TokenKind::kName) unexpected("the name of a tag");
          if (std::ranges::find(ends, now().text) != ends.end()) return block;
          statement(line, block);
          break;
        }
        default:
          if (ends.size() > 0) unexpected("{% " + std::string(*(ends.end() - 1)) + " %}");
          return block;
      }
    }
  }

  void end_tag(std::string_view name) {
    if (!skip_name(name)) unexpected(std::string(name));
    want_block_end();
  }

  void statement(int line, Block& block) {
    const std::string tag = take().text;
    if (tag == "if") return block.push_back({line, if_statement()});
    if (tag == "for") return block.push_back({line, for_statement()});
    if (tag == "set") return block.push_back(set_statement(line));
    if (tag == "macro") return block.push_back({line, macro_statement()});
    if (tag == "call") return block.push_back({line, call_statement()});
    if (tag == "filter") return block.push_back({line, filter_statement()});
    if (tag == "with") return block.push_back({line, with_statement()});
    if (tag == "generation") {
      // Marks what the assistant writes, for training; as text it is its content.
      want_block_end();
      Block inner = statements({"endgeneration"});
      end_tag("endgeneration");
      return block.push_back({line, WithStatement{{}, std::move(inner)}});
    }
    if (tag == "break" || tag == "continue") {
      if (loops_ == 0) fail("{% " + tag + " %} stands outside of a loop.");
      want_block_end();
      if (tag == "break") return block.push_back({line, BreakStatement{}});
      return block.push_back({line, ContinueStatement{}});
    }
    static constexpr std::array<std::string_view, 8> kOther = {"include", "import",     "from", "extends",
                                                               "block",   "autoescape", "do",   "trans"};
    const bool known = std::ranges::find(kOther, tag) != kOther.end();
    fail("The tag {% " + tag + " %} is " + (known ? "not supported in chat templates." : "unknown."),
         ErrorKind::kUnsupported);
  }

  IfStatement if_statement() {
    IfStatement made;
    for (;;) {
      ExprPtr condition = tuple_or_expression();
      want_block_end();
      Block body = statements({"elif", "else", "endif"});
      made.branches.emplace_back(std::move(condition), std::move(body));
      if (skip_name("elif")) continue;
      if (skip_name("else")) {
        want_block_end();
        made.otherwise = statements({"endif"});
      }
      end_tag("endif");
      return made;
    }
  }

  ForStatement for_statement() {
    ForStatement made;
    made.target = target(false);
    if (!skip_name("in")) unexpected("in");
    made.items = tuple_or_expression(false);
    if (skip_name("if")) made.condition = expression();
    if (is_name("recursive"))
      fail("Recursive loops are not supported in chat templates.", ErrorKind::kUnsupported);
    want_block_end();
    ++loops_;
    made.body = statements({"else", "endfor"});
    --loops_;
    if (skip_name("else")) {
      want_block_end();
      made.otherwise = statements({"endfor"});
    }
    end_tag("endfor");
    return made;
  }

  Statement set_statement(int line) {
    Target to = target(true);
    if (skip_operator("=")) {
      ExprPtr value = tuple_or_expression();
      want_block_end();
      return {line, SetStatement{std::move(to), std::move(value)}};
    }
    ExprPtr filter;
    for (int links = 0; skip_operator("|"); ++links) {
      check_chain(links);
      filter = filter_after_bar(std::move(filter));
    }
    want_block_end();
    Block body = statements({"endset"});
    end_tag("endset");
    return {line, SetBlockStatement{std::move(to), std::move(filter), std::move(body)}};
  }

  MacroStatement macro_statement() {
    MacroStatement made;
    made.name = want_name("the name of the macro");
    made.parameters = parameters();
    want_block_end();
    made.body = outside_of_loops("endmacro");
    return made;
  }

  CallStatement call_statement() {
    CallStatement made;
    if (is_operator("(")) made.parameters = parameters();
    made.call = expression();
    if (!std::holds_alternative<CallExpr>(made.call->node)) fail("{% call %} wants the call of a macro.");
    want_block_end();
    made.body = outside_of_loops("endcall");
    return made;
  }

  // A macro's body may not break out of a loop around its definition.
  Block outside_of_loops(const std::string& end) {
    const int loops = std::exchange(loops_, 0);
    Block body = statements({end});
    loops_ = loops;
    end_tag(end);
    return body;
  }

  FilterStatement filter_statement() {
    FilterStatement made;
    made.filter = filter_after_bar(nullptr);
    for (int links = 0; skip_operator("|"); ++links) {
      check_chain(links);
      made.filter = filter_after_bar(std::move(made.filter));
    }
    want_block_end();
    made.body = statements({"endfilter"});
    end_tag("endfilter");
    return made;
  }

  WithStatement with_statement() {
    WithStatement made;
    while (now().kind != TokenKind::kBlockEnd) {
      if (!made.names.empty()) want_operator(",");
      Target name = target(false);
      want_operator("=");
      made.names.emplace_back(std::move(name), expression());
    }
    want_block_end();
    made.body = statements({"endwith"});
    end_tag("endwith");
    return made;
  }

  std::vector<Parameter> parameters() {
    std::vector<Parameter> made;
    want_operator("(");
    while (!is_operator(")")) {
      if (!made.empty()) want_operator(",");
      Parameter parameter{want_name("the name of a parameter"), nullptr};
      if (skip_operator("=")) {
        parameter.otherwise = expression();
      } else if (!made.empty() && made.back().otherwise) {
        fail("The parameter " + parameter.name + " has no default, but the one before it has.");
      }
      made.push_back(std::move(parameter));
    }
    want_operator(")");
    return made;
  }

  Target target(bool with_attribute) {
    std::vector<Target> parts;
    bool is_tuple = false;
    for (;;) {
      if (skip_operator("(")) {
        parts.push_back(target(false));
        want_operator(")");
      } else {
        Target one{want_name("a name to assign to"), {}, {}};
        if (one.name == "true" || one.name == "false" || one.name == "none" || one.name == "True" ||
            one.name == "False" || one.name == "None") {
          fail("Cannot assign to " + one.name + ".");
        }
        if (with_attribute && !is_tuple && skip_operator("."))
          one.attribute = want_name("the name of an attribute");
        parts.push_back(std::move(one));
      }
      if (!skip_operator(",")) break;
      is_tuple = true;
      if (is_name("in") || is_operator("=") || is_operator(")")) break;
    }
    if (!is_tuple) return std::move(parts.front());
    return Target{{}, {}, std::move(parts)};
  }

  // --- expressions

  // a, b, c without brackets is a tuple.
  ExprPtr tuple_or_expression(bool with_conditional = true) {
    const int line = now().line;
    ExprPtr first = with_conditional ? expression() : or_expression();
    if (!is_operator(",")) return first;
    ListExpr tuple{{}, true};
    tuple.items.push_back(std::move(first));
    while (skip_operator(",")) {
      if (ends_tuple()) break;
      tuple.items.push_back(with_conditional ? expression() : or_expression());
    }
    return make(line, std::move(tuple));
  }
  bool ends_tuple() const {
    return now().kind == TokenKind::kPrintEnd || now().kind == TokenKind::kBlockEnd || is_operator(")") ||
           is_name("if");
  }

  ExprPtr expression() {
    const Nested nested(*this);
    ExprPtr value = or_expression();
    for (int links = 0; is_name("if"); ++links) {
      check_chain(links);
      const int line = take().line;
      ExprPtr condition = or_expression();
      ExprPtr otherwise;
      if (skip_name("else")) otherwise = expression();
      value = make(line, ConditionalExpr{std::move(condition), std::move(value), std::move(otherwise)});
    }
    return value;
  }

  ExprPtr or_expression() {
    ExprPtr left = and_expression();
    for (int links = 0; is_name("or"); ++links) {
      check_chain(links);
      const int line = take().line;
      ExprPtr right = and_expression();
      left = make(line, BinaryExpr{"or", std::move(left), std::move(right)});
    }
    return left;
  }

  ExprPtr and_expression() {
    ExprPtr left = not_expression();
    for (int links = 0; is_name("and"); ++links) {
      check_chain(links);
      const int line = take().line;
      ExprPtr right = not_expression();
      left = make(line, BinaryExpr{"and", std::move(left), std::move(right)});
    }
    return left;
  }

  ExprPtr not_expression() {
    if (is_name("not")) {
      const Nested nested(*this);
      const int line = take().line;
      return make(line, UnaryExpr{"not", not_expression()});
    }
    return comparison();
  }

  ExprPtr comparison() {
    const int line = now().line;
    CompareExpr made{sum(), {}};
    for (;;) {
      std::string op;
      for (const std::string_view known : {"==", "!=", "<", "<=", ">", ">="}) {
        if (is_operator(known)) op = known;
      }
      if (is_name("in")) op = "in";
      if (is_name("not") && after().kind == TokenKind::kName && after().text == "in") {
        ++at_;
        op = "not in";
      }
      if (op.empty()) break;
      ++at_;
      made.rest.emplace_back(op, sum());
    }
    if (made.rest.empty()) return std::move(made.first);
    return make(line, std::move(made));
  }

  ExprPtr sum() {
    return left_associative({"+", "-"}, [this] { return concatenation(); });
  }
  ExprPtr concatenation() {
    const int line = now().line;
    ConcatExpr made;
    made.parts.push_back(product());
    while (skip_operator("~")) made.parts.push_back(product());
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
      check_chain(links);
      const auto op =
          std::ranges::find_if(operators, [&](std::string_view text) { return is_operator(text); });
      if (op == operators.end()) return left;
      const int line = take().line;
      ExprPtr right = operand();
      left = make(line, BinaryExpr{std::string(*op), std::move(left), std::move(right)});
    }
  }

  ExprPtr unary(bool with_filters) {
    const Nested nested(*this);
    const int line = now().line;
    ExprPtr value;
    if (is_operator("-") || is_operator("+")) {
      std::string op = take().text;
      value = make(line, UnaryExpr{std::move(op), unary(false)});
    } else {
      value = primary();
    }
    value = postfix(std::move(value));
    return with_filters ? filters_and_tests(std::move(value)) : std::move(value);
  }

  ExprPtr primary() {
    const Token token = now();
    switch (token.kind) {
      case TokenKind::kName: {
        ++at_;
        if (token.text == "true" || token.text == "True") return make(token.line, LiteralExpr{true});
        if (token.text == "false" || token.text == "False") return make(token.line, LiteralExpr{false});
        if (token.text == "none" || token.text == "None") return make(token.line, LiteralExpr{None{}});
        return make(token.line, NameExpr{token.text});
      }
      case TokenKind::kString: {
        std::string text;
        while (now().kind == TokenKind::kString) text += take().text;
        return make(token.line, LiteralExpr{scaffold(text)});
      }
      case TokenKind::kInteger:
      case TokenKind::kFloat:
        ++at_;
        return make(token.line, LiteralExpr{token.number});
      default:
        break;
    }
    if (skip_operator("(")) {
      if (skip_operator(")")) return make(token.line, ListExpr{{}, true});
      ExprPtr value = tuple_or_expression();
      want_operator(")");
      return value;
    }
    if (skip_operator("[")) {
      ListExpr list{{}, false};
      while (!is_operator("]")) {
        if (!list.items.empty()) want_operator(",");
        if (is_operator("]")) break;
        list.items.push_back(expression());
      }
      want_operator("]");
      return make(token.line, std::move(list));
    }
    if (skip_operator("{")) {
      DictExpr dict;
      while (!is_operator("}")) {
        if (!dict.items.empty()) want_operator(",");
        if (is_operator("}")) break;
        ExprPtr key = expression();
        want_operator(":");
        dict.items.emplace_back(std::move(key), expression());
      }
      want_operator("}");
      return make(token.line, std::move(dict));
    }
    unexpected("a value");
  }

  ExprPtr postfix(ExprPtr value) {
    for (int links = 0;; ++links) {
      check_chain(links);
      const int line = now().line;
      if (skip_operator(".")) {
        if (now().kind == TokenKind::kInteger) {
          ExprPtr index = make(line, LiteralExpr{take().number});
          value = make(line, ItemExpr{std::move(value), std::move(index)});
        } else {
          value = make(line, AttributeExpr{std::move(value), want_name("the name of an attribute")});
        }
      } else if (skip_operator("[")) {
        value = subscript(line, std::move(value));
      } else if (is_operator("(")) {
        value = make(line, CallExpr{std::move(value), arguments()});
      } else {
        return value;
      }
    }
  }

  ExprPtr subscript(int line, ExprPtr object) {
    ExprPtr start;
    if (!is_operator(":")) {
      start = tuple_or_expression();
      if (skip_operator("]")) return make(line, ItemExpr{std::move(object), std::move(start)});
    }
    SliceExpr slice{std::move(object), std::move(start), nullptr, nullptr};
    want_operator(":");
    if (!is_operator("]") && !is_operator(":")) slice.stop = expression();
    if (skip_operator(":") && !is_operator("]")) slice.step = expression();
    want_operator("]");
    return make(line, std::move(slice));
  }

  ExprPtr filters_and_tests(ExprPtr value) {
    for (int links = 0;; ++links) {
      check_chain(links);
      if (skip_operator("|")) {
        value = filter_after_bar(std::move(value));
      } else if (is_name("is")) {
        value = test(std::move(value));
      } else if (is_operator("(")) {
        const int line = now().line;
        value = make(line, CallExpr{std::move(value), arguments()});
      } else {
        return value;
      }
    }
  }

  std::string dotted_name(const std::string& what) {
    std::string name = want_name(what);
    while (skip_operator(".")) name += "." + want_name(what);
    return name;
  }

  ExprPtr filter_after_bar(ExprPtr input) {
    const int line = now().line;
    FilterExpr made{std::move(input), dotted_name("the name of a filter"), {}};
    if (is_operator("(")) made.arguments = arguments();
    return make(line, std::move(made));
  }

  ExprPtr test(ExprPtr input) {
    const int line = take().line;
    const bool negated = skip_name("not");
    TestExpr made{std::move(input), dotted_name("the name of a test"), {}, negated};
    if (is_operator("(")) {
      made.arguments = arguments();
    } else if (starts_test_argument()) {
      made.arguments.positional.push_back(postfix(primary()));
    }
    return make(line, std::move(made));
  }

  // `x is divisibleby 3`, but not `x is defined and y`.
  bool starts_test_argument() const {
    const TokenKind kind = now().kind;
    if (kind == TokenKind::kString || kind == TokenKind::kInteger || kind == TokenKind::kFloat) return true;
    if (is_operator("[") || is_operator("{")) return true;
    if (kind != TokenKind::kName) return false;
    for (const std::string_view word : {"else", "or", "and", "if", "is", "in", "not", "recursive"}) {
      if (now().text == word) return false;
    }
    return true;
  }

  Arguments arguments() {
    const Nested nested(*this);
    Arguments made;
    want_operator("(");
    bool first = true;
    while (!is_operator(")")) {
      if (!first) {
        want_operator(",");
        if (is_operator(")")) break;
      }
      first = false;
      if (skip_operator("*")) {
        made.star = expression();
      } else if (skip_operator("**")) {
        made.double_star = expression();
      } else if (now().kind == TokenKind::kName && after().kind == TokenKind::kOperator &&
                 after().text == "=") {
        std::string name = take().text;
        ++at_;
        made.named.emplace_back(std::move(name), expression());
      } else {
        if (!made.named.empty() || made.double_star)
          fail("An argument without a name follows one with a name.");
        made.positional.push_back(expression());
      }
    }
    want_operator(")");
    return made;
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
  int loops_ = 0;
};

}  // namespace

Block parse_template(std::string_view source) { return Parser(tokenize(source)).run(); }

}  // namespace tessera::jinja
