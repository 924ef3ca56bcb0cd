// Walks a parsed template and writes its text. One object a rendering; every loop turn, evaluated node and
// built byte is counted against limits, so that a template ends, whatever it is given.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/jinja/ast.h"
#include "tokenizer/jinja/call.h"
#include "tokenizer/jinja/value.h"

namespace tessera::jinja {

struct Limits {
  std::int64_t steps;      // evaluated nodes and loop turns; 64 bytes of text built count one
  std::size_t text_bytes;  // of the output and of any one string
  int depth;               // of macro calls within macro calls
};

class Interpreter {
 public:
  Interpreter(const Limits& limits, std::chrono::system_clock::time_point now);
  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  void define(std::string name, Value value);
  Text run(const Block& block);  // throws Failure

  // --- for the functions that templates call

  Value call(const Value& callee, std::vector<Value> args,
             std::vector<std::pair<std::string, Value>> named = {});
  Value apply_filter(const std::string& name, Call& call);
  bool apply_test(const std::string& name, Call& call);
  Value attribute(const Value& object, std::string_view name);  // object.name
  Value item(const Value& object, const Value& key);            // object[key]

  void charge(std::int64_t steps);
  void charge_text(std::size_t bytes);       // a string of so many bytes is about to be built, or was
  void check_text(std::size_t bytes) const;  // the same without counting, for strings that grow bit by bit
  std::chrono::system_clock::time_point now() const { return now_; }

 private:
  struct Scope;
  enum class Flow { kNext, kBreak, kContinue };

  Flow execute(const Block& block);
  Flow execute_one(const Statement& statement);
  Flow run_for(const ForStatement& statement);
  Text render(const Block& block);  // in a scope of its own, into a text of its own
  Value make_macro(std::string name, const std::vector<Parameter>& parameters, const Block& body);
  Value run_macro(const std::string& name, const std::vector<Parameter>& parameters, const Block& body,
                  Scope& home, Call& call);
  void assign(const Target& target, const Value& value);
  void set_in(Scope& scope, const std::string& name, Value value);
  Value look_up(const std::string& name);
  void write(const Text& text);

  Value evaluate(const Expr& expr);
  Value evaluate_node(const LiteralExpr& node);
  Value evaluate_node(const NameExpr& node);
  Value evaluate_node(const ListExpr& node);
  Value evaluate_node(const DictExpr& node);
  Value evaluate_node(const UnaryExpr& node);
  Value evaluate_node(const BinaryExpr& node);
  Value evaluate_node(const ConcatExpr& node);
  Value evaluate_node(const CompareExpr& node);
  Value evaluate_node(const ConditionalExpr& node);
  Value evaluate_node(const AttributeExpr& node);
  Value evaluate_node(const ItemExpr& node);
  Value evaluate_node(const SliceExpr& node);
  Value evaluate_node(const CallExpr& node);
  Value evaluate_node(const FilterExpr& node);
  Value evaluate_node(const TestExpr& node);
  Call arguments(const Arguments& arguments, std::vector<Value> first);

  const Limits limits_;
  const std::chrono::system_clock::time_point now_;
  std::int64_t steps_ = 0;
  int line_ = 0;         // of what is evaluated now
  int depth_ = 0;        // of nested evaluations
  int macro_depth_ = 0;  // of nested macro calls
  std::vector<std::unique_ptr<Scope>>
      kept_scopes_;  // left, but a macro was defined inside; older scopes first
  std::unique_ptr<Scope> globals_;
  Scope* scope_ = nullptr;
  Text* out_ = nullptr;
  const Value* block_text_ = nullptr;  // what a filter without input works on
};

}  // namespace tessera::jinja
