// One HTTP request and the answer to it, as handlers see them: no sockets, no protocol, no Boost.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "server/http/mailbox.h"

namespace tessera::http {

using Headers = std::vector<std::pair<std::string, std::string>>;

struct Request {
  std::string method;  // upper case
  std::string path;    // without the query, percent escapes as sent
  std::string query;   // without '?'
  Headers headers;     // names in lower case
  std::string body;
  std::string client;  // address:port, for the access log

  // The first header of that (lower-case) name, or an empty view.
  std::string_view header(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::string content_type = "application/json";
  std::string body = {};  // unused by begin_stream
  Headers headers = {};   // besides Content-Type, Content-Length, Connection and Date
};

std::string_view reason_phrase(int status);

// The answering side. All calls belong to the connection's own thread, on which handlers and its mailbox's
// tasks run. When the client has gone, writing is ignored. Shared between the connection's pending reads and
// writes and the handler's work; nobody may keep it beyond the server's stop(), which is what the mailbox is
// for.
class Exchange {
 public:
  virtual ~Exchange() = default;

  // The whole answer at once. After begin_stream the client is cut off instead: what it has begun to read
  // cannot become another answer, and must not look complete.
  virtual void respond(Response response) = 0;
  // An answer in pieces: begin_stream, any number of write, end_stream.
  virtual void begin_stream(Response head) = 0;
  virtual void write(std::string_view bytes) = 0;
  virtual void end_stream() = 0;

  // The way to this thread from others. May be kept for ever.
  virtual std::shared_ptr<Mailbox> mailbox() = 0;
  // Called once if the client goes away, or is cut for not reading, before the answer is complete. Kept until
  // then or until the answer is complete: work that the callback owns lives exactly as long as it is wanted.
  virtual void on_gone(std::function<void()> callback) = 0;
  // Called a few times a second until the answer is complete.
  virtual void on_tick(std::function<void(std::chrono::steady_clock::time_point)> callback) = 0;
};

// What the server does with requests. Called on io threads, several at once. An exception that leaves a call
// is logged and answered with 500, or cuts a stream.
class Handler {
 public:
  virtual ~Handler() = default;
  // Looks at a request's head before the body is read; true: it has answered already, the body is not wanted.
  virtual bool refuse(const Request& head, Exchange& exchange) = 0;
  virtual void handle(std::shared_ptr<Exchange> exchange, Request request) = 0;
  // The answer for what never became a request: malformed, too large, too slow.
  virtual Response problem(int status, std::string message) = 0;
};

}  // namespace tessera::http
