// The events of a streamed answer, read in one pass: thousands come each second, and a tree for each would
// cost more than the whole client may.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace tessera::bench {

// What a benchmark wants to know of an event of /v1/completions or /v1/chat/completions.
struct StreamEvent {
  bool has_text = false;                          // a piece of content or of a thought, not empty
  bool is_done = false;                           // [DONE]
  std::optional<std::int64_t> prompt_tokens;      // of usage
  std::optional<std::int64_t> cached_tokens;      //
  std::optional<std::int64_t> completion_tokens;  // so far
  std::string_view finish_reason;                 // "" while it goes on; points into the payload
  std::string_view error;                         // the payload, if it is an error
};
// `text` is appended to, unescaped. Payloads that are no JSON give an event of which nothing is known.
StreamEvent read_event(std::string_view payload, std::string& text);

// Cuts the bytes of an event stream into the payloads of its `data:` lines. Lines may come in any pieces.
class EventLines {
 public:
  void feed(std::string_view bytes, const std::function<void(std::string_view payload)>& on_payload);

 private:
  std::string rest_;  // of a line that has not ended
};

}  // namespace tessera::bench
