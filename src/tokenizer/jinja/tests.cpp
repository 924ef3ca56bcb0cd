// Tests: what stands after `is`, and names a selection in select and selectattr.
#include <algorithm>
#include <iterator>

#include "tokenizer/jinja/call.h"
#include "tokenizer/jinja/operators.h"
#include "tokenizer/unicode/characters.h"

namespace tessera::jinja {
namespace {

const Value& subject(Call& call, const char* name) {
  const Bound given(call, name, {"value"}, 1);
  return call.args.front();
}
std::pair<const Value*, const Value*> pair(Call& call, const char* name) {
  const Bound given(call, name, {"value", "other"}, 2);
  return {&given[0], &given[1]};
}

template <bool (Value::*is)() const>
Value is_kind(Call& call) {
  return (subject(call, "The test").*is)();
}

Value defined(Call& call) { return !subject(call, "defined").is_undefined(); }
Value is_true(Call& call) { return subject(call, "true").is_bool() && call.args.front().boolean(); }
Value is_false(Call& call) { return subject(call, "false").is_bool() && !call.args.front().boolean(); }
Value iterable(Call& call) {
  const Value& value = subject(call, "iterable");
  return value.is_string() || value.is_list() || value.is_dict() || value.is_undefined() || value.is_loop();
}
Value sequence(Call& call) {
  const Value& value = subject(call, "sequence");
  return value.is_string() || value.is_list() || value.is_dict() || value.is_undefined();
}
Value callable(Call& call) { return subject(call, "callable").is_callable() || call.args.front().is_loop(); }
Value sameas(Call& call) {
  const auto [a, b] = pair(call, "sameas");
  return a->same_object(*b);
}

template <bool odd>
Value parity(Call& call) {
  const Value& value = subject(call, "odd");
  if (!value.is_integral())
    fail("The tests odd and even want a whole number, not a " + value.type_name() + ".");
  return (value.integer() % 2 != 0) == odd;
}
Value divisibleby(Call& call) {
  const auto [a, b] = pair(call, "divisibleby");
  return equal(binary(call.run, "%", *a, *b), 0);
}

template <const char* op>
Value comparison(Call& call) {
  const auto [a, b] = pair(call, "The test");
  return compares(op, *a, *b);
}
constexpr char kEq[] = "==", kNe[] = "!=", kLt[] = "<", kLe[] = "<=", kGt[] = ">", kGe[] = ">=", kIn[] = "in";

template <bool upper>
Value is_case(Call& call) {
  const std::string text = to_text(subject(call, "upper")).bytes();
  const bool any_case = to_upper(text) != to_lower(text);
  return any_case && (upper ? to_upper(text) : to_lower(text)) == text;
}

template <Builtin (*find)(std::string_view)>
Value has_builtin(Call& call) {
  const Value& value = subject(call, "filter");
  return value.is_string() && find(value.text().view()) != nullptr;
}
Value escaped(Call& call) {
  subject(call, "escaped");
  return false;
}

using Entry = std::pair<std::string_view, Builtin>;
constexpr Entry kTests[] = {
    {"!=", comparison<kNe>},
    {"<", comparison<kLt>},
    {"<=", comparison<kLe>},
    {"==", comparison<kEq>},
    {">", comparison<kGt>},
    {">=", comparison<kGe>},
    {"boolean", is_kind<&Value::is_bool>},
    {"callable", callable},
    {"defined", defined},
    {"divisibleby", divisibleby},
    {"eq", comparison<kEq>},
    {"equalto", comparison<kEq>},
    {"escaped", escaped},
    {"even", parity<false>},
    {"false", is_false},
    {"filter", has_builtin<find_filter>},
    {"float", is_kind<&Value::is_float>},
    {"ge", comparison<kGe>},
    {"greaterthan", comparison<kGt>},
    {"gt", comparison<kGt>},
    {"in", comparison<kIn>},
    {"integer", is_kind<&Value::is_int>},
    {"iterable", iterable},
    {"le", comparison<kLe>},
    {"lessthan", comparison<kLt>},
    {"lower", is_case<false>},
    {"lt", comparison<kLt>},
    {"mapping", is_kind<&Value::is_dict>},
    {"ne", comparison<kNe>},
    {"none", is_kind<&Value::is_none>},
    {"number", is_kind<&Value::is_number>},
    {"odd", parity<true>},
    {"sameas", sameas},
    {"sequence", sequence},
    {"string", is_kind<&Value::is_string>},
    {"test", has_builtin<find_test>},
    {"true", is_true},
    {"undefined", is_kind<&Value::is_undefined>},
    {"upper", is_case<true>},
};

}  // namespace

Builtin find_test(std::string_view name) {
  const auto* found = std::ranges::find(kTests, name, &Entry::first);
  return found == std::end(kTests) ? nullptr : found->second;
}

}  // namespace tessera::jinja
