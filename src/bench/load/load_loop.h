// The client's only thread: connections, timers and the clock that every time in a run is read from.
//
// A call is one connection: requests of a load test last for seconds, and a connection of its own lets a
// client leave at any moment, which is how a server learns to stop generating.
//
// The client has to be light: 128 streams of 50 tokens a second are 6,400 events, each in a packet of its
// own. What is ready is read together, once each, and dated by the kernel's stamps, so that it need not be
// read at once.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "bench/load/http_target.h"

namespace tessera::bench {

// What becomes of a call. Called on the loop's thread, never after the call was closed.
class CallSink {
 public:
  virtual ~CallSink() = default;
  virtual void on_head(int status) = 0;
  // `at`: when the bytes reached this machine, on the loop's clock.
  virtual void on_body(std::string_view bytes, double at) = 0;
  virtual void on_end(const Result<void>& how) = 0;  // the answer is whole, or what went wrong
};

class HttpCall {
 public:
  virtual ~HttpCall() = default;  // closes
  virtual void close() = 0;
};

// System calls that the loop has made.
struct LoopCounts {
  std::int64_t waits = 0;
  std::int64_t naps = 0;
  std::int64_t receives = 0;
  std::int64_t sends = 0;
};

struct HttpReply {
  int status = 0;
  std::string body;
};

class LoadLoop {
 public:
  // Looks the host up.
  static Result<std::unique_ptr<LoadLoop>> open(HttpTarget target);
  virtual ~LoadLoop() = default;

  virtual const HttpTarget& target() const = 0;
  virtual double now() const = 0;  // seconds since the loop was opened
  virtual LoopCounts counts() const = 0;
  virtual void at(double when, std::function<void()> task) = 0;
  // The sink outlives the call, and the loop its calls. The call may be dropped inside its own sink's
  // functions.
  virtual std::unique_ptr<HttpCall> send(std::string_view method, std::string_view path, std::string body,
                                         CallSink& sink) = 0;
  // Serves calls and timers until `when`, or until stop() is called.
  virtual void run_until(double when) = 0;
  virtual void stop() = 0;

  // One call, waited for. Everything else goes on meanwhile.
  Result<HttpReply> fetch(std::string_view method, std::string_view path, std::string body = {},
                          double timeout_s = 60);
  // The same, whose answer is JSON with status 200; anything else is an error that quotes the answer.
  Result<std::string> fetch_ok(std::string_view method, std::string_view path, std::string body = {},
                               double timeout_s = 60);
};

}  // namespace tessera::bench
