#include "tokenizer/jinja/operators.h"

#include <cmath>

#include "tokenizer/jinja/format.h"
#include "tokenizer/jinja/interpreter.h"
#include "tokenizer/unicode/utf8.h"

namespace tessera::jinja {
namespace {

constexpr std::size_t kMaxItems = 1'000'000;  // of a list made by + or *

[[noreturn]] void wrong_kinds(const std::string& op, const Value& left, const Value& right) {
  for (const Value* value : {&left, &right}) {
    if (value->is_undefined()) fail(value->undefined().hint + ".");
  }
  fail("The operator " + op + " does not work on a " + left.type_name() + " and a " + right.type_name() +
       ".");
}

[[noreturn]] void too_large() { fail("A number became too large.", ErrorKind::kTooLarge); }

Int sum(Int a, Int b) {
  Int value = 0;
  if (__builtin_add_overflow(a, b, &value)) too_large();
  return value;
}
Int difference(Int a, Int b) {
  Int value = 0;
  if (__builtin_sub_overflow(a, b, &value)) too_large();
  return value;
}
Int product(Int a, Int b) {
  Int value = 0;
  if (__builtin_mul_overflow(a, b, &value)) too_large();
  return value;
}

Value int_power(Int base, Int exponent) {
  Int value = 1;
  while (exponent > 0) {
    if (exponent & 1) value = product(value, base);
    exponent >>= 1;
    if (exponent > 0) base = product(base, base);
  }
  return value;
}

Value on_ints(const std::string& op, Int a, Int b) {
  if (op == "+") return sum(a, b);
  if (op == "-") return difference(a, b);
  if (op == "*") return product(a, b);
  if (op == "**" && b >= 0) return int_power(a, b);
  if (op == "**") return std::pow(static_cast<double>(a), static_cast<double>(b));
  if (b == 0) fail("Division by zero.");
  if (op == "/") return static_cast<double>(a) / static_cast<double>(b);
  if (b == -1) return op == "%" ? Value(0) : Value(difference(0, a));
  const Int quotient = a / b, rest = a % b;
  const bool rounds_down = rest != 0 && (rest < 0) != (b < 0);
  if (op == "//") return rounds_down ? quotient - 1 : quotient;
  return rounds_down ? rest + b : rest;  // %
}

Value on_floats(const std::string& op, double a, double b) {
  if (op == "+") return a + b;
  if (op == "-") return a - b;
  if (op == "*") return a * b;
  if (op == "**") return std::pow(a, b);
  if (b == 0) fail("Division by zero.");
  if (op == "/") return a / b;
  if (op == "//") return std::floor(a / b);
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

Value repeat(Interpreter& run, const Value& value, Int times) {
  const std::size_t size = value.is_string() ? value.text().size() : value.list().items.size();
  if (times <= 0 || size == 0) times = 0;
  const Int total = times * static_cast<Int>(size);
  if (value.is_string()) {
    if (total > (Int{1} << 40)) fail("A string became too long.", ErrorKind::kTooLarge);
    run.charge_text(static_cast<std::size_t>(total));
    Text text;
    for (Int i = 0; i < times; ++i) text.append(value.text());
    return text;
  }
  if (total > static_cast<Int>(kMaxItems))
    fail("A list became longer than 1,000,000 items.", ErrorKind::kTooLarge);
  run.charge(static_cast<std::int64_t>(total));
  List list{{}, value.list().is_tuple};
  for (Int i = 0; i < times; ++i)
    list.items.insert(list.items.end(), value.list().items.begin(), value.list().items.end());
  return list;
}

}  // namespace

Value binary(Interpreter& run, const std::string& op, const Value& left, const Value& right) {
  if (left.is_integral() && right.is_integral()) return on_ints(op, left.integer(), right.integer());
  if (left.is_number() && right.is_number()) return on_floats(op, left.number(), right.number());
  if (op == "+" && left.is_string() && right.is_string()) {
    run.charge_text(left.text().size() + right.text().size());
    Text text = left.text();
    text.append(right.text());
    return text;
  }
  if (op == "+" && left.is_list() && right.is_list() && left.list().is_tuple == right.list().is_tuple) {
    List list = left.list();
    list.items.insert(list.items.end(), right.list().items.begin(), right.list().items.end());
    if (list.items.size() > kMaxItems)
      fail("A list became longer than 1,000,000 items.", ErrorKind::kTooLarge);
    run.charge(static_cast<std::int64_t>(list.items.size()));
    return list;
  }
  if (op == "*" && (left.is_string() || left.is_list()) && right.is_integral())
    return repeat(run, left, right.integer());
  if (op == "*" && left.is_integral() && (right.is_string() || right.is_list()))
    return repeat(run, right, left.integer());
  if (op == "%" && left.is_string()) return format_percent(run, left.text(), right);
  wrong_kinds(op, left, right);
}

Value negate(const Value& value) {
  if (value.is_integral()) return difference(0, value.integer());
  if (value.is_float()) return -value.number();
  if (value.is_undefined()) fail(value.undefined().hint + ".");
  fail("A " + value.type_name() + " has no negative.");
}

bool compares(const std::string& op, const Value& left, const Value& right) {
  if (op == "==") return equal(left, right);
  if (op == "!=") return !equal(left, right);
  if (op == "in") return contains(right, left);
  if (op == "not in") return !contains(right, left);
  if (left.is_number() && right.is_number() && !(left.is_integral() && right.is_integral()) &&
      (std::isnan(left.number()) || std::isnan(right.number()))) {
    return false;
  }
  const int order = compare(left, right);
  return op == "<" ? order < 0 : op == "<=" ? order <= 0 : op == ">" ? order > 0 : order >= 0;
}

Value slice(const Value& object, const Value& start, const Value& stop, const Value& step) {
  if (object.is_undefined()) fail(object.undefined().hint + ".");
  if (!object.is_string() && !object.is_list())
    return undefined("'" + object.type_name() + " object' cannot be sliced");
  for (const Value* bound : {&start, &stop, &step}) {
    if (!bound->is_none() && !bound->is_integral())
      fail("A slice wants whole numbers, not a " + bound->type_name() + ".");
  }
  const Int by = step.is_none() ? 1 : step.integer();
  if (by == 0) fail("The step of a slice is 0.");
  std::vector<std::size_t> starts;  // of a string: the byte where each character begins, and the end
  if (object.is_string()) {
    const std::string& bytes = object.text().bytes();
    for (std::size_t at = 0; at < bytes.size();
         at += static_cast<std::size_t>(utf8_bytes_from_lead(bytes[at])))
      starts.push_back(at);
    starts.push_back(bytes.size());
  }
  const Int size = static_cast<Int>(object.is_string() ? starts.size() - 1 : object.list().items.size());
  const auto clamp = [&](const Value& bound, Int otherwise) {
    if (bound.is_none()) return otherwise;
    Int at = bound.integer();
    if (at < 0) at += size;
    const Int low = by < 0 ? -1 : 0, high = by < 0 ? size - 1 : size;
    return at < low ? low : at > high ? high : at;
  };
  const Int from = clamp(start, by < 0 ? size - 1 : 0);
  const Int to = clamp(stop, by < 0 ? -1 : size);
  if (object.is_string() && by == 1) {
    return from < to ? object.text().slice(starts[static_cast<std::size_t>(from)],
                                           starts[static_cast<std::size_t>(to)])
                     : Text();
  }
  Text text;
  List list;
  if (object.is_list()) list.is_tuple = object.list().is_tuple;
  for (Int at = from; by > 0 ? at < to : at > to; at += by) {
    const auto i = static_cast<std::size_t>(at);
    if (object.is_string()) {
      text.append(object.text(), starts[i], starts[i + 1]);
    } else {
      list.items.push_back(object.list().items[i]);
    }
    if (by > size || by < -size) break;
  }
  if (object.is_string()) return text;
  return list;
}

}  // namespace tessera::jinja
