#include "tokenizer/jinja/format.h"

#include <algorithm>
#include <cmath>

#include "tokenizer/jinja/interpreter.h"
#include "tokenizer/jinja/numbers.h"
#include "tokenizer/unicode/utf8.h"

namespace tessera::jinja {
namespace {

constexpr long long kMaxWidth = 1'000'000;

// One % field: flags, width, precision, kind.
struct Field {
  bool left = false, plus = false, blank = false, zero = false, alternate = false;
  long long width = 0;
  long long precision = -1;
  char kind = 's';
};

Int integer_for(const Value& value, char kind) {
  if (value.is_integral()) return value.integer();
  if (value.is_float() && std::isfinite(value.number()) && std::fabs(value.number()) < 1e30)
    return static_cast<Int>(value.number());
  fail(std::string("%") + kind + " wants a number, not a " + value.type_name() + ".");
}

Text number_field(const Field& field, const Value& value) {
  std::string digits, prefix;
  bool negative = false;
  if (std::string_view("diuxXo").find(field.kind) != std::string_view::npos) {
    const Int number = integer_for(value, field.kind);
    negative = number < 0;
    digits = int_text(negative ? -number : number, field.kind == 'o'            ? 8
                                                   : (field.kind | 0x20) == 'x' ? 16
                                                                                : 10);
    if (field.precision > static_cast<long long>(digits.size())) {
      digits.insert(0, static_cast<std::size_t>(field.precision) - digits.size(), '0');
    }
    if (field.alternate && (field.kind | 0x20) == 'x') prefix = "0x";
    if (field.alternate && field.kind == 'o') prefix = "0o";
  } else {
    if (!value.is_number())
      fail(std::string("%") + field.kind + " wants a number, not a " + value.type_name() + ".");
    const double number = value.number();
    negative = std::signbit(number) && !std::isnan(number);
    const long long precision = field.precision < 0 ? 6 : field.precision;
    digits = fixed_text(std::fabs(number), static_cast<char>(field.kind | 0x20), static_cast<int>(precision));
  }
  if (field.kind >= 'A' && field.kind <= 'Z') {
    std::ranges::transform(digits, digits.begin(),
                           [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
    std::ranges::transform(prefix, prefix.begin(), [](char c) { return c == 'x' ? 'X' : c; });
  }
  const std::string sign = negative ? "-" : field.plus ? "+" : field.blank ? " " : "";
  const auto used = static_cast<long long>(sign.size() + prefix.size() + digits.size());
  if (field.zero && !field.left && field.width > used)
    digits.insert(0, static_cast<std::size_t>(field.width - used), '0');
  return {sign + prefix + digits, false};
}

Text field_text(const Field& field, const Value& value) {
  if (field.kind == 's' || field.kind == 'r' || field.kind == 'a') {
    Text text = field.kind == 's' ? to_text(value) : to_repr(value);
    if (field.precision >= 0) {
      std::size_t end = 0;
      for (long long i = 0; i < field.precision && end < text.size(); ++i) {
        end += static_cast<std::size_t>(utf8_bytes_from_lead(text.bytes()[end]));
      }
      text.cut_to(end);
    }
    return text;
  }
  if (field.kind == 'c') {
    if (value.is_string() && count_points(value.text().view()) == 1) return value.text();
    if (!value.is_integral() || value.integer() < 0 || value.integer() > 0x10FFFF)
      fail("%c wants a character.");
    std::string text;
    append_utf8(text, static_cast<char32_t>(value.integer()));
    return {repair_utf8(text), true};  // a number from outside can spell any character
  }
  if (std::string_view("diuxXofFeEgG").find(field.kind) == std::string_view::npos) {
    fail(std::string("The format %") + field.kind + " is not supported.");
  }
  return number_field(field, value);
}

class PercentFormatter {
 public:
  PercentFormatter(Interpreter& run, const Text& pattern, const Value& arguments)
      : run_(run), pattern_(pattern), in_(pattern.view()), arguments_(arguments) {
    if (arguments.is_list() && arguments.list().is_tuple) {
      values_ = arguments.list().items;
    } else {
      values_ = {arguments};
    }
  }

  Value format() {
    std::size_t done = 0;
    while ((at_ = in_.find('%', done)) != std::string_view::npos) {
      out_.append(pattern_, done, at_);
      ++at_;
      one_field();
      done = at_;
      run_.check_text(out_.size());
      run_.charge(1);
    }
    out_.append(pattern_, done, in_.size());
    const bool unused = taken_ < values_.size() && !used_names_ && !arguments_.is_dict();
    if (unused) fail("Not all arguments were used by the format string.");
    return std::move(out_);
  }

 private:
  char now() const {
    if (at_ >= in_.size()) fail("The format string ends in the middle of a field.");
    return in_[at_];
  }
  Value next() {
    if (taken_ >= values_.size()) fail("The format string has more fields than arguments.");
    return values_[taken_++];
  }
  long long number() {
    if (now() == '*') {
      ++at_;
      const Value value = next();
      if (!value.is_integral() || value.integer() > kMaxWidth || value.integer() < 0)
        fail("A * in a format string wants a small number.");
      return static_cast<long long>(value.integer());
    }
    long long value = 0;
    for (; now() >= '0' && now() <= '9'; ++at_) {
      value = value * 10 + (now() - '0');
      if (value > kMaxWidth)
        fail("A field of a format string is wider than 1,000,000.", ErrorKind::kTooLarge);
    }
    return value;
  }

  void one_field() {
    if (now() == '%') {
      ++at_;
      return out_.append("%", false);
    }
    Value named;
    bool has_name = false;
    if (now() == '(') {
      const std::size_t end = in_.find(')', at_);
      if (end == std::string_view::npos || !arguments_.is_dict())
        fail("A named field of a format string wants a dict.");
      const Value* found = arguments_.dict().find(in_.substr(at_ + 1, end - at_ - 1));
      if (found == nullptr)
        fail("The format string names " + std::string(in_.substr(at_ + 1, end - at_ - 1)) +
             ", which is not there.");
      named = *found;
      has_name = used_names_ = true;
      at_ = end + 1;
    }
    Field field;
    for (;; ++at_) {
      if (now() == '-') {
        field.left = true;
      } else if (now() == '+') {
        field.plus = true;
      } else if (now() == ' ') {
        field.blank = true;
      } else if (now() == '0') {
        field.zero = true;
      } else if (now() == '#') {
        field.alternate = true;
      } else {
        break;
      }
    }
    field.width = number();
    if (now() == '.') {
      ++at_;
      field.precision = number();
      if (field.precision > 500 && now() != 's' && now() != 'r')
        fail("A precision above 500 is not supported.", ErrorKind::kTooLarge);
    }
    field.kind = now();
    ++at_;
    const Text text = field_text(field, has_name ? named : next());
    const auto width = static_cast<long long>(count_points(text.view()));
    const std::string padding(static_cast<std::size_t>(std::max(0LL, field.width - width)), ' ');
    if (!field.left) out_.append(padding, false);
    out_.append(text);
    if (field.left) out_.append(padding, false);
  }

  Interpreter& run_;
  const Text& pattern_;
  std::string_view in_;
  const Value& arguments_;
  std::vector<Value> values_;
  std::size_t taken_ = 0;
  bool used_names_ = false;
  std::size_t at_ = 0;
  Text out_;
};

}  // namespace

Value format_percent(Interpreter& run, const Text& pattern, const Value& arguments) {
  return PercentFormatter(run, pattern, arguments).format();
}

Value format_braces(Call& call) {
  const Text pattern = call.args.front().text();
  const std::string_view in = pattern.view();
  Text out;
  std::size_t in_turn = 1;
  for (std::size_t at = 0; at < in.size();) {
    const char c = in[at];
    if ((c == '{' || c == '}') && at + 1 < in.size() && in[at + 1] == c) {
      out.append(pattern, at, at + 1);
      at += 2;
      continue;
    }
    if (c == '}') fail("A single } stands in the format string.");
    if (c != '{') {
      const std::size_t end = std::min(in.find_first_of("{}", at), in.size());
      out.append(pattern, at, end);
      at = end;
      continue;
    }
    const std::size_t end = in.find('}', at);
    if (end == std::string_view::npos) fail("A { in the format string is not closed.");
    std::string_view name = in.substr(at + 1, end - at - 1);
    bool as_repr = false;
    if (name.ends_with("!r") || name.ends_with("!s")) {
      as_repr = name.back() == 'r';
      name.remove_suffix(2);
    }
    if (name.find_first_of(":.[!{") != std::string_view::npos) {
      fail("The field {" + std::string(name) + "} uses a form of str.format that is not supported.",
           ErrorKind::kUnsupported);
    }
    const Value* value = nullptr;
    const auto number = parse_int(name);
    if (name.empty() || number) {
      const std::size_t i =
          name.empty() ? in_turn++ : static_cast<std::size_t>(std::min<Int>(*number, 1 << 20)) + 1;
      if (i < call.args.size() && (!number || *number >= 0)) value = &call.args[i];
    } else {
      for (const auto& [key, named] : call.named) {
        if (key == name) value = &named;
      }
    }
    if (value == nullptr) fail("The format string asks for {" + std::string(name) + "}, which is not given.");
    out.append(as_repr ? to_repr(*value) : to_text(*value));
    call.run.check_text(out.size());
    at = end + 1;
  }
  return out;
}

}  // namespace tessera::jinja
