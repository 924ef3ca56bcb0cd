#include "server/http/http_server.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/write.hpp>

#include "server/http/connection.h"
#include "server/http/io_thread.h"

namespace tessera::http {

namespace asio = boost::asio;
using asio::ip::tcp;

struct HttpServer::Impl {
  Impl(HttpOptions given, Handler& handler) : options(std::move(given)), shared{options, handler} {}

  void accept_next();
  void open(tcp::socket socket, IoThread& thread);

  HttpOptions options;
  ConnectionContext shared;
  std::vector<std::unique_ptr<IoThread>> threads;
  std::unique_ptr<tcp::acceptor> acceptor;  // on threads[0]
  std::unique_ptr<asio::steady_timer> pause;
  std::size_t next_thread = 0;
  std::uint16_t port = 0;
  bool stopped = false;
};

void HttpServer::Impl::accept_next() {
  IoThread& thread = *threads[next_thread++ % threads.size()];
  acceptor->async_accept(
      thread.context(), [this, &thread](boost::system::error_code error, tcp::socket socket) {
        if (error == asio::error::operation_aborted || !acceptor->is_open()) return;
        if (!error) {
          thread.mailbox()->mail([this, &thread, held = std::make_shared<tcp::socket>(std::move(socket))] {
            open(std::move(*held), thread);
          });
          return accept_next();
        }
        // Out of file descriptors, most likely: wait instead of spinning.
        pause->expires_after(std::chrono::milliseconds(100));
        pause->async_wait([this](boost::system::error_code stopped_waiting) {
          if (!stopped_waiting && acceptor->is_open()) accept_next();
        });
      });
}

void HttpServer::Impl::open(tcp::socket socket, IoThread& thread) {
  if (shared.open >= options.max_connections) {
    const Response full = shared.handler.problem(503, "The server has all the connections it may have.");
    const std::string text =
        "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\n"
        "Connection: close\r\nContent-Length: " +
        std::to_string(full.body.size()) + "\r\n\r\n" + full.body;
    boost::system::error_code ignored;
    socket.non_blocking(true, ignored);
    socket.write_some(asio::buffer(text), ignored);  // fits an empty socket buffer, or is lost
    return;
  }
  auto connection = std::make_shared<Connection>(std::move(socket), thread, shared);
  thread.connections.insert(connection);
  connection->start();
}

HttpServer::HttpServer(HttpOptions options, Handler& handler)
    : impl_(std::make_unique<Impl>(std::move(options), handler)) {}

HttpServer::~HttpServer() { stop(); }

Result<void> HttpServer::start() {
  Impl& my = *impl_;
  for (int i = 0; i < std::max(1, my.options.io_threads); ++i) {
    my.threads.push_back(std::make_unique<IoThread>(my.options.tick));
  }
  asio::io_context& context = my.threads[0]->context();
  const std::string where = my.options.host + ":" + std::to_string(my.options.port);
  boost::system::error_code error;
  tcp::resolver resolver(context);
  const auto found = resolver.resolve(my.options.host, std::to_string(my.options.port),
                                      tcp::resolver::passive | tcp::resolver::numeric_service, error);
  if (error || found.empty()) {
    return Error{ErrorKind::kInvalidArgument, where,
                 "The host does not resolve to an address: " + error.message() + "."};
  }
  const tcp::endpoint endpoint = found.begin()->endpoint();
  my.acceptor = std::make_unique<tcp::acceptor>(context);
  my.pause = std::make_unique<asio::steady_timer>(context);
  my.acceptor->open(endpoint.protocol(), error);
  if (!error) my.acceptor->set_option(tcp::acceptor::reuse_address(true), error);
  if (!error && endpoint.address().is_v6()) my.acceptor->set_option(asio::ip::v6_only(false), error);
  if (!error) my.acceptor->bind(endpoint, error);
  if (!error) my.acceptor->listen(asio::socket_base::max_listen_connections, error);
  if (error) {
    return Error{ErrorKind::kIo, where,
                 "Cannot listen: " + error.message() + ". Choose another --host or --port."};
  }
  my.port = my.acceptor->local_endpoint().port();
  my.accept_next();
  for (const auto& thread : my.threads) thread->start();
  return {};
}

std::uint16_t HttpServer::port() const { return impl_->port; }

int HttpServer::open_connections() const { return impl_->shared.open; }

void HttpServer::drain() {
  Impl& my = *impl_;
  if (my.threads.empty()) return;
  my.shared.draining = true;
  my.threads[0]->mailbox()->mail([&my] {
    boost::system::error_code ignored;
    my.acceptor->close(ignored);
  });
  for (const auto& thread : my.threads) {
    thread->mailbox()->mail([&io = *thread] {
      const std::vector<std::shared_ptr<Connection>> all(io.connections.begin(), io.connections.end());
      for (const auto& connection : all) connection->close_if_idle();
    });
  }
}

void HttpServer::stop() {
  if (impl_->stopped) return;
  impl_->stopped = true;
  for (const auto& thread : impl_->threads) thread->stop();
  impl_->pause.reset();
  impl_->acceptor.reset();
  // Handlers still queued in the loops hold connections, whose sockets belong to the loops: loops go last.
  impl_->threads.clear();
}

}  // namespace tessera::http
