// Functions that templates call by name: Jinja's own and the two that `transformers` adds.
#include <algorithm>
#include <iterator>

#include "tokenizer/jinja/call.h"
#include "tokenizer/jinja/interpreter.h"
#include "tokenizer/jinja/strftime.h"

namespace tessera::jinja {
namespace {

constexpr long long kMaxRange = 100'000;  // that of Jinja's sandbox

Value range(Call& call) {
  const Bound given(call, "range", {"start", "stop", "step"}, 1);
  const long long first = given.int_or(0, 0);
  const long long from = given.has(1) ? first : 0;
  const long long to = given.has(1) ? given.int_or(1, 0) : first;
  const long long step = given.int_or(2, 1);
  if (step == 0) fail("The step of range is 0.");
  const Int distance = step > 0 ? Int{to} - from : Int{from} - to;
  const Int width = step > 0 ? Int{step} : -Int{step};
  const Int count = distance <= 0 ? Int{0} : (distance + width - 1) / width;
  if (count > kMaxRange) fail("range gives more than 100,000 numbers.", ErrorKind::kTooLarge);
  call.run.charge(static_cast<std::int64_t>(count));
  List list;
  for (Int i = 0; i < count; ++i) list.items.emplace_back(Int{from} + i * step);
  return list;
}

Value make_namespace(Call& call) {
  auto made = std::make_shared<Namespace>();
  if (call.args.size() > 1) fail("namespace takes one dict and named values.");
  if (!call.args.empty()) {
    if (!call.args.front().is_dict())
      fail("namespace wants a dict, not a " + call.args.front().type_name() + ".");
    for (const auto& [key, value] : call.args.front().dict().items)
      made->names.emplace_back(to_text(key).bytes(), value);
  }
  for (auto& named : call.named) {
    (void)depth_around(named.second);
    made->names.push_back(named);
  }
  return made;
}

Value make_dict(Call& call) {
  auto made = std::make_shared<Dict>();
  if (call.args.size() > 1) fail("dict takes at most one argument.");
  if (!call.args.empty()) {
    const Value& from = call.args.front();
    if (from.is_dict()) {
      for (const auto& [key, value] : from.dict().items) made->set(key, value);
    } else {
      for (const Value& item : elements(from)) {
        const std::vector<Value> both = elements(item);
        if (both.size() != 2) fail("dict wants pairs of a key and a value.");
        made->set(both[0], both[1]);
      }
    }
  }
  for (const auto& [key, value] : call.named) made->set(scaffold(key), value);
  return std::shared_ptr<const Dict>(std::move(made));
}

Value raise_exception(Call& call) {
  const Bound given(call, "raise_exception", {"message"}, 1);
  fail("The template refuses this dialogue: " + to_text(given[0]).bytes());
}

Value strftime_now(Call& call) {
  const Bound given(call, "strftime_now", {"format"}, 1);
  return Text(format_time(given.text(0).view(), call.run.now()), given.text(0).any_foreign());
}

// Returns its separator from the second call on. The state lives in the callable, as a loop's does.
Value joiner(Call& call) {
  const Bound given(call, "joiner", {"sep"}, 0);
  const Value separator = given.value_or(0, scaffold(", "));
  auto used = std::make_shared<bool>(false);
  auto made = std::make_shared<Callable>();
  made->name = "joiner";
  made->depth = depth_around(separator);
  made->body = [separator, used](Call&) { return std::exchange(*used, true) ? separator : scaffold(""); };
  return std::shared_ptr<const Callable>(std::move(made));
}

using Entry = std::pair<std::string_view, Builtin>;
constexpr Entry kGlobals[] = {{"dict", make_dict},
                              {"joiner", joiner},
                              {"namespace", make_namespace},
                              {"raise_exception", raise_exception},
                              {"range", range},
                              {"strftime_now", strftime_now}};

}  // namespace

Builtin find_global(std::string_view name) {
  const auto* found = std::ranges::find(kGlobals, name, &Entry::first);
  return found == std::end(kGlobals) ? nullptr : found->second;
}

}  // namespace tessera::jinja
