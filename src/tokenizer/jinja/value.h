// The values a template works on: Python's, as far as templates can tell. Strings, lists and dicts are shared
// and never change (the sandbox that `transformers` uses forbids it); only a namespace does.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "base/error.h"
#include "tokenizer/jinja/text.h"

namespace tessera::jinja {

// Thrown inside this folder only, and turned into a Result where a Template is parsed or rendered: an
// evaluator that can fail in every operator would otherwise be mostly error passing.
struct Failure {
  ErrorKind kind;
  std::string what;
  int line = 0;  // 0: filled in by the nearest statement
};
[[noreturn]] void fail(const std::string& what, ErrorKind kind = ErrorKind::kInvalidArgument);

using Int = __int128;  // JSON has integers up to 2^64 - 1, which must come out as they went in

class Value;
struct Call;
struct Dict;
struct Loop;

// Values are freed recursively, so their nesting is limited where they are put together (kMaxNesting), and
// what could close a circle (a namespace, a loop) cannot be put into another value.
inline constexpr int kMaxNesting = 400;

struct List {
  std::vector<Value> items;
  bool is_tuple = false;
  int depth = 1;  // set when it becomes a Value
};
struct Namespace {
  std::vector<std::pair<std::string, Value>> names;
};
struct Callable {
  std::string name;
  std::function<Value(Call&)> body;
  int depth = 0;  // of a value that the body holds
};
struct None {};
struct Undefined {
  std::string hint;  // "'x' is undefined", for the error when somebody uses it
};

class Value {
 public:
  Value() : Value(Undefined{}) {}
  Value(Undefined value) : data_(std::make_shared<const Undefined>(std::move(value))) {}
  Value(None value) : data_(value) {}
  Value(bool value) : data_(value) {}
  Value(Int value) : data_(value) {}
  Value(int value) : data_(Int{value}) {}
  Value(std::size_t value) : data_(Int{value}) {}
  Value(double value) : data_(value) {}
  Value(Text value) : data_(std::make_shared<const Text>(std::move(value))) {}
  Value(List value);
  Value(std::shared_ptr<const Dict> value) : data_(std::move(value)) {}
  Value(std::shared_ptr<Namespace> value) : data_(std::move(value)) {}
  Value(std::shared_ptr<const Callable> value) : data_(std::move(value)) {}
  Value(std::shared_ptr<Loop> value) : data_(std::move(value)) {}
  Value(const char*) = delete;  // would be a bool; say who wrote it: scaffold("...")

  bool is_undefined() const { return holds<std::shared_ptr<const Undefined>>(); }
  bool is_none() const { return holds<None>(); }
  bool is_bool() const { return holds<bool>(); }
  bool is_int() const { return holds<Int>(); }  // without bool, unlike Python
  bool is_float() const { return holds<double>(); }
  bool is_integral() const { return is_int() || is_bool(); }
  bool is_number() const { return is_integral() || is_float(); }
  bool is_string() const { return holds<std::shared_ptr<const Text>>(); }
  bool is_list() const { return holds<std::shared_ptr<const List>>(); }  // or tuple
  bool is_dict() const { return holds<std::shared_ptr<const Dict>>(); }
  bool is_namespace() const { return holds<std::shared_ptr<Namespace>>(); }
  bool is_callable() const { return holds<std::shared_ptr<const Callable>>(); }
  bool is_loop() const { return holds<std::shared_ptr<Loop>>(); }

  // Only for the kind asked for.
  const Undefined& undefined() const { return *std::get<std::shared_ptr<const Undefined>>(data_); }
  bool boolean() const { return std::get<bool>(data_); }
  Int integer() const { return is_bool() ? Int{boolean()} : std::get<Int>(data_); }
  double number() const { return is_float() ? std::get<double>(data_) : static_cast<double>(integer()); }
  const Text& text() const { return *std::get<std::shared_ptr<const Text>>(data_); }
  const List& list() const { return *std::get<std::shared_ptr<const List>>(data_); }
  const Dict& dict() const { return *std::get<std::shared_ptr<const Dict>>(data_); }
  Namespace& space() const { return *std::get<std::shared_ptr<Namespace>>(data_); }
  const Callable& callable() const { return *std::get<std::shared_ptr<const Callable>>(data_); }
  Loop& loop() const { return *std::get<std::shared_ptr<Loop>>(data_); }

  bool truth() const;
  int depth() const;                           // levels of lists, dicts and bound methods
  std::string type_name() const;               // Python's: "str", "dict", "NoneType"
  bool same_object(const Value& other) const;  // `is`

 private:
  template <class T>
  bool holds() const {
    return std::holds_alternative<T>(data_);
  }

  std::variant<None, bool, Int, double, std::shared_ptr<const Undefined>, std::shared_ptr<const Text>,
               std::shared_ptr<const List>, std::shared_ptr<const Dict>, std::shared_ptr<Namespace>,
               std::shared_ptr<const Callable>, std::shared_ptr<Loop>>
      data_;
};

// In order of insertion. Keys are strings as a rule; numbers, None and tuples are found by comparing.
struct Dict {
  std::vector<std::pair<Value, Value>> items;

  const Value* find(std::string_view key) const;
  const Value* find(const Value& key) const;
  void set(Value key, Value value);  // a known key keeps its place
  int depth = 1;

 private:
  std::unordered_map<std::string, std::size_t> index_;  // string keys
};

// What `loop` is inside a for.
struct Loop {
  std::vector<Value> items;
  std::size_t index = 0;
  int depth = 1;
  std::vector<Value> last_changed;
  bool asked_changed = false;
};

Value scaffold(std::string_view text);
Value foreign(std::string_view text);
Value tuple(std::vector<Value> items);
Value undefined(std::string hint);

// All text in it is foreign, except `role` names of a closed set (see role_is_known).
Value from_json(const nlohmann::ordered_json& json);

// The depth of a value that holds `value`; fails when it cannot be held.
int depth_around(const Value& value);

bool equal(const Value& a, const Value& b);   // ==
int compare(const Value& a, const Value& b);  // <0, 0, >0; fails for kinds that Python does not order
bool contains(const Value& container, const Value& item);  // in
std::vector<Value> elements(const Value& value);           // what a for loop runs over

Text to_text(const Value& value);  // str()
Text to_repr(const Value& value);  // repr()

}  // namespace tessera::jinja
