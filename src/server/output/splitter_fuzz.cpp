// Any sequence of markers and text, in any bundling: no crash, every call opened once and closed once.
#include <cstddef>
#include <cstdint>

#include "base/check.h"
#include "server/output/stream_splitter.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera;
  if (size < 1) return 0;
  SplitterOptions options{.ids = {0, 1, 2, 3, 4, 5, 6}};
  options.thinking = static_cast<MarkerMode>(data[0] % 3);
  options.tools = static_cast<MarkerMode>(data[0] / 3 % 3);
  options.start = static_cast<SplitterOptions::Start>(data[0] / 9 % 3);
  StreamSplitter splitter(options);
  int open = 0;
  const auto check = [&](std::span<const SplitEvent> events) {
    for (const SplitEvent& event : events) {
      if (event.kind == SplitEvent::kCallBegin) TS_CHECK(++open == 1);
      if (event.kind == SplitEvent::kCallEnd) TS_CHECK(--open == 0);
      const bool inside = event.kind == SplitEvent::kCallId || event.kind == SplitEvent::kArgumentsBegin ||
                          event.kind == SplitEvent::kArguments;
      TS_CHECK(!inside || open == 1);
      // No marker is ever shown where a parser reads them.
      const bool is_tool_marker = event.token >= 2 && event.token <= 6;
      TS_CHECK(!is_tool_marker || options.tools == MarkerMode::kPass, event.token);
    }
  };
  for (std::size_t i = 1; i < size; ++i) check(splitter.push(data[i] % 10));
  check(splitter.finish());
  TS_CHECK(open == 0);
  return 0;
}
