// A call of a filter, test, method, global or macro, and the reading of its arguments.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tokenizer/jinja/value.h"

namespace tessera::jinja {

class Interpreter;

struct Call {
  Interpreter& run;
  std::vector<Value> args;  // of filters, tests and methods: the subject first
  std::vector<std::pair<std::string, Value>> named = {};
};

using Builtin = Value (*)(Call&);

// Arguments by the names of the parameters, as Python binds them.
class Bound {
 public:
  // The first `required` must be there; what has no parameter is an error. `name` is how errors call the
  // function.
  Bound(Call& call, std::string_view name, std::initializer_list<const char*> parameters,
        std::size_t required);

  bool has(std::size_t i) const { return values_[i] != nullptr; }
  const Value& operator[](std::size_t i) const { return *values_[i]; }  // only when has(i)
  Value value_or(std::size_t i, Value otherwise) const { return has(i) ? *values_[i] : std::move(otherwise); }
  bool truth_or(std::size_t i, bool otherwise) const { return has(i) ? values_[i]->truth() : otherwise; }
  // Fails unless it is an integer that fits.
  long long int_or(std::size_t i, long long otherwise) const;
  const Text& text(std::size_t i) const;  // fails unless it is a string

 private:
  std::string_view name_;
  std::vector<std::string_view> parameters_;
  std::vector<const Value*> values_;  // [parameters], null where not given
};

// Null when there is none of this name.
Builtin find_filter(std::string_view name);
Builtin find_test(std::string_view name);
Builtin find_global(std::string_view name);
Builtin find_method(const Value& subject, std::string_view name);

}  // namespace tessera::jinja
