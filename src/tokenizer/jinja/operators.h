// Python's operators on values.
#pragma once

#include <string>

#include "tokenizer/jinja/value.h"

namespace tessera::jinja {

class Interpreter;

Value binary(Interpreter& run, const std::string& op, const Value& left,
             const Value& right);  // + - * / // % **
Value negate(const Value& value);
bool compares(const std::string& op, const Value& left, const Value& right);
// object[start:stop:step]; None for what was left out.
Value slice(const Value& object, const Value& start, const Value& stop, const Value& step);

}  // namespace tessera::jinja
