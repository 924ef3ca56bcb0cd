// One streamed completion and the times at which its tokens came.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/load/load_loop.h"
#include "bench/load/stream_event.h"

namespace tessera::bench {

struct TokenArrival {
  double at = 0;            // on the loop's clock
  std::int32_t tokens = 0;  // that came with it: more than one with speculation
};

struct StreamTrace {
  double sent = 0;
  std::vector<TokenArrival> arrivals;
  std::string text;
  std::int64_t asked_tokens = 0;    // max_tokens
  std::int64_t tokens = 0;          // received
  std::int64_t prompt_tokens = -1;  // as the server counted; -1: it did not say
  std::int64_t cached_tokens = -1;
  bool counted_by_server = false;  // else an event with text is one token
  std::string finish_reason;       // "" while it runs or when we left
  std::string error;               // of a request that failed
  double ended = -1;               // -1: still running, or left

  bool has_begun() const { return !arrivals.empty(); }
  bool is_over() const { return ended >= 0; }
};

class CompletionStream final : public CallSink {
 public:
  struct Events {
    std::function<void()> on_first_token = [] {};
    std::function<void()> on_end = [] {};  // by the server; not when we leave
  };
  explicit CompletionStream(LoadLoop& loop) : loop_(loop) {}

  void start(std::string body, std::int64_t asked_tokens, Events events);
  void leave() { call_.reset(); }
  const StreamTrace& trace() const { return trace_; }

 private:
  void on_head(int status) override { status_ = status; }
  void on_body(std::string_view bytes, double at) override;
  void on_end(const Result<void>& how) override;
  void on_payload(std::string_view payload, double at);

  LoadLoop& loop_;
  Events events_;
  StreamTrace trace_;
  EventLines lines_;
  int status_ = 0;
  std::string head_of_body_;  // for the message, should it be an error
  std::unique_ptr<HttpCall> call_;
};

}  // namespace tessera::bench
