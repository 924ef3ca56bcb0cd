// An HTTP/1.1 server: N io threads, each with its own event loop; a connection stays on one of them, so
// nothing of a connection is ever locked. Knows nothing of what it serves (Handler does).
//
// Limits that keep a hostile or slow client from costing more than itself: header and body size, connections,
// time for a header, for a body, between requests; and unsent bytes and seconds without progress for clients
// that do not read, which are cut.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "server/http/exchange.h"

namespace tessera::http {

struct HttpOptions {
  std::string host = "0.0.0.0";  // an address, or a name that resolves to one
  std::uint16_t port = 8000;     // 0: any free one
  int io_threads = 2;
  int max_connections = 4096;  // more are answered 503 and closed
  std::size_t max_header_bytes = 64U << 10;
  std::size_t max_body_bytes = 64U << 20;
  std::size_t max_unsent_bytes = 16U << 20;  // of one connection; a client that leaves more unread is cut
  std::chrono::milliseconds header_timeout{15'000};  // from a request's first byte to the end of its header
  std::chrono::milliseconds body_timeout{120'000};
  std::chrono::milliseconds idle_timeout{75'000};   // between requests
  std::chrono::milliseconds write_timeout{60'000};  // without a byte taken by the client
  std::chrono::milliseconds tick{200};              // how often time-outs are looked at
};

class HttpServer {
 public:
  // Borrows the handler, which must outlive this.
  HttpServer(HttpOptions options, Handler& handler);
  ~HttpServer();

  // Listens and starts the io threads, or says why the address cannot be had.
  Result<void> start();
  std::uint16_t port() const;
  int open_connections() const;
  // Stops listening, closes idle connections; open requests go on, and each connection closes after its
  // answer.
  void drain();
  // Cuts what is left and joins the threads. Safe to call twice.
  void stop();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tessera::http
