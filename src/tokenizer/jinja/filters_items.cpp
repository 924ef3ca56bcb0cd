// Filters that look into, choose from or rearrange lists and dicts.
#include <algorithm>

#include "tokenizer/jinja/filters.h"
#include "tokenizer/jinja/interpreter.h"
#include "tokenizer/jinja/numbers.h"
#include "tokenizer/jinja/operators.h"
#include "tokenizer/unicode/characters.h"
#include "tokenizer/unicode/utf8.h"

namespace tessera::jinja {
namespace {

Value list_value(std::vector<Value> items) { return List{std::move(items)}; }

// "a.b.0": attributes and items of items. An int is one item. `otherwise` takes the place of what is missing,
// at each step of the path.
Value dig(Interpreter& run, Value value, const Value& path, const Value* otherwise = nullptr) {
  const auto step = [&](const Value& key) {
    Value found = run.item(value, key);
    return found.is_undefined() && otherwise != nullptr ? *otherwise : found;
  };
  if (!path.is_string()) return step(path);
  std::string_view rest = path.text().view();
  while (true) {
    const std::size_t dot = rest.find('.');
    const std::string_view part = rest.substr(0, dot);
    const auto number = parse_int(part);
    value = step(number ? Value(*number) : scaffold(part));
    if (dot == std::string_view::npos) return value;
    rest.remove_prefix(dot + 1);
  }
}

Value without_case(const Value& value) {
  return value.is_string() ? Value(Text(to_lower(value.text().view()), true)) : value;
}

// What items are ordered or told apart by.
struct Keyed {
  Value key;
  const Value* item;
};
std::vector<Keyed> keyed(Call& call, const std::vector<Value>& items, const Bound& given,
                         std::size_t attribute, bool with_case) {
  const bool by_attribute = given.has(attribute) && !given[attribute].is_none();
  std::vector<Keyed> all;
  for (const Value& item : items) {
    call.run.charge(2);
    Value key = by_attribute ? dig(call.run, item, given[attribute]) : item;
    all.push_back({with_case ? std::move(key) : without_case(key), &item});
  }
  return all;
}

// Comparisons that fail must not leave std::sort in the middle of a move with a broken order: merge sort
// copes.
void sort_by_key(std::vector<Keyed>& all, bool descending) {
  std::stable_sort(all.begin(), all.end(), [descending](const Keyed& a, const Keyed& b) {
    return descending ? compare(b.key, a.key) < 0 : compare(a.key, b.key) < 0;
  });
}

Value length(Call& call) {
  const Bound given(call, "length", {"value"}, 1);
  const Value& value = given[0];
  if (value.is_string()) return count_points(value.text().view());
  if (value.is_list()) return value.list().items.size();
  if (value.is_dict()) return value.dict().items.size();
  if (value.is_undefined()) return 0;
  fail("A " + value.type_name() + " has no length.");
}

Value default_value(Call& call) {
  const Bound given(call, "default", {"value", "default_value", "boolean"}, 1);
  const bool missing = given[0].is_undefined() || (given.truth_or(2, false) && !given[0].truth());
  return missing ? given.value_or(1, scaffold("")) : given[0];
}

Value list_filter(Call& call) {
  const Bound given(call, "list", {"value"}, 1);
  return list_value(elements(given[0]));
}

Value first(Call& call) {
  const Bound given(call, "first", {"seq"}, 1);
  std::vector<Value> items = elements(given[0]);
  call.run.charge(static_cast<std::int64_t>(items.size()));
  return items.empty() ? undefined("No first item, sequence was empty") : items.front();
}

Value last(Call& call) {
  const Bound given(call, "last", {"seq"}, 1);
  std::vector<Value> items = elements(given[0]);
  call.run.charge(static_cast<std::int64_t>(items.size()));
  return items.empty() ? undefined("No last item, sequence was empty") : items.back();
}

Value reverse(Call& call) {
  const Bound given(call, "reverse", {"value"}, 1);
  std::vector<Value> items = elements(given[0]);
  std::ranges::reverse(items);
  if (!given[0].is_string()) return list_value(std::move(items));
  Text text;
  for (const Value& item : items) text.append(item.text());
  return text;
}

Value join(Call& call) {
  const Bound given(call, "join", {"value", "d", "attribute"}, 1);
  const Text separator = given.has(1) ? to_text(given[1]) : Text();
  Text out;
  bool is_first = true;
  for (const Value& item : elements(given[0])) {
    if (!is_first) out.append(separator);
    is_first = false;
    out.append(to_text(given.has(2) && !given[2].is_none() ? dig(call.run, item, given[2]) : item));
    call.run.charge(1);
    call.run.check_text(out.size());
  }
  return out;
}

Value items_filter(Call& call) {
  const Bound given(call, "items", {"value"}, 1);
  if (given[0].is_undefined()) return List{};
  if (!given[0].is_dict()) fail("items wants a dict, not a " + given[0].type_name() + ".");
  List list;
  for (const auto& [key, value] : given[0].dict().items) list.items.push_back(tuple({key, value}));
  return list;
}

Value dictsort(Call& call) {
  const Bound given(call, "dictsort", {"value", "case_sensitive", "by", "reverse"}, 1);
  if (!given[0].is_dict()) fail("dictsort wants a dict, not a " + given[0].type_name() + ".");
  const std::string by = given.has(2) ? given.text(2).bytes() : "key";
  if (by != "key" && by != "value") fail("dictsort can sort by key or by value, not by " + by + ".");
  std::vector<Value> pairs;
  for (const auto& [key, value] : given[0].dict().items) pairs.push_back(tuple({key, value}));
  std::vector<Keyed> all;
  for (const Value& pair : pairs) {
    const Value& key = pair.list().items[by == "key" ? 0 : 1];
    all.push_back({given.truth_or(1, false) ? key : without_case(key), &pair});
  }
  sort_by_key(all, given.truth_or(3, false));
  List list;
  for (const Keyed& one : all) list.items.push_back(*one.item);
  return list;
}

Value sort_filter(Call& call) {
  const Bound given(call, "sort", {"value", "reverse", "case_sensitive", "attribute"}, 1);
  const std::vector<Value> items = elements(given[0]);
  std::vector<Keyed> all;
  if (given.has(3) && given[3].is_string() && given.text(3).view().find(',') != std::string_view::npos) {
    // Several attributes: by the first, then the second, ...
    for (const Value& item : items) {
      std::vector<Value> keys;
      std::string_view rest = given.text(3).view();
      while (true) {
        const std::size_t comma = rest.find(',');
        const Value key = dig(call.run, item, scaffold(rest.substr(0, comma)));
        keys.push_back(given.truth_or(2, false) ? key : without_case(key));
        call.run.charge(2);
        if (comma == std::string_view::npos) break;
        rest.remove_prefix(comma + 1);
      }
      all.push_back({tuple(std::move(keys)), &item});
    }
  } else {
    all = keyed(call, items, given, 3, given.truth_or(2, false));
  }
  sort_by_key(all, given.truth_or(1, false));
  List list;
  for (const Keyed& one : all) list.items.push_back(*one.item);
  return list;
}

Value unique(Call& call) {
  const Bound given(call, "unique", {"value", "case_sensitive", "attribute"}, 1);
  const std::vector<Value> items = elements(given[0]);
  Dict seen;
  List list;
  for (Keyed& one : keyed(call, items, given, 2, given.truth_or(1, false))) {
    call.run.charge(one.key.is_string() ? 1 : static_cast<std::int64_t>(seen.items.size()) + 1);
    if (seen.find(one.key) != nullptr) continue;
    seen.set(one.key, true);
    list.items.push_back(*one.item);
  }
  return list;
}

Value groupby(Call& call) {
  const Bound given(call, "groupby", {"value", "attribute", "default", "case_sensitive"}, 2);
  const std::vector<Value> items = elements(given[0]);
  std::vector<Keyed> all;
  for (const Value& item : items) {
    call.run.charge(2);
    Value key = dig(call.run, item, given[1]);
    if (key.is_undefined() && given.has(2)) key = given[2];
    all.push_back({given.truth_or(3, false) ? key : without_case(key), &item});
  }
  sort_by_key(all, false);
  List groups;
  for (std::size_t begin = 0; begin < all.size();) {
    List members;
    std::size_t end = begin;
    for (; end < all.size() && equal(all[end].key, all[begin].key); ++end)
      members.items.push_back(*all[end].item);
    Value name = dig(call.run, *all[begin].item, given[1]);
    if (name.is_undefined() && given.has(2)) name = given[2];
    groups.items.push_back(tuple({name, members}));
    begin = end;
  }
  return groups;
}

template <bool greatest>
Value extreme(Call& call) {
  const Bound given(call, greatest ? "max" : "min", {"value", "case_sensitive", "attribute"}, 1);
  const std::vector<Value> items = elements(given[0]);
  const Keyed* best = nullptr;
  const std::vector<Keyed> all = keyed(call, items, given, 2, given.truth_or(1, false));
  for (const Keyed& one : all) {
    if (best == nullptr || (greatest ? compare(one.key, best->key) > 0 : compare(one.key, best->key) < 0))
      best = &one;
  }
  return best == nullptr ? undefined("No aggregated item, sequence was empty") : *best->item;
}

Value sum_filter(Call& call) {
  const Bound given(call, "sum", {"iterable", "attribute", "start"}, 1);
  Value total = given.value_or(2, 0);
  for (const Value& item : elements(given[0])) {
    call.run.charge(1);
    total = binary(call.run, "+", total,
                   given.has(1) && !given[1].is_none() ? dig(call.run, item, given[1]) : item);
  }
  return total;
}

Value batch(Call& call) {
  const Bound given(call, "batch", {"value", "linecount", "fill_with"}, 2);
  const long long size = given.int_or(1, 1);
  if (size < 1) fail("batch wants at least one item a batch, not " + std::to_string(size) + ".");
  List batches;
  List current;
  for (Value& item : elements(given[0])) {
    if (static_cast<long long>(current.items.size()) == size)
      batches.items.emplace_back(std::exchange(current, {}));
    current.items.push_back(std::move(item));
  }
  if (!current.items.empty()) {
    if (given.has(2) && !given[2].is_none()) {
      call.run.charge(size);
      while (static_cast<long long>(current.items.size()) < size) current.items.push_back(given[2]);
    }
    batches.items.emplace_back(std::move(current));
  }
  return batches;
}

Value slice_filter(Call& call) {
  const Bound given(call, "slice", {"value", "slices", "fill_with"}, 2);
  const std::vector<Value> items = elements(given[0]);
  const long long slices = given.int_or(1, 1);
  if (slices < 1 || slices > 100'000)
    fail("slice wants 1 to 100,000 slices, not " + std::to_string(slices) + ".");
  const auto count = static_cast<std::size_t>(slices);
  const std::size_t per_slice = items.size() / count, with_one_more = items.size() % count;
  List made;
  std::size_t at = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t size = per_slice + (i < with_one_more ? 1 : 0);
    List part{{items.begin() + static_cast<std::ptrdiff_t>(at),
               items.begin() + static_cast<std::ptrdiff_t>(at + size)}};
    at += size;
    if (given.has(2) && !given[2].is_none() && i >= with_one_more) part.items.push_back(given[2]);
    made.items.emplace_back(std::move(part));
  }
  return made;
}

Value attr(Call& call) {
  const Bound given(call, "attr", {"obj", "name"}, 2);
  // Jinja's attr looks at attributes alone, never at the items of a dict.
  if (given[0].is_dict() && find_method(given[0], given.text(1).view()) == nullptr) {
    return undefined("'dict object' has no attribute '" + given.text(1).bytes() + "'");
  }
  return call.run.attribute(given[0], given.text(1).view());
}

// map(attribute="a", default=x) or map("filter", arguments...).
Value map(Call& call) {
  const std::vector<Value> items = elements(call.args.front());
  List list;
  if (call.args.size() == 1) {
    const Bound given(call, "map", {"value", "attribute", "default"}, 1);
    if (!given.has(1)) fail("map wants the name of a filter, or attribute=.");
    for (const Value& item : items) {
      call.run.charge(2);
      list.items.push_back(dig(call.run, item, given[1], given.has(2) ? &given[2] : nullptr));
    }
    return list;
  }
  if (!call.args[1].is_string())
    fail("map wants the name of a filter, not a " + call.args[1].type_name() + ".");
  const std::string name = call.args[1].text().bytes();
  for (const Value& item : items) {
    call.run.charge(1);
    Call one{call.run, {item}, call.named};
    one.args.insert(one.args.end(), call.args.begin() + 2, call.args.end());
    list.items.push_back(call.run.apply_filter(name, one));
  }
  return list;
}

// select(test, ...), reject, and with an attribute first: selectattr, rejectattr.
template <bool by_attribute, bool keep>
Value select(Call& call) {
  const std::size_t test_at = by_attribute ? 2 : 1;
  if (by_attribute && call.args.size() < 2) fail("selectattr and rejectattr want the name of an attribute.");
  List list;
  for (const Value& item : elements(call.args.front())) {
    call.run.charge(2);
    const Value subject = by_attribute ? dig(call.run, item, call.args[1]) : item;
    bool fits = false;
    if (call.args.size() > test_at) {
      Call one{call.run, {subject}, call.named};
      one.args.insert(one.args.end(), call.args.begin() + static_cast<std::ptrdiff_t>(test_at) + 1,
                      call.args.end());
      fits = call.run.apply_test(to_text(call.args[test_at]).bytes(), one);
    } else {
      fits = subject.truth();
    }
    if (fits == keep) list.items.push_back(item);
  }
  return list;
}

constexpr FilterEntry kFilters[] = {
    {"attr", attr},
    {"batch", batch},
    {"count", length},
    {"d", default_value},
    {"default", default_value},
    {"dictsort", dictsort},
    {"first", first},
    {"groupby", groupby},
    {"items", items_filter},
    {"join", join},
    {"last", last},
    {"length", length},
    {"list", list_filter},
    {"map", map},
    {"max", extreme<true>},
    {"min", extreme<false>},
    {"reject", select<false, false>},
    {"rejectattr", select<true, false>},
    {"reverse", reverse},
    {"select", select<false, true>},
    {"selectattr", select<true, true>},
    {"slice", slice_filter},
    {"sort", sort_filter},
    {"sum", sum_filter},
    {"unique", unique},
};

}  // namespace

std::span<const FilterEntry> items_filters() { return kFilters; }

}  // namespace tessera::jinja
