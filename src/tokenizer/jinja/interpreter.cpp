#include "tokenizer/jinja/interpreter.h"

#include <algorithm>

#include "tokenizer/jinja/operators.h"
#include "tokenizer/jinja/parser.h"

namespace tessera::jinja {

// Names, innermost scope first. A scope lives on the stack of its block, unless a macro was defined in it:
// the macro may be called later and then still sees these names.
struct Interpreter::Scope {
  Scope* parent = nullptr;
  std::vector<std::pair<std::string, Value>> names = {};
  bool captured = false;
};

namespace {

// Nested evaluations, of up to 2 KiB of stack each: macro calls within macro calls add up.
constexpr int kMaxEvaluations = 1500;

template <class T>
class Restored {
 public:
  Restored(T& place, T value) : place_(place), before_(std::exchange(place, std::move(value))) {}
  ~Restored() { place_ = before_; }
  Restored(const Restored&) = delete;
  Restored& operator=(const Restored&) = delete;

 private:
  T& place_;
  T before_;
};

Value loop_attribute(Interpreter&, const Value& object, std::string_view name) {
  const Loop& loop = object.loop();
  const std::size_t size = loop.items.size();
  if (name == "index") return loop.index + 1;
  if (name == "index0") return loop.index;
  if (name == "revindex") return size - loop.index;
  if (name == "revindex0") return size - loop.index - 1;
  if (name == "first") return loop.index == 0;
  if (name == "last") return loop.index + 1 == size;
  if (name == "length") return size;
  if (name == "depth") return loop.depth;
  if (name == "depth0") return loop.depth - 1;
  if (name == "previtem")
    return loop.index == 0 ? undefined("There is no previous item") : loop.items[loop.index - 1];
  if (name == "nextitem")
    return loop.index + 1 == size ? undefined("There is no next item") : loop.items[loop.index + 1];
  return undefined("'loop' has no attribute '" + std::string(name) + "'");
}

}  // namespace

Interpreter::Interpreter(const Limits& limits, std::chrono::system_clock::time_point now)
    : limits_(limits), now_(now), globals_(new Scope), scope_(globals_.get()) {}

Interpreter::~Interpreter() = default;

void Interpreter::define(std::string name, Value value) { set_in(*globals_, name, std::move(value)); }

void Interpreter::charge(std::int64_t steps) {
  steps_ += steps;
  if (steps_ > limits_.steps) {
    fail("The template took more than " + std::to_string(limits_.steps) + " steps.", ErrorKind::kTooLarge);
  }
}

void Interpreter::check_text(std::size_t bytes) const {
  if (bytes > limits_.text_bytes) {
    fail("The template built a text of more than " + std::to_string(limits_.text_bytes) + " bytes.",
         ErrorKind::kTooLarge);
  }
}

void Interpreter::charge_text(std::size_t bytes) {
  check_text(bytes);
  charge(static_cast<std::int64_t>(bytes / 64) + 1);
}

// ----------------------------------------------------------------------------------------------------
// statements

Text Interpreter::run(const Block& block) {
  Text out;
  const Restored output(out_, &out);
  execute(block);
  return out;
}

void Interpreter::write(const Text& text) {
  out_->append(text);
  check_text(out_->size());
  charge(static_cast<std::int64_t>(text.size() / 64));
}

Interpreter::Flow Interpreter::execute(const Block& block) {
  for (const Statement& statement : block) {
    charge(1);
    line_ = statement.line;
    try {
      const Flow flow = execute_one(statement);
      if (flow != Flow::kNext) return flow;
    } catch (Failure& failure) {
      if (failure.line == 0) failure.line = line_;
      throw;
    }
  }
  return Flow::kNext;
}

// Runs `body` in a scope inside the current one. (A macro, a template: the class's private scope is not
// nameable here.)
template <class Scopes, class ScopeType, class Body>
static auto in_scope(Scopes& kept, ScopeType*& current, std::unique_ptr<ScopeType> scope, Body body) {
  struct Leave {
    Scopes& kept;
    ScopeType*& current;
    ScopeType* before;
    std::unique_ptr<ScopeType> scope;
    ~Leave() {
      current = before;
      if (scope->captured) kept.push_back(std::move(scope));
    }
  } leave{kept, current, current, std::move(scope)};
  current = leave.scope.get();
  return body();
}

Text Interpreter::render(const Block& block) {
  return in_scope(kept_scopes_, scope_, std::make_unique<Scope>(Scope{scope_}), [&] { return run(block); });
}

Interpreter::Flow Interpreter::execute_one(const Statement& statement) {
  if (const auto* text = std::get_if<TextStatement>(&statement.node)) {
    write(Text(text->text, false));
  } else if (const auto* print = std::get_if<PrintStatement>(&statement.node)) {
    const Value value = evaluate(*print->value);
    if (value.is_string()) {
      write(value.text());
    } else {
      write(to_text(value));
    }
  } else if (const auto* choice = std::get_if<IfStatement>(&statement.node)) {
    for (const auto& [condition, body] : choice->branches) {
      if (evaluate(*condition).truth()) return execute(body);
    }
    return execute(choice->otherwise);
  } else if (const auto* loop = std::get_if<ForStatement>(&statement.node)) {
    return run_for(*loop);
  } else if (const auto* set = std::get_if<SetStatement>(&statement.node)) {
    assign(set->target, evaluate(*set->value));
  } else if (const auto* set_block = std::get_if<SetBlockStatement>(&statement.node)) {
    Value value = render(set_block->body);
    if (set_block->filter) {
      const Restored input(block_text_, static_cast<const Value*>(&value));
      Value filtered = evaluate(*set_block->filter);
      assign(set_block->target, filtered);
    } else {
      assign(set_block->target, value);
    }
  } else if (const auto* macro = std::get_if<MacroStatement>(&statement.node)) {
    set_in(*scope_, macro->name, make_macro(macro->name, macro->parameters, macro->body));
  } else if (const auto* call_block = std::get_if<CallStatement>(&statement.node)) {
    const auto& call_expr = std::get<CallExpr>(call_block->call->node);
    const Value callee = evaluate(*call_expr.callee);
    Call made = arguments(call_expr.arguments, {});
    made.named.emplace_back("caller", make_macro("caller", call_block->parameters, call_block->body));
    write(to_text(call(callee, std::move(made.args), std::move(made.named))));
  } else if (const auto* filter = std::get_if<FilterStatement>(&statement.node)) {
    const Value value = render(filter->body);
    const Restored input(block_text_, &value);
    write(to_text(evaluate(*filter->filter)));
  } else if (const auto* with = std::get_if<WithStatement>(&statement.node)) {
    std::vector<Value> values;  // all seen from outside
    for (const auto& name : with->names) values.push_back(evaluate(*name.second));
    return in_scope(kept_scopes_, scope_, std::make_unique<Scope>(Scope{scope_}), [&] {
      for (std::size_t i = 0; i < values.size(); ++i) assign(with->names[i].first, values[i]);
      return execute(with->body);
    });
  } else if (std::holds_alternative<BreakStatement>(statement.node)) {
    return Flow::kBreak;
  } else {
    return Flow::kContinue;
  }
  return Flow::kNext;
}

Interpreter::Flow Interpreter::run_for(const ForStatement& statement) {
  auto loop = std::make_shared<Loop>();
  std::vector<Value> all = elements(evaluate(*statement.items));
  charge(static_cast<std::int64_t>(all.size()));
  if (statement.condition) {
    for (Value& item : all) {
      in_scope(kept_scopes_, scope_, std::make_unique<Scope>(Scope{scope_}), [&] {
        assign(statement.target, item);
        if (evaluate(*statement.condition).truth()) loop->items.push_back(item);
      });
    }
  } else {
    loop->items = std::move(all);
  }
  if (loop->items.empty()) {
    return in_scope(kept_scopes_, scope_, std::make_unique<Scope>(Scope{scope_}),
                    [&] { return execute(statement.otherwise); });
  }
  for (; loop->index < loop->items.size(); ++loop->index) {
    charge(1);
    const Flow flow = in_scope(kept_scopes_, scope_, std::make_unique<Scope>(Scope{scope_}), [&] {
      set_in(*scope_, "loop", loop);
      assign(statement.target, loop->items[loop->index]);
      return execute(statement.body);
    });
    if (flow == Flow::kBreak) break;
  }
  return Flow::kNext;
}

Value Interpreter::make_macro(std::string name, const std::vector<Parameter>& parameters, const Block& body) {
  for (Scope* scope = scope_; scope != nullptr; scope = scope->parent) scope->captured = true;
  auto macro = std::make_shared<Callable>();
  macro->name = name;
  macro->body = [this, name, &parameters, &body, home = scope_](Call& call) {
    return run_macro(name, parameters, body, *home, call);
  };
  return std::shared_ptr<const Callable>(std::move(macro));
}

Value Interpreter::run_macro(const std::string& name, const std::vector<Parameter>& parameters,
                             const Block& body, Scope& home, Call& given) {
  if (macro_depth_ >= limits_.depth) {
    fail("Macros call each other more than " + std::to_string(limits_.depth) + " levels deep.",
         ErrorKind::kTooLarge);
  }
  const Restored depth(macro_depth_, macro_depth_ + 1);
  const Restored outer(scope_, &home);
  return in_scope(kept_scopes_, scope_, std::make_unique<Scope>(Scope{&home}), [&]() -> Value {
    std::size_t next = 0;
    for (const Parameter& parameter : parameters) {
      const auto named =
          std::ranges::find(given.named, parameter.name, &std::pair<std::string, Value>::first);
      if (next < given.args.size()) {
        if (named != given.named.end())
          fail("The macro " + name + " got its argument " + parameter.name + " twice.");
        set_in(*scope_, parameter.name, given.args[next++]);
      } else if (named != given.named.end()) {
        set_in(*scope_, parameter.name, named->second);
        given.named.erase(named);
      } else if (parameter.otherwise) {
        set_in(*scope_, parameter.name, evaluate(*parameter.otherwise));
      } else {
        set_in(*scope_, parameter.name, undefined("parameter '" + parameter.name + "' was not provided"));
      }
    }
    List rest{{}, true};
    while (next < given.args.size()) rest.items.push_back(given.args[next++]);
    set_in(*scope_, "varargs", rest);
    auto others = std::make_shared<Dict>();
    for (auto& [key, value] : given.named) {
      if (key == "caller") {
        set_in(*scope_, "caller", value);
      } else {
        others->set(scaffold(key), value);
      }
    }
    set_in(*scope_, "kwargs", std::shared_ptr<const Dict>(std::move(others)));
    return run(body);
  });
}

void Interpreter::set_in(Scope& scope, const std::string& name, Value value) {
  const auto found = std::ranges::find(scope.names, name, &std::pair<std::string, Value>::first);
  if (found != scope.names.end()) {
    found->second = std::move(value);
  } else {
    scope.names.emplace_back(name, std::move(value));
  }
}

void Interpreter::assign(const Target& target, const Value& value) {
  if (!target.parts.empty()) {
    const std::vector<Value> items = elements(value);
    if (items.size() != target.parts.size()) {
      fail("Expected " + std::to_string(target.parts.size()) + " values to unpack, found " +
           std::to_string(items.size()) + ".");
    }
    for (std::size_t i = 0; i < items.size(); ++i) assign(target.parts[i], items[i]);
  } else if (target.attribute.empty()) {
    set_in(*scope_, target.name, value);
  } else {
    const Value object = look_up(target.name);
    if (!object.is_namespace()) {
      fail("Cannot assign to " + target.name + "." + target.attribute +
           ": only a namespace object takes attributes.");
    }
    (void)depth_around(value);
    auto& names = object.space().names;
    const auto found = std::ranges::find(names, target.attribute, &std::pair<std::string, Value>::first);
    if (found != names.end()) {
      found->second = value;
    } else {
      names.emplace_back(target.attribute, value);
    }
  }
}

Value Interpreter::look_up(const std::string& name) {
  for (const Scope* scope = scope_; scope != nullptr; scope = scope->parent) {
    const auto found = std::ranges::find(scope->names, name, &std::pair<std::string, Value>::first);
    if (found != scope->names.end()) return found->second;
  }
  if (const Builtin global = find_global(name)) {
    return std::make_shared<const Callable>(Callable{name, global});
  }
  return undefined("'" + name + "' is undefined");
}

// ---------------------------------------------------------------------------------------------------
// expressions

Value Interpreter::evaluate(const Expr& expr) {
  charge(1);
  line_ = expr.line;
  const Restored depth(depth_, depth_ + 1);
  if (depth_ > kMaxEvaluations) fail("Expressions and macros are nested too deep.", ErrorKind::kTooLarge);
  return std::visit([this](const auto& node) { return evaluate_node(node); }, expr.node);
}

Value Interpreter::evaluate_node(const LiteralExpr& node) { return node.value; }
Value Interpreter::evaluate_node(const NameExpr& node) { return look_up(node.name); }

Value Interpreter::evaluate_node(const ListExpr& node) {
  List list{{}, node.is_tuple};
  for (const ExprPtr& item : node.items) list.items.push_back(evaluate(*item));
  return list;
}

Value Interpreter::evaluate_node(const DictExpr& node) {
  auto dict = std::make_shared<Dict>();
  for (const auto& [key, value] : node.items) {
    Value key_value = evaluate(*key);
    if (key_value.is_dict() || (key_value.is_list() && !key_value.list().is_tuple)) {
      fail("A " + key_value.type_name() + " cannot be the key of a dict.");
    }
    dict->set(std::move(key_value), evaluate(*value));
  }
  return std::shared_ptr<const Dict>(std::move(dict));
}

Value Interpreter::evaluate_node(const UnaryExpr& node) {
  const Value value = evaluate(*node.operand);
  if (node.op == "not") return !value.truth();
  if (node.op == "-") return negate(value);
  if (value.is_integral()) return value.integer();
  if (!value.is_number()) fail("A " + value.type_name() + " is no number.");
  return value;
}

Value Interpreter::evaluate_node(const BinaryExpr& node) {
  Value left = evaluate(*node.left);
  if (node.op == "and") return left.truth() ? evaluate(*node.right) : left;
  if (node.op == "or") return left.truth() ? left : evaluate(*node.right);
  return binary(*this, node.op, left, evaluate(*node.right));
}

Value Interpreter::evaluate_node(const ConcatExpr& node) {
  Text text;
  for (const ExprPtr& part : node.parts) {
    text.append(to_text(evaluate(*part)));
    check_text(text.size());
  }
  charge_text(text.size());
  return text;
}

Value Interpreter::evaluate_node(const CompareExpr& node) {
  Value left = evaluate(*node.first);
  for (const auto& [op, expr] : node.rest) {
    Value right = evaluate(*expr);
    if (right.is_list()) charge(static_cast<std::int64_t>(right.list().items.size()));
    if (left.is_string()) charge(static_cast<std::int64_t>(left.text().size() / 64));
    if (right.is_string()) charge(static_cast<std::int64_t>(right.text().size() / 64));
    if (!compares(op, left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value Interpreter::evaluate_node(const ConditionalExpr& node) {
  if (evaluate(*node.condition).truth()) return evaluate(*node.then);
  if (node.otherwise) return evaluate(*node.otherwise);
  return undefined("the inline if-expression evaluated to false and no else section was defined");
}

Value Interpreter::evaluate_node(const AttributeExpr& node) {
  return attribute(evaluate(*node.object), node.name);
}

Value Interpreter::evaluate_node(const ItemExpr& node) {
  const Value object = evaluate(*node.object);
  return item(object, evaluate(*node.index));
}

Value Interpreter::evaluate_node(const SliceExpr& node) {
  const Value object = evaluate(*node.object);
  const auto bound = [&](const ExprPtr& expr) { return expr ? evaluate(*expr) : Value(None{}); };
  const Value start = bound(node.start), stop = bound(node.stop), step = bound(node.step);
  if (object.is_string()) charge_text(object.text().size());
  if (object.is_list()) charge(static_cast<std::int64_t>(object.list().items.size()));
  return slice(object, start, stop, step);
}

Value Interpreter::evaluate_node(const CallExpr& node) {
  const Value callee = evaluate(*node.callee);
  Call made = arguments(node.arguments, {});
  return call(callee, std::move(made.args), std::move(made.named));
}

Value Interpreter::evaluate_node(const FilterExpr& node) {
  Value input = node.input ? evaluate(*node.input) : *block_text_;
  Call made = arguments(node.arguments, {std::move(input)});
  return apply_filter(node.name, made);
}

Value Interpreter::evaluate_node(const TestExpr& node) {
  Call made = arguments(node.arguments, {evaluate(*node.input)});
  return apply_test(node.name, made) != node.negated;
}

Call Interpreter::arguments(const Arguments& arguments, std::vector<Value> first) {
  Call made{*this, std::move(first)};
  for (const ExprPtr& expr : arguments.positional) made.args.push_back(evaluate(*expr));
  for (const auto& [name, expr] : arguments.named) made.named.emplace_back(name, evaluate(*expr));
  if (arguments.star) {
    for (Value& value : elements(evaluate(*arguments.star))) made.args.push_back(std::move(value));
  }
  if (arguments.double_star) {
    const Value dict = evaluate(*arguments.double_star);
    if (!dict.is_dict()) fail("The argument after ** is a " + dict.type_name() + ", not a dict.");
    for (const auto& [key, value] : dict.dict().items) made.named.emplace_back(to_text(key).bytes(), value);
  }
  return made;
}

// ---------------------------------------------------------------------------------- calls, attributes and
// items

Value Interpreter::call(const Value& callee, std::vector<Value> args,
                        std::vector<std::pair<std::string, Value>> named) {
  if (callee.is_undefined()) fail(callee.undefined().hint + ".");
  if (!callee.is_callable()) fail("A " + callee.type_name() + " cannot be called.");
  charge(1);
  Call made{*this, std::move(args), std::move(named)};
  return callee.callable().body(made);
}

Value Interpreter::apply_filter(const std::string& name, Call& call) {
  const Builtin filter = find_filter(name);
  if (filter == nullptr) fail("There is no filter named " + name + ".", ErrorKind::kUnsupported);
  Value value = filter(call);
  if (value.is_string()) charge_text(value.text().size());
  if (value.is_list()) charge(static_cast<std::int64_t>(value.list().items.size()));
  return value;
}

bool Interpreter::apply_test(const std::string& name, Call& call) {
  const Builtin test = find_test(name);
  if (test == nullptr) fail("There is no test named " + name + ".", ErrorKind::kUnsupported);
  charge(1);
  return test(call).truth();
}

Value Interpreter::attribute(const Value& object, std::string_view name) {
  if (object.is_undefined()) fail(object.undefined().hint + ".");
  if (name.starts_with('_'))
    return undefined("the attribute '" + std::string(name) + "' is not open to templates");
  if (object.is_loop() && name != "cycle" && name != "changed") return loop_attribute(*this, object, name);
  if (const Builtin method = find_method(object, name)) {
    auto bound = std::make_shared<Callable>();
    bound->name = name;
    // A loop is only lent to its own block, so its methods may hold it.
    bound->depth = object.is_loop() ? 1 : depth_around(object);
    bound->body = [object, method](Call& call) {
      call.args.insert(call.args.begin(), object);
      Value value = method(call);
      if (value.is_string()) call.run.charge_text(value.text().size());
      if (value.is_list()) call.run.charge(static_cast<std::int64_t>(value.list().items.size()));
      return value;
    };
    return std::shared_ptr<const Callable>(std::move(bound));
  }
  if (object.is_dict()) {
    if (const Value* found = object.dict().find(name)) return *found;
  }
  if (object.is_namespace()) {
    for (const auto& [key, value] : object.space().names) {
      if (key == name) return value;
    }
  }
  return undefined("'" + object.type_name() + " object' has no attribute '" + std::string(name) + "'");
}

Value Interpreter::item(const Value& object, const Value& key) {
  if (object.is_undefined()) fail(object.undefined().hint + ".");
  if (object.is_dict()) {
    if (const Value* found = object.dict().find(key)) return *found;
  } else if (key.is_integral() && (object.is_list() || object.is_string())) {
    const Value one = key.integer() == -1 ? slice(object, key, None{}, None{})
                                          : slice(object, key, key.integer() + 1, None{});
    if (object.is_list() && one.list().items.size() == 1) return one.list().items.front();
    if (object.is_string()) charge(static_cast<std::int64_t>(object.text().size() / 16));
    if (object.is_string() && !one.text().empty()) return one;
  }
  if (key.is_string()) return attribute(object, key.text().view());
  return undefined("'" + object.type_name() + " object' has no element " + to_text(key).bytes());
}

}  // namespace tessera::jinja
