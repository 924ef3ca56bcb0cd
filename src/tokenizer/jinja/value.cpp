#include "tokenizer/jinja/value.h"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "tokenizer/jinja/numbers.h"
#include "tokenizer/unicode/characters.h"
#include "tokenizer/unicode/utf8.h"

namespace tessera::jinja {
namespace {

void check_depth(int depth) {
  if (depth > kMaxNesting) fail("A value is nested more than 400 levels deep.", ErrorKind::kTooLarge);
}

// A list may hold one list twice, which may do the same: few values, but endless to walk.
class Walk {
 public:
  void step() {
    if (++nodes_ > 5'000'000) fail("A value has more than 5,000,000 parts.", ErrorKind::kTooLarge);
  }

 private:
  int nodes_ = 0;
};

bool equal_at(const Value& a, const Value& b, Walk& walk) {
  walk.step();
  if (a.is_number() && b.is_number()) {
    if (a.is_integral() && b.is_integral()) return a.integer() == b.integer();
    return a.number() == b.number();
  }
  if (a.is_string() && b.is_string()) return a.text().bytes() == b.text().bytes();
  if (a.is_list() && b.is_list()) {
    return a.list().is_tuple == b.list().is_tuple &&
           std::ranges::equal(a.list().items, b.list().items,
                              [&](const Value& x, const Value& y) { return equal_at(x, y, walk); });
  }
  if (a.is_dict() && b.is_dict()) {
    if (a.dict().items.size() != b.dict().items.size()) return false;
    return std::ranges::all_of(a.dict().items, [&](const auto& item) {
      const Value* other = b.dict().find(item.first);
      return other != nullptr && equal_at(item.second, *other, walk);
    });
  }
  if (a.is_undefined() && b.is_undefined()) return true;
  return a.same_object(b);
}

int compare_at(const Value& a, const Value& b, Walk& walk) {
  walk.step();
  if (a.is_integral() && b.is_integral())
    return a.integer() < b.integer() ? -1 : a.integer() > b.integer() ? 1 : 0;
  if (a.is_number() && b.is_number()) return a.number() < b.number() ? -1 : a.number() > b.number() ? 1 : 0;
  // Byte order of UTF-8 is the order of code points.
  if (a.is_string() && b.is_string()) return a.text().bytes().compare(b.text().bytes());
  if (a.is_list() && b.is_list() && a.list().is_tuple == b.list().is_tuple) {
    const auto &left = a.list().items, &right = b.list().items;
    for (std::size_t i = 0; i < std::min(left.size(), right.size()); ++i) {
      if (!equal_at(left[i], right[i], walk)) return compare_at(left[i], right[i], walk);
    }
    return left.size() < right.size() ? -1 : left.size() > right.size() ? 1 : 0;
  }
  for (const Value* value : {&a, &b}) {
    if (value->is_undefined()) fail(value->undefined().hint + ".");
  }
  fail("A " + a.type_name() + " and a " + b.type_name() + " cannot be ordered.");
}

Text repr_of_string(const Text& text) {
  const bool has_single = text.bytes().find('\'') != std::string::npos;
  const bool has_double = text.bytes().find('"') != std::string::npos;
  const char quote = has_single && !has_double ? '"' : '\'';
  Text out;
  out.append({&quote, 1}, false);
  std::size_t begin = 0;
  for (const auto& run : text.runs()) {
    std::string escaped;
    for (const char32_t point : utf8_to_points(text.view().substr(begin, run.end - begin))) {
      static constexpr std::string_view kHex = "0123456789abcdef";
      const auto hex = [&](char kind, int digits) {
        escaped += '\\';
        escaped += kind;
        for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) escaped += kHex[(point >> shift) & 15];
      };
      if (point == '\\' || point == static_cast<char32_t>(quote)) {
        escaped += '\\';
        escaped += static_cast<char>(point);
      } else if (point == '\n') {
        escaped += "\\n";
      } else if (point == '\r') {
        escaped += "\\r";
      } else if (point == '\t') {
        escaped += "\\t";
      } else if (is_python_printable(point)) {
        append_utf8(escaped, point);
      } else if (point < 0x100) {
        hex('x', 2);
      } else if (point < 0x10000) {
        hex('u', 4);
      } else {
        hex('U', 8);
      }
    }
    out.append(escaped, run.foreign);
    begin = run.end;
  }
  out.append({&quote, 1}, false);
  return out;
}

void append_repr(Text& out, const Value& value, Walk& walk) {
  walk.step();
  if (value.is_string()) {
    out.append(repr_of_string(value.text()));
  } else if (value.is_list()) {
    const List& list = value.list();
    out.append(list.is_tuple ? "(" : "[", false);
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      if (i > 0) out.append(", ", false);
      append_repr(out, list.items[i], walk);
    }
    out.append(!list.is_tuple ? "]" : list.items.size() == 1 ? ",)" : ")", false);
  } else if (value.is_dict()) {
    out.append("{", false);
    bool first = true;
    for (const auto& [key, item] : value.dict().items) {
      if (!first) out.append(", ", false);
      first = false;
      append_repr(out, key, walk);
      out.append(": ", false);
      append_repr(out, item, walk);
    }
    out.append("}", false);
  } else if (value.is_undefined()) {
    out.append("Undefined", false);
  } else {
    out.append(to_text(value));
  }
}

// A role out of a closed set tells nothing that its author could misuse, and some templates write control
// tokens with it: <|{{ message.role }}|>.
bool role_is_known(std::string_view role) {
  static constexpr std::array<std::string_view, 8> kRoles = {
      "system", "user", "assistant", "tool", "developer", "function", "ipython", "observation"};
  return std::ranges::find(kRoles, role) != kRoles.end();
}

Value from_json_at(const nlohmann::ordered_json& json, int depth) {
  check_depth(depth);
  switch (json.type()) {
    case nlohmann::json::value_t::boolean:
      return json.get<bool>();
    case nlohmann::json::value_t::number_integer:
      return Int{json.get<std::int64_t>()};
    case nlohmann::json::value_t::number_unsigned:
      return Int{json.get<std::uint64_t>()};
    case nlohmann::json::value_t::number_float:
      return json.get<double>();
    case nlohmann::json::value_t::string:
      return foreign(repair_utf8(json.get_ref<const std::string&>()));
    case nlohmann::json::value_t::array: {
      List list;
      list.items.reserve(json.size());
      for (const auto& item : json) list.items.push_back(from_json_at(item, depth + 1));
      return list;
    }
    case nlohmann::json::value_t::object: {
      auto dict = std::make_shared<Dict>();
      for (const auto& [key, item] : json.items()) {
        const bool known =
            key == "role" && item.is_string() && role_is_known(item.get_ref<const std::string&>());
        dict->set(foreign(repair_utf8(key)),
                  known ? scaffold(item.get_ref<const std::string&>()) : from_json_at(item, depth + 1));
      }
      return Value(std::shared_ptr<const Dict>(std::move(dict)));
    }
    default:
      return None{};
  }
}

}  // namespace

void fail(const std::string& what, ErrorKind kind) { throw Failure{kind, what}; }

Value::Value(List value) {
  value.depth = 1;
  for (const Value& item : value.items) value.depth = std::max(value.depth, depth_around(item));
  data_ = std::make_shared<const List>(std::move(value));
}

int Value::depth() const {
  return is_list() ? list().depth : is_dict() ? dict().depth : is_callable() ? callable().depth : 0;
}

int depth_around(const Value& value) {
  if (value.is_namespace() || value.is_loop()) {
    fail("A " + value.type_name() + " cannot be part of another value.", ErrorKind::kUnsupported);
  }
  check_depth(value.depth() + 1);
  return value.depth() + 1;
}

bool Value::truth() const {
  if (is_undefined() || is_none()) return false;
  if (is_bool()) return boolean();
  if (is_int()) return integer() != 0;
  if (is_float()) return number() != 0;
  if (is_string()) return !text().empty();
  if (is_list()) return !list().items.empty();
  if (is_dict()) return !dict().items.empty();
  return true;
}

std::string Value::type_name() const {
  if (is_undefined()) return "Undefined";
  if (is_none()) return "NoneType";
  if (is_bool()) return "bool";
  if (is_int()) return "int";
  if (is_float()) return "float";
  if (is_string()) return "str";
  if (is_list()) return list().is_tuple ? "tuple" : "list";
  if (is_dict()) return "dict";
  if (is_namespace()) return "Namespace";
  if (is_loop()) return "LoopContext";
  return "function";
}

bool Value::same_object(const Value& other) const {
  if (data_.index() != other.data_.index()) return false;
  return std::visit(
      [&](const auto& mine) {
        using T = std::decay_t<decltype(mine)>;
        if constexpr (std::is_same_v<T, None>) {
          return true;
        } else {
          return mine == std::get<T>(other.data_);
        }
      },
      data_);
}

const Value* Dict::find(std::string_view key) const {
  const auto found = index_.find(std::string(key));
  return found == index_.end() ? nullptr : &items[found->second].second;
}

const Value* Dict::find(const Value& key) const {
  if (key.is_string()) return find(key.text().view());
  const auto found = std::ranges::find_if(items, [&](const auto& item) { return equal(item.first, key); });
  return found == items.end() ? nullptr : &found->second;
}

void Dict::set(Value key, Value value) {
  depth = std::max({depth, depth_around(key), depth_around(value)});
  if (const Value* known = find(key)) {
    *const_cast<Value*>(known) = std::move(value);
    return;
  }
  if (key.is_string()) index_.emplace(key.text().bytes(), items.size());
  items.emplace_back(std::move(key), std::move(value));
}

Value scaffold(std::string_view text) { return Text(std::string(text), false); }
Value foreign(std::string_view text) { return Text(std::string(text), true); }
Value tuple(std::vector<Value> items) { return List{std::move(items), true}; }
Value undefined(std::string hint) { return Undefined{std::move(hint)}; }

Value from_json(const nlohmann::ordered_json& json) { return from_json_at(json, 0); }

bool equal(const Value& a, const Value& b) {
  Walk walk;
  return equal_at(a, b, walk);
}
int compare(const Value& a, const Value& b) {
  Walk walk;
  return compare_at(a, b, walk);
}

bool contains(const Value& container, const Value& item) {
  if (container.is_string()) {
    if (!item.is_string()) fail("'in <string>' needs a string on its left, not a " + item.type_name() + ".");
    return container.text().bytes().find(item.text().bytes()) != std::string::npos;
  }
  if (container.is_dict()) return container.dict().find(item) != nullptr;
  const std::vector<Value> items = elements(container);
  return std::ranges::any_of(items, [&](const Value& other) { return equal(other, item); });
}

std::vector<Value> elements(const Value& value) {
  std::vector<Value> items;
  if (value.is_list()) return value.list().items;
  if (value.is_undefined()) return items;
  if (value.is_dict()) {
    for (const auto& item : value.dict().items) items.push_back(item.first);
    return items;
  }
  if (value.is_string()) {
    const Text& text = value.text();
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = at + static_cast<std::size_t>(utf8_bytes_from_lead(text.bytes()[at]));
      items.push_back(text.slice(at, end));
      at = end;
    }
    return items;
  }
  fail("A " + value.type_name() + " cannot be iterated over.");
}

Text to_text(const Value& value) {
  if (value.is_string()) return value.text();
  if (value.is_undefined()) return {};
  if (value.is_none()) return {"None", false};
  if (value.is_bool()) return {value.boolean() ? "True" : "False", false};
  if (value.is_int()) return {int_text(value.integer()), false};
  if (value.is_float()) return {float_text(value.number()), false};
  if (value.is_list() || value.is_dict()) return to_repr(value);
  return {"<" + value.type_name() + ">", false};
}

Text to_repr(const Value& value) {
  Text out;
  Walk walk;
  append_repr(out, value, walk);
  return out;
}

}  // namespace tessera::jinja
