// Filters that make strings and numbers.
#include <algorithm>
#include <cmath>

#include "tokenizer/jinja/filters.h"
#include "tokenizer/jinja/format.h"
#include "tokenizer/jinja/interpreter.h"
#include "tokenizer/jinja/json_dump.h"
#include "tokenizer/jinja/numbers.h"
#include "tokenizer/jinja/strings.h"
#include "tokenizer/unicode/characters.h"
#include "tokenizer/unicode/utf8.h"

namespace tessera::jinja {
namespace {

void refuse_undefined(const Value& value) {
  if (value.is_undefined()) fail(value.undefined().hint + ".");
}

Value string(Call& call) {
  const Bound given(call, "string", {"value"}, 1);
  return to_text(given[0]);
}

template <std::string (*map)(std::string_view)>
Value mapped(Call& call) {
  const Bound given(call, "This filter", {"s"}, 1);
  return map_runs(to_text(given[0]), map);
}

Value capitalize(Call& call) {
  const Bound given(call, "capitalize", {"s"}, 1);
  const Text text = to_text(given[0]);
  return Text(capitalized(text.view()), text.any_foreign());
}

// Unlike str.title: words begin after blanks, hyphens and opening brackets only.
Value title(Call& call) {
  const Bound given(call, "title", {"s"}, 1);
  const Text text = to_text(given[0]);
  std::string out;
  bool begins = true;
  std::string_view rest = text.view();
  while (!rest.empty()) {
    const auto length = static_cast<std::size_t>(utf8_bytes_from_lead(rest.front()));
    const char32_t point = read_utf8(rest).point;
    out += begins ? to_upper(rest.substr(0, length)) : to_lower(rest.substr(0, length));
    begins = is_python_space(point) || point == '-' || point == '(' || point == '{' || point == '[' ||
             point == '<';
    rest.remove_prefix(length);
  }
  return Text(std::move(out), text.any_foreign());
}

Value trim(Call& call) {
  const Bound given(call, "trim", {"value", "chars"}, 1);
  if (!given.has(1) || given[1].is_none()) return strip(to_text(given[0]), nullptr, Side::kBoth);
  const std::string_view characters = given.text(1).view();
  return strip(to_text(given[0]), &characters, Side::kBoth);
}

Value replace_filter(Call& call) {
  const Bound given(call, "replace", {"s", "old", "new", "count"}, 3);
  const long long count = given.has(3) && !given[3].is_none() ? given.int_or(3, -1) : -1;
  return replace(to_text(given[0]), to_text(given[1]), to_text(given[2]), count, [&](std::size_t bytes) {
    call.run.charge(1);
    call.run.check_text(bytes);
  });
}

Value indent(Call& call) {
  const Bound given(call, "indent", {"s", "width", "first", "blank"}, 1);
  Text margin;
  if (given.has(1) && given[1].is_string()) {
    margin = given.text(1);
  } else {
    const long long width = std::max(0LL, given.int_or(1, 4));
    call.run.charge_text(static_cast<std::size_t>(width));
    margin = Text(std::string(static_cast<std::size_t>(width), ' '), false);
  }
  const bool first = given.truth_or(2, false), blank = given.truth_or(3, false);
  Text text = to_text(given[0]);
  text.append("\n", false);  // so that a newline at the end counts as a line, as in Jinja
  const std::vector<Text> lines = split_lines(text, false);
  Text out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.append("\n", false);
    if (i == 0 ? first : blank || !lines[i].empty()) out.append(margin);
    out.append(lines[i]);
    call.run.charge(1);
    call.run.check_text(out.size());
  }
  return out;
}

Value center(Call& call) {
  const Bound given(call, "center", {"value", "width"}, 1);
  Call made{call.run, {to_text(given[0]), given.value_or(1, 80)}};
  return find_method(made.args.front(), "center")(made);
}

Value truncate(Call& call) {
  const Bound given(call, "truncate", {"s", "length", "killwords", "end", "leeway"}, 1);
  const Text text = to_text(given[0]);
  const Text end = given.has(3) ? given.text(3) : Text("...", false);
  const long long length = given.int_or(1, 255), leeway = given.int_or(4, 5);
  const auto ending = static_cast<long long>(count_points(end.view()));
  if (length < ending)
    fail("truncate: length must be at least that of its end, " + std::to_string(ending) + ".");
  if (static_cast<long long>(count_points(text.view())) <= length + leeway) return text;
  std::size_t cut = 0;
  for (long long i = 0; i < length - ending; ++i)
    cut += static_cast<std::size_t>(utf8_bytes_from_lead(text.bytes()[cut]));
  if (!given.truth_or(2, false)) {
    const std::size_t blank = text.view().substr(0, cut).rfind(' ');
    if (blank != std::string_view::npos) cut = blank;
  }
  Text out = text.slice(0, cut);
  out.append(end);
  return out;
}

Value wordcount(Call& call) {
  const Bound given(call, "wordcount", {"s"}, 1);
  std::size_t words = 0;
  bool in_word = false;
  for (const char32_t point : utf8_to_points(to_text(given[0]).view())) {
    const bool is_word = is_word_character(point);
    words += is_word && !in_word;
    in_word = is_word;
  }
  return words;
}

Value format_filter(Call& call) {
  if (!call.named.empty()) {
    auto names = std::make_shared<Dict>();
    for (const auto& [key, value] : call.named) names->set(scaffold(key), value);
    return format_percent(call.run, to_text(call.args.front()),
                          std::shared_ptr<const Dict>(std::move(names)));
  }
  return format_percent(call.run, to_text(call.args.front()),
                        tuple({call.args.begin() + 1, call.args.end()}));
}

Value escape(Call& call) {
  const Bound given(call, "escape", {"s"}, 1);
  const Text text = to_text(given[0]);
  Text out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    static constexpr std::string_view kFrom = "&<>\"'";
    static constexpr std::string_view kTo[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
    const std::size_t special = kFrom.find(text.bytes()[at]);
    if (special == std::string_view::npos) {
      out.append(text, at, at + 1);
    } else {
      out.append(kTo[special], false);
    }
  }
  return out;
}

Value tojson(Call& call) {
  const Bound given(call, "tojson", {"value", "ensure_ascii", "indent", "separators", "sort_keys"}, 1);
  JsonStyle style;
  style.ascii = given.truth_or(1, false);
  style.sorted = given.truth_or(4, false);
  if (given.has(2) && !given[2].is_none()) {
    if (given[2].is_string()) {
      style.indent = given.text(2).bytes();
    } else {
      const long long width = std::max(0LL, given.int_or(2, 0));
      if (width > 100) fail("tojson: an indent above 100 is not supported.", ErrorKind::kTooLarge);
      style.indent = std::string(static_cast<std::size_t>(width), ' ');
    }
    style.item_separator = ",";
  }
  if (given.has(3) && !given[3].is_none()) {
    const std::vector<Value> both = elements(given[3]);
    if (both.size() != 2 || !both[0].is_string() || !both[1].is_string())
      fail("tojson: separators must be two strings.");
    style.item_separator = both[0].text().bytes();
    style.key_separator = both[1].text().bytes();
  }
  return dump_json(given[0], style);
}

Value to_int(Call& call) {
  const Bound given(call, "int", {"value", "default", "base"}, 1);
  const Value& value = given[0];
  refuse_undefined(value);
  if (value.is_integral()) return value.integer();
  if (value.is_string()) {
    if (const auto whole =
            parse_int(value.text().view(), static_cast<int>(std::clamp(given.int_or(2, 10), 2LL, 36LL))))
      return *whole;
  }
  std::optional<double> number;
  if (value.is_float()) number = value.number();
  if (value.is_string()) number = parse_float(value.text().view());
  if (number && std::isfinite(*number) && std::fabs(*number) < 1e37) return static_cast<Int>(*number);
  return given.value_or(1, 0);
}

Value to_float(Call& call) {
  const Bound given(call, "float", {"value", "default"}, 1);
  refuse_undefined(given[0]);
  if (given[0].is_number()) return given[0].number();
  if (given[0].is_string()) {
    if (const auto number = parse_float(given[0].text().view())) return *number;
  }
  return given.value_or(1, 0.0);
}

Value absolute(Call& call) {
  const Bound given(call, "abs", {"x"}, 1);
  const Value& value = given[0];
  refuse_undefined(value);
  if (value.is_integral()) return value.integer() < 0 ? -value.integer() : value.integer();
  if (value.is_float()) return std::fabs(value.number());
  fail("abs wants a number, not a " + value.type_name() + ".");
}

Value round_filter(Call& call) {
  const Bound given(call, "round", {"value", "precision", "method"}, 1);
  refuse_undefined(given[0]);
  if (!given[0].is_number()) fail("round wants a number, not a " + given[0].type_name() + ".");
  const auto precision = static_cast<int>(std::clamp(given.int_or(1, 0), -300LL, 300LL));
  const std::string method = given.has(2) ? given.text(2).bytes() : "common";
  if (method == "common") {
    if (given[0].is_integral() && precision >= 0) return given[0].integer();
    if (given[0].is_integral()) return static_cast<Int>(round_half_even(given[0].number(), precision));
    return round_half_even(given[0].number(), precision);
  }
  if (method != "ceil" && method != "floor") fail("round: the method must be common, ceil or floor.");
  const double unit = std::pow(10.0, precision);
  const double scaled = given[0].number() * unit;
  return (method == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / unit;
}

constexpr FilterEntry kFilters[] = {
    {"abs", absolute},
    {"capitalize", capitalize},
    {"center", center},
    {"e", escape},
    {"escape", escape},
    {"float", to_float},
    {"format", format_filter},
    {"indent", indent},
    {"int", to_int},
    {"lower", mapped<to_lower>},
    {"replace", replace_filter},
    {"round", round_filter},
    {"safe", string},
    {"string", string},
    {"title", title},
    {"tojson", tojson},
    {"trim", trim},
    {"truncate", truncate},
    {"upper", mapped<to_upper>},
    {"wordcount", wordcount},
};

}  // namespace

std::span<const FilterEntry> text_filters() { return kFilters; }

}  // namespace tessera::jinja
