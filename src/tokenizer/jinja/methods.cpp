// Methods of strings, lists, dicts and loops. Those that would change a value (append, update, ...) do not
// exist: the sandbox that `transformers` renders with refuses them too.
#include <algorithm>
#include <array>
#include <span>

#include "tokenizer/jinja/call.h"
#include "tokenizer/jinja/format.h"
#include "tokenizer/jinja/interpreter.h"
#include "tokenizer/jinja/strings.h"
#include "tokenizer/unicode/characters.h"
#include "tokenizer/unicode/utf8.h"

namespace tessera::jinja {
namespace {

Value list_of(std::vector<Text> texts) {
  List list;
  for (Text& text : texts) list.items.emplace_back(std::move(text));
  return list;
}

const Text& self(const Call& call) { return call.args.front().text(); }

// The part text[start:end] of a find or startswith, and the number of characters before it.
struct Window {
  Text text;
  Int offset;
};
Window window(Call& call, const Bound& given, std::size_t start, std::size_t end) {
  const auto size = static_cast<long long>(count_points(self(call).view()));
  const auto clamp = [&](long long at) { return std::clamp(at < 0 ? at + size : at, 0LL, size); };
  const bool has_start = given.has(start) && !given[start].is_none(),
             has_end = given.has(end) && !given[end].is_none();
  const long long from = has_start ? clamp(given.int_or(start, 0)) : 0;
  const long long to = has_end ? clamp(given.int_or(end, 0)) : size;
  if (!has_start && !has_end) return {self(call), 0};
  std::size_t begin = 0, at = 0, stop = self(call).size();
  for (long long i = 0; at < self(call).size(); ++i) {
    if (i == from) begin = at;
    if (i == to) stop = at;
    at += static_cast<std::size_t>(utf8_bytes_from_lead(self(call).bytes()[at]));
  }
  if (from == size) begin = self(call).size();
  return {begin < stop ? self(call).slice(begin, stop) : Text(), from};
}

template <Side side>
Value str_strip(Call& call) {
  const Bound given(call, "strip", {"self", "chars"}, 1);
  if (!given.has(1) || given[1].is_none()) return strip(self(call), nullptr, side);
  const std::string_view characters = given.text(1).view();
  return strip(self(call), &characters, side);
}

template <bool from_right>
Value str_split(Call& call) {
  const Bound given(call, "split", {"self", "sep", "maxsplit"}, 1);
  const long long max_splits = given.int_or(2, -1);
  call.run.charge_text(self(call).size());
  if (!given.has(1) || given[1].is_none()) {
    return list_of(from_right ? split_at_blanks_from_right(self(call), max_splits)
                              : split_at_blanks(self(call), max_splits));
  }
  const std::string_view separator = given.text(1).view();
  if (separator.empty()) fail("split wants a separator that is not empty.");
  return list_of(from_right ? split_from_right(self(call), separator, max_splits)
                            : split(self(call), separator, max_splits));
}

Value str_splitlines(Call& call) {
  const Bound given(call, "splitlines", {"self", "keepends"}, 1);
  return list_of(split_lines(self(call), given.truth_or(1, false)));
}

template <bool at_end>
Value str_has_affix(Call& call) {
  const Bound given(call, at_end ? "endswith" : "startswith", {"self", "affix", "start", "end"}, 2);
  const Window part = window(call, given, 2, 3);
  const auto matches = [&](const Value& affix) {
    if (!affix.is_string()) fail("startswith and endswith want a string or a tuple of strings.");
    return at_end ? part.text.view().ends_with(affix.text().view())
                  : part.text.view().starts_with(affix.text().view());
  };
  if (given[1].is_list()) return std::ranges::any_of(given[1].list().items, matches);
  return matches(given[1]);
}

template <bool from_right, bool must>
Value str_find(Call& call) {
  const Bound given(call, must ? "index" : "find", {"self", "sub", "start", "end"}, 2);
  const Window part = window(call, given, 2, 3);
  const std::string_view wanted = given.text(1).view();
  const std::size_t at = from_right ? part.text.view().rfind(wanted) : part.text.view().find(wanted);
  call.run.charge_text(part.text.size());
  if (at != std::string_view::npos)
    return part.offset + static_cast<Int>(count_points(part.text.view().substr(0, at)));
  if (must) fail("The substring is not there.");
  return -1;
}

Value str_count(Call& call) {
  const Bound given(call, "count", {"self", "sub", "start", "end"}, 2);
  const Window part = window(call, given, 2, 3);
  const std::string_view wanted = given.text(1).view();
  if (wanted.empty()) return count_points(part.text.view()) + 1;
  std::size_t count = 0;
  for (std::size_t at = 0; (at = part.text.view().find(wanted, at)) != std::string_view::npos;
       at += wanted.size())
    ++count;
  return count;
}

Value str_replace(Call& call) {
  const Bound given(call, "replace", {"self", "old", "new", "count"}, 3);
  return replace(self(call), given.text(1), given.text(2), given.int_or(3, -1), [&](std::size_t bytes) {
    call.run.charge(1);
    call.run.check_text(bytes);
  });
}

Value str_join(Call& call) {
  const Bound given(call, "join", {"self", "iterable"}, 2);
  Text out;
  bool first = true;
  for (const Value& item : elements(given[1])) {
    if (!item.is_string()) fail("join wants strings, not a " + item.type_name() + ".");
    if (!first) out.append(self(call));
    first = false;
    out.append(item.text());
    call.run.charge(1);
    call.run.check_text(out.size());
  }
  return out;
}

template <std::string (*map)(std::string_view)>
Value str_map(Call& call) {
  const Bound given(call, "This method", {"self"}, 1);
  return map_runs(self(call), map);
}
template <std::string (*map)(std::string_view)>
Value str_map_whole(Call& call) {
  const Bound given(call, "This method", {"self"}, 1);
  return Text(map(self(call).view()), self(call).any_foreign());
}

template <bool (*is)(char32_t)>
Value str_all(Call& call) {
  const Bound given(call, "This method", {"self"}, 1);
  return all_points(self(call).view(), is);
}

bool is_alnum(char32_t point) { return is_python_alpha(point) || is_python_digit(point); }

template <bool upper>
Value str_is_case(Call& call) {
  const Bound given(call, "isupper", {"self"}, 1);
  const bool any_case = std::ranges::any_of(utf8_to_points(self(call).view()), has_case);
  return any_case && (upper ? to_upper(self(call).view()) : to_lower(self(call).view())) == self(call).view();
}

template <Side text_side>
Value str_pad(Call& call) {
  const Bound given(call, "ljust", {"self", "width", "fillchar"}, 2);
  const long long width = given.int_or(1, 0);
  const auto used = static_cast<long long>(count_points(self(call).view()));
  const long long missing = std::max(0LL, width - used);
  call.run.charge_text(static_cast<std::size_t>(missing) + self(call).size());
  const Text fill = given.has(2) ? given.text(2) : Text(" ", false);
  if (count_points(fill.view()) != 1) fail("The fill character must be one character.");
  // CPython's str.center puts the odd blank on the left when the width is odd.
  const long long before = text_side == Side::kLeft    ? 0
                           : text_side == Side::kRight ? missing
                                                       : missing / 2 + (missing & width & 1);
  Text out;
  for (long long i = 0; i < before; ++i) out.append(fill);
  out.append(self(call));
  for (long long i = before; i < missing; ++i) out.append(fill);
  return out;
}

Value str_zfill(Call& call) {
  const Bound given(call, "zfill", {"self", "width"}, 2);
  const long long missing = given.int_or(1, 0) - static_cast<long long>(count_points(self(call).view()));
  if (missing <= 0) return self(call);
  call.run.charge_text(static_cast<std::size_t>(missing) + self(call).size());
  const bool has_sign = self(call).view().starts_with('-') || self(call).view().starts_with('+');
  Text out = self(call).slice(0, has_sign ? 1 : 0);
  out.append(std::string(static_cast<std::size_t>(missing), '0'), false);
  out.append(self(call), has_sign ? 1 : 0, self(call).size());
  return out;
}

template <bool from_right>
Value str_partition(Call& call) {
  const Bound given(call, "partition", {"self", "sep"}, 2);
  const Text& separator = given.text(1);
  if (separator.empty()) fail("partition wants a separator that is not empty.");
  const std::size_t at =
      from_right ? self(call).view().rfind(separator.view()) : self(call).view().find(separator.view());
  if (at == std::string_view::npos) {
    if (from_right) return tuple({Text(), Text(), self(call)});
    return tuple({self(call), Text(), Text()});
  }
  return tuple({self(call).slice(0, at), self(call).slice(at, at + separator.size()),
                self(call).slice(at + separator.size(), self(call).size())});
}

template <bool at_end>
Value str_remove_affix(Call& call) {
  const Bound given(call, "removeprefix", {"self", "affix"}, 2);
  const std::string_view affix = given.text(1).view();
  if (at_end && self(call).view().ends_with(affix))
    return self(call).slice(0, self(call).size() - affix.size());
  if (!at_end && self(call).view().starts_with(affix))
    return self(call).slice(affix.size(), self(call).size());
  return self(call);
}

Value list_index(Call& call) {
  const Bound given(call, "index", {"self", "value"}, 2);
  const auto& items = call.args.front().list().items;
  const auto found = std::ranges::find_if(items, [&](const Value& item) { return equal(item, given[1]); });
  if (found == items.end()) fail("The value is not in the list.");
  return static_cast<std::size_t>(found - items.begin());
}

Value list_count(Call& call) {
  const Bound given(call, "count", {"self", "value"}, 2);
  const auto& items = call.args.front().list().items;
  return static_cast<std::size_t>(
      std::ranges::count_if(items, [&](const Value& item) { return equal(item, given[1]); }));
}

Value dict_get(Call& call) {
  const Bound given(call, "get", {"self", "key", "default"}, 2);
  if (const Value* found = call.args.front().dict().find(given[1])) return *found;
  return given.value_or(2, None{});
}

template <bool with_keys, bool with_values>
Value dict_view(Call& call) {
  const Bound given(call, "This method", {"self"}, 1);
  List list;
  for (const auto& [key, value] : call.args.front().dict().items) {
    list.items.push_back(with_keys && with_values ? tuple({key, value}) : with_keys ? key : value);
  }
  return list;
}

Value dict_copy(Call& call) {
  const Bound given(call, "copy", {"self"}, 1);
  return call.args.front();
}

Value loop_cycle(Call& call) {
  if (call.args.size() < 2) fail("loop.cycle wants at least one value.");
  return call.args[1 + call.args.front().loop().index % (call.args.size() - 1)];
}

Value loop_changed(Call& call) {
  Loop& loop = call.args.front().loop();
  std::vector<Value> now(call.args.begin() + 1, call.args.end());
  const bool changed = !loop.asked_changed || !std::ranges::equal(now, loop.last_changed, equal);
  loop.asked_changed = true;
  loop.last_changed = std::move(now);
  return changed;
}

using Entry = std::pair<std::string_view, Builtin>;

constexpr Entry kStringMethods[] = {
    {"capitalize", str_map_whole<capitalized>},
    {"casefold", str_map<to_lower>},
    {"center", str_pad<Side::kBoth>},
    {"count", str_count},
    {"endswith", str_has_affix<true>},
    {"find", str_find<false, false>},
    {"format", format_braces},
    {"index", str_find<false, true>},
    {"isalnum", str_all<is_alnum>},
    {"isalpha", str_all<is_python_alpha>},
    {"isdecimal", str_all<is_python_digit>},
    {"isdigit", str_all<is_python_digit>},
    {"islower", str_is_case<false>},
    {"isnumeric", str_all<is_python_digit>},
    {"isspace", str_all<is_python_space>},
    {"isupper", str_is_case<true>},
    {"join", str_join},
    {"ljust", str_pad<Side::kLeft>},
    {"lower", str_map<to_lower>},
    {"lstrip", str_strip<Side::kLeft>},
    {"partition", str_partition<false>},
    {"removeprefix", str_remove_affix<false>},
    {"removesuffix", str_remove_affix<true>},
    {"replace", str_replace},
    {"rfind", str_find<true, false>},
    {"rindex", str_find<true, true>},
    {"rjust", str_pad<Side::kRight>},
    {"rpartition", str_partition<true>},
    {"rsplit", str_split<true>},
    {"rstrip", str_strip<Side::kRight>},
    {"split", str_split<false>},
    {"splitlines", str_splitlines},
    {"startswith", str_has_affix<false>},
    {"strip", str_strip<Side::kBoth>},
    {"swapcase", str_map<swap_case>},
    {"title", str_map_whole<to_title>},
    {"upper", str_map<to_upper>},
    {"zfill", str_zfill},
};
constexpr Entry kListMethods[] = {{"count", list_count}, {"index", list_index}};
constexpr Entry kDictMethods[] = {{"copy", dict_copy},
                                  {"get", dict_get},
                                  {"items", dict_view<true, true>},
                                  {"keys", dict_view<true, false>},
                                  {"values", dict_view<false, true>}};
constexpr Entry kLoopMethods[] = {{"changed", loop_changed}, {"cycle", loop_cycle}};

constexpr std::array<std::string_view, 12> kChanging = {"append", "clear",      "extend", "insert",
                                                        "pop",    "popitem",    "remove", "reverse",
                                                        "sort",   "setdefault", "update", "discard"};

Value refused(Call&) {
  fail("Lists and dicts cannot be changed in a template (the sandbox of transformers forbids it too).");
}

Builtin find_in(std::span<const Entry> entries, std::string_view name) {
  const auto found = std::ranges::find(entries, name, &Entry::first);
  return found == entries.end() ? nullptr : found->second;
}

}  // namespace

Builtin find_method(const Value& subject, std::string_view name) {
  if (subject.is_string()) return find_in(kStringMethods, name);
  if (subject.is_loop()) return find_in(kLoopMethods, name);
  if (!subject.is_list() && !subject.is_dict()) return nullptr;
  const Builtin method = find_in(
      subject.is_list() ? std::span<const Entry>(kListMethods) : std::span<const Entry>(kDictMethods), name);
  if (method != nullptr) return method;
  const bool is_data = subject.is_dict() && subject.dict().find(name) != nullptr;
  return !is_data && std::ranges::find(kChanging, name) != kChanging.end() ? refused : nullptr;
}

}  // namespace tessera::jinja
