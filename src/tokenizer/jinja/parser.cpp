#include "tokenizer/jinja/parser.h"

#include <algorithm>
#include <array>
#include <initializer_list>

#include "tokenizer/jinja/expression_parser.h"
#include "tokenizer/jinja/lexer.h"
#include "tokenizer/jinja/token_stream.h"

namespace tessera::jinja {
namespace {

// Statements; expressions are read by expression_parser.h.
class Parser {
 public:
  explicit Parser(std::vector<Token> tokens) : in_(std::move(tokens)) {}

  Block run() {
    try {
      Block block = statements({});
      if (in_.now().kind != TokenKind::kEnd) in_.unexpected("the end of the template");
      return block;
    } catch (Failure& failure) {
      if (failure.line == 0) failure.line = in_.now().line;
      throw;
    }
  }

 private:
  // Up to {% NAME where NAME is one of `ends`; the tag's name is the next token then.
  Block statements(std::initializer_list<std::string_view> ends) {
    const TokenStream::Nested nested(in_);
    Block block;
    for (;;) {
      const int line = in_.now().line;
      switch (in_.now().kind) {
        case TokenKind::kText:
          block.push_back({line, TextStatement{in_.take().text}});
          break;
        case TokenKind::kPrintBegin:
          in_.skip();
          block.push_back({line, PrintStatement{parse_tuple_or_expression(in_)}});
          if (in_.now().kind != TokenKind::kPrintEnd) in_.unexpected("}}");
          in_.skip();
          break;
        case TokenKind::kBlockBegin: {
          in_.skip();
          if (in_.now().kind != TokenKind::kName) in_.unexpected("the name of a tag");
          if (std::ranges::find(ends, in_.now().text) != ends.end()) return block;
          statement(line, block);
          break;
        }
        default:
          if (ends.size() > 0) in_.unexpected("{% " + std::string(*(ends.end() - 1)) + " %}");
          return block;
      }
    }
  }

  void end_tag(std::string_view name) {
    if (!in_.skip_name(name)) in_.unexpected(std::string(name));
    in_.want_block_end();
  }

  void statement(int line, Block& block) {
    const std::string tag = in_.take().text;
    if (tag == "if") return block.push_back({line, if_statement()});
    if (tag == "for") return block.push_back({line, for_statement()});
    if (tag == "set") return block.push_back(set_statement(line));
    if (tag == "macro") return block.push_back({line, macro_statement()});
    if (tag == "call") return block.push_back({line, call_statement()});
    if (tag == "filter") return block.push_back({line, filter_statement()});
    if (tag == "with") return block.push_back({line, with_statement()});
    if (tag == "generation") {
      // Marks what the assistant writes, for training; as text it is its content.
      in_.want_block_end();
      Block inner = statements({"endgeneration"});
      end_tag("endgeneration");
      return block.push_back({line, WithStatement{{}, std::move(inner)}});
    }
    if (tag == "break" || tag == "continue") {
      if (loops_ == 0) fail("{% " + tag + " %} stands outside of a loop.");
      in_.want_block_end();
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
      ExprPtr condition = parse_tuple_or_expression(in_);
      in_.want_block_end();
      Block body = statements({"elif", "else", "endif"});
      made.branches.emplace_back(std::move(condition), std::move(body));
      if (in_.skip_name("elif")) continue;
      if (in_.skip_name("else")) {
        in_.want_block_end();
        made.otherwise = statements({"endif"});
      }
      end_tag("endif");
      return made;
    }
  }

  ForStatement for_statement() {
    ForStatement made;
    made.target = target(false);
    if (!in_.skip_name("in")) in_.unexpected("in");
    made.items = parse_tuple_or_expression(in_, false);
    if (in_.skip_name("if")) made.condition = parse_expression(in_);
    if (in_.is_name("recursive"))
      fail("Recursive loops are not supported in chat templates.", ErrorKind::kUnsupported);
    in_.want_block_end();
    ++loops_;
    made.body = statements({"else", "endfor"});
    --loops_;
    if (in_.skip_name("else")) {
      in_.want_block_end();
      made.otherwise = statements({"endfor"});
    }
    end_tag("endfor");
    return made;
  }

  Statement set_statement(int line) {
    Target to = target(true);
    if (in_.skip_operator("=")) {
      ExprPtr value = parse_tuple_or_expression(in_);
      in_.want_block_end();
      return {line, SetStatement{std::move(to), std::move(value)}};
    }
    ExprPtr filter;
    for (int links = 0; in_.skip_operator("|"); ++links) {
      TokenStream::check_chain(links);
      filter = parse_filter(in_, std::move(filter));
    }
    in_.want_block_end();
    Block body = statements({"endset"});
    end_tag("endset");
    return {line, SetBlockStatement{std::move(to), std::move(filter), std::move(body)}};
  }

  MacroStatement macro_statement() {
    MacroStatement made;
    made.name = in_.want_name("the name of the macro");
    made.parameters = parameters();
    in_.want_block_end();
    made.body = outside_of_loops("endmacro");
    return made;
  }

  CallStatement call_statement() {
    CallStatement made;
    if (in_.is_operator("(")) made.parameters = parameters();
    made.call = parse_expression(in_);
    if (!std::holds_alternative<CallExpr>(made.call->node)) fail("{% call %} wants the call of a macro.");
    in_.want_block_end();
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
    made.filter = parse_filter(in_, nullptr);
    for (int links = 0; in_.skip_operator("|"); ++links) {
      TokenStream::check_chain(links);
      made.filter = parse_filter(in_, std::move(made.filter));
    }
    in_.want_block_end();
    made.body = statements({"endfilter"});
    end_tag("endfilter");
    return made;
  }

  WithStatement with_statement() {
    WithStatement made;
    while (in_.now().kind != TokenKind::kBlockEnd) {
      if (!made.names.empty()) in_.want_operator(",");
      Target name = target(false);
      in_.want_operator("=");
      made.names.emplace_back(std::move(name), parse_expression(in_));
    }
    in_.want_block_end();
    made.body = statements({"endwith"});
    end_tag("endwith");
    return made;
  }

  std::vector<Parameter> parameters() {
    std::vector<Parameter> made;
    in_.want_operator("(");
    while (!in_.is_operator(")")) {
      if (!made.empty()) in_.want_operator(",");
      Parameter parameter{in_.want_name("the name of a parameter"), nullptr};
      if (in_.skip_operator("=")) {
        parameter.otherwise = parse_expression(in_);
      } else if (!made.empty() && made.back().otherwise) {
        fail("The parameter " + parameter.name + " has no default, but the one before it has.");
      }
      made.push_back(std::move(parameter));
    }
    in_.want_operator(")");
    return made;
  }

  Target target(bool with_attribute) {
    std::vector<Target> parts;
    bool is_tuple = false;
    for (;;) {
      if (in_.skip_operator("(")) {
        parts.push_back(target(false));
        in_.want_operator(")");
      } else {
        Target one{in_.want_name("a name to assign to"), {}, {}};
        if (one.name == "true" || one.name == "false" || one.name == "none" || one.name == "True" ||
            one.name == "False" || one.name == "None") {
          fail("Cannot assign to " + one.name + ".");
        }
        if (with_attribute && !is_tuple && in_.skip_operator("."))
          one.attribute = in_.want_name("the name of an attribute");
        parts.push_back(std::move(one));
      }
      if (!in_.skip_operator(",")) break;
      is_tuple = true;
      if (in_.is_name("in") || in_.is_operator("=") || in_.is_operator(")")) break;
    }
    if (!is_tuple) return std::move(parts.front());
    return Target{{}, {}, std::move(parts)};
  }

  TokenStream in_;
  int loops_ = 0;  // that stand around, within one macro
};

}  // namespace

Block parse_template(std::string_view source) { return Parser(tokenize(source)).run(); }

}  // namespace tessera::jinja
