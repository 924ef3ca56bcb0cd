// A parsed template: plain data, made by the parser, walked by the interpreter.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tokenizer/jinja/value.h"

namespace tessera::jinja {

struct Expr;
using ExprPtr = std::unique_ptr<const Expr>;

struct Arguments {
  std::vector<ExprPtr> positional;
  std::vector<std::pair<std::string, ExprPtr>> named;
  ExprPtr star, double_star;  // *list, **dict; may be null
};

struct LiteralExpr {
  Value value;
};
struct NameExpr {
  std::string name;
};
struct ListExpr {
  std::vector<ExprPtr> items;
  bool is_tuple;
};
struct DictExpr {
  std::vector<std::pair<ExprPtr, ExprPtr>> items;
};
struct UnaryExpr {
  std::string op;  // "-", "+", "not"
  ExprPtr operand;
};
struct BinaryExpr {
  std::string op;  // "+", "-", "*", "/", "//", "%", "**", "and", "or"
  ExprPtr left, right;
};
struct ConcatExpr {
  std::vector<ExprPtr> parts;  // joined by ~
};
struct CompareExpr {
  ExprPtr first;
  std::vector<std::pair<std::string, ExprPtr>> rest;  // "==", "!=", "<", "<=", ">", ">=", "in", "not in"
};
struct ConditionalExpr {
  ExprPtr condition, then, otherwise;  // otherwise may be null
};
struct AttributeExpr {
  ExprPtr object;
  std::string name;
};
struct ItemExpr {
  ExprPtr object, index;
};
struct SliceExpr {
  ExprPtr object, start, stop, step;  // the last three may be null
};
struct CallExpr {
  ExprPtr callee;
  Arguments arguments;
};
struct FilterExpr {
  ExprPtr input;  // null in {% filter %} and {% set x | f %}: the text of the block
  std::string name;
  Arguments arguments;
};
struct TestExpr {
  ExprPtr input;
  std::string name;
  Arguments arguments;
  bool negated;
};

struct Expr {
  int line;
  std::variant<LiteralExpr, NameExpr, ListExpr, DictExpr, UnaryExpr, BinaryExpr, ConcatExpr, CompareExpr,
               ConditionalExpr, AttributeExpr, ItemExpr, SliceExpr, CallExpr, FilterExpr, TestExpr>
      node;
};

struct Statement;
using Block = std::vector<Statement>;

// What a for or set assigns to: a name, names in a tuple (possibly nested), or an attribute of a namespace.
struct Target {
  std::string name;
  std::string attribute;      // not empty: name.attribute
  std::vector<Target> parts;  // not empty: a tuple, and the two above are unused
};

struct Parameter {
  std::string name;
  ExprPtr otherwise;  // null: required (undefined when not given)
};

struct TextStatement {
  std::string text;
};
struct PrintStatement {
  ExprPtr value;
};
struct IfStatement {
  std::vector<std::pair<ExprPtr, Block>> branches;
  Block otherwise;
};
struct ForStatement {
  Target target;
  ExprPtr items, condition;  // condition may be null
  Block body, otherwise;
};
struct SetStatement {
  Target target;
  ExprPtr value;
};
struct SetBlockStatement {
  Target target;
  ExprPtr filter;  // may be null
  Block body;
};
struct MacroStatement {
  std::string name;
  std::vector<Parameter> parameters;
  Block body;
};
struct CallStatement {
  std::vector<Parameter> parameters;
  ExprPtr call;
  Block body;
};
struct FilterStatement {
  ExprPtr filter;
  Block body;
};
struct WithStatement {
  std::vector<std::pair<Target, ExprPtr>> names;
  Block body;
};
struct BreakStatement {};
struct ContinueStatement {};

struct Statement {
  int line;
  std::variant<TextStatement, PrintStatement, IfStatement, ForStatement, SetStatement, SetBlockStatement,
               MacroStatement, CallStatement, FilterStatement, WithStatement, BreakStatement,
               ContinueStatement>
      node;
};

}  // namespace tessera::jinja
