// Any bytes are a plan or an error with a place; an edit that is accepted does what it says and keeps the
// plan readable.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "stack/plan/plan_editor.h"
#include "stack/plan/plan_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera::stack;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto plan = read_plan(text, "plan");
  if (!plan) return 0;
  PlanEditor editor{std::string(text)};
  if (!editor.set("base", "target", "0123456789012345678901234567890123456789"))
    return 0;  // a layout that it refuses
  for (const Bucket& bucket : plan->buckets) {
    if (!editor.add_to_list(bucket.name, "pins", {"h:0123456789abcdef"})) return 0;
  }
  const auto again = read_plan(editor.text(), "plan");
  if (!again || again->target != "0123456789012345678901234567890123456789") std::abort();
  for (std::size_t i = 0; i < plan->buckets.size(); ++i) {
    if (again->buckets[i].pins.size() != plan->buckets[i].pins.size() + 1) std::abort();
  }
  return 0;
}
