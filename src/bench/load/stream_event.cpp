#include "bench/load/stream_event.h"

#include <charconv>
#include <cstring>

#include "base/json_string.h"

namespace tessera::bench {
namespace {

// One past the quote that ends the string whose first character is at `at`; npos when it does not end.
std::size_t string_end(std::string_view json, std::size_t at) {
  while (at < json.size()) {
    const void* found = std::memchr(json.data() + at, '"', json.size() - at);
    if (found == nullptr) return std::string_view::npos;
    const auto quote = static_cast<std::size_t>(static_cast<const char*>(found) - json.data());
    std::size_t slashes = 0;
    while (quote - slashes > at && json[quote - slashes - 1] == '\\') ++slashes;
    at = quote + 1;
    if (slashes % 2 == 0) return at;
  }
  return std::string_view::npos;
}

std::size_t skip_blanks(std::string_view json, std::size_t at) {
  while (at < json.size() && (json[at] == ' ' || json[at] == '\t' || json[at] == '\n' || json[at] == '\r'))
    ++at;
  return at;
}

std::optional<std::int64_t> number_at(std::string_view json, std::size_t at) {
  std::int64_t value = 0;
  const auto [end, failed] = std::from_chars(json.data() + at, json.data() + json.size(), value);
  if (failed != std::errc() || value < 0) return std::nullopt;
  return value;
}

}  // namespace

StreamEvent read_event(std::string_view payload, std::string& text) {
  StreamEvent event;
  if (payload == "[DONE]") {
    event.is_done = true;
    return event;
  }
  std::size_t at = payload.find('"');
  while (at != std::string_view::npos) {
    const std::size_t end = string_end(payload, at + 1);
    if (end == std::string_view::npos) break;
    const std::string_view key = payload.substr(at + 1, end - at - 2);
    std::size_t value = skip_blanks(payload, end);
    at = end;
    if (value < payload.size() && payload[value] == ':') {
      value = skip_blanks(payload, value + 1);
      const bool is_string = value < payload.size() && payload[value] == '"';
      if (is_string) {
        const std::size_t value_end = string_end(payload, value + 1);
        if (value_end == std::string_view::npos) break;
        const std::string_view raw = payload.substr(value + 1, value_end - value - 2);
        if (key == "text" || key == "content" || key == "reasoning_content" || key == "reasoning") {
          event.has_text = event.has_text || !raw.empty();
          append_json_unescaped(text, raw);
        } else if (key == "finish_reason") {
          event.finish_reason = raw;
        }
        at = value_end;
      } else if (key == "completion_tokens") {
        event.completion_tokens = number_at(payload, value);
      } else if (key == "prompt_tokens") {
        event.prompt_tokens = number_at(payload, value);
      } else if (key == "cached_tokens") {
        event.cached_tokens = number_at(payload, value);
      } else if (key == "error" && value < payload.size() && payload[value] == '{') {
        event.error = payload;
      }
    }
    at = payload.find('"', at);
  }
  return event;
}

void EventLines::feed(std::string_view bytes, const std::function<void(std::string_view)>& on_payload) {
  while (!bytes.empty()) {
    const std::size_t end = bytes.find('\n');
    if (end == std::string_view::npos) {
      rest_ += bytes;
      return;
    }
    std::string_view line = bytes.substr(0, end);
    bytes.remove_prefix(end + 1);
    if (!rest_.empty()) line = rest_.append(line);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with("data:")) {
      line.remove_prefix(5);
      if (line.starts_with(' ')) line.remove_prefix(1);
      on_payload(line);
    }
    rest_.clear();
  }
}

}  // namespace tessera::bench
