#include "bench/load/completion_stream.h"

namespace tessera::bench {

void CompletionStream::start(std::string body, std::int64_t asked_tokens, Events events) {
  events_ = std::move(events);
  trace_ = {};
  trace_.asked_tokens = asked_tokens;
  trace_.arrivals.reserve(1024);
  lines_ = {};
  status_ = 0;
  head_of_body_.clear();
  trace_.sent = loop_.now();
  call_ = loop_.send("POST", "/v1/completions", std::move(body), *this);
}

void CompletionStream::on_body(std::string_view bytes, double at) {
  if (status_ != 200 && head_of_body_.size() < 1000) head_of_body_ += bytes.substr(0, 1000);
  const bool had_begun = trace_.has_begun();
  lines_.feed(bytes, [&](std::string_view payload) { on_payload(payload, at); });
  if (!had_begun && trace_.has_begun()) events_.on_first_token();
}

void CompletionStream::on_payload(std::string_view payload, double at) {
  const StreamEvent event = read_event(payload, trace_.text);
  if (event.is_done) return;
  if (!event.error.empty()) {
    trace_.error = event.error.substr(0, 400);
    return;
  }
  if (event.prompt_tokens) trace_.prompt_tokens = *event.prompt_tokens;
  if (event.cached_tokens) trace_.cached_tokens = *event.cached_tokens;
  if (!event.finish_reason.empty()) trace_.finish_reason = event.finish_reason;
  std::int64_t arrived = event.has_text ? 1 : 0;
  if (event.completion_tokens) {
    // A server that counts in its last event alone has told us too late when its tokens came: then an event
    // is a token, and the sum is compared.
    trace_.counted_by_server = trace_.counted_by_server || event.has_text;
    arrived = trace_.counted_by_server ? *event.completion_tokens - trace_.tokens : arrived;
  }
  if (arrived <= 0) return;
  trace_.arrivals.push_back({at, static_cast<std::int32_t>(arrived)});
  trace_.tokens += arrived;
}

void CompletionStream::on_end(const Result<void>& how) {
  trace_.ended = loop_.now();
  if (!how) {
    trace_.error = how.error().message();
  } else if (status_ != 200) {
    trace_.error = "status " + std::to_string(status_) + ": " + head_of_body_.substr(0, 400);
  }
  events_.on_end();
}

}  // namespace tessera::bench
