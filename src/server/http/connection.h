// One client connection: reads requests, hands them to the handler, writes answers. Everything runs on its
// IoThread. One read is pending whenever more input can be used, also while a request is being answered: that
// is how a client that leaves is noticed.
#pragma once

#include <atomic>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>
#include <optional>

#include "server/http/http_server.h"
#include "server/http/io_thread.h"

namespace tessera::http {

// What all connections of a server share.
struct ConnectionContext {
  const HttpOptions& options;
  Handler& handler;
  std::atomic<int> open{0};
  std::atomic<bool> draining{false};
};

class Connection final : public Exchange, public std::enable_shared_from_this<Connection> {
 public:
  Connection(boost::asio::ip::tcp::socket socket, IoThread& thread, ConnectionContext& shared);
  ~Connection() override;

  void start();
  void tick(std::chrono::steady_clock::time_point now);
  void close();          // at once; on_gone if a request was open
  void close_if_idle();  // when draining

  void respond(Response response) override;
  void begin_stream(Response head) override;
  void write(std::string_view bytes) override;
  void end_stream() override;
  std::shared_ptr<Mailbox> mailbox() override { return thread_.mailbox(); }
  void on_gone(std::function<void()> callback) override { on_gone_ = std::move(callback); }
  void on_tick(std::function<void(std::chrono::steady_clock::time_point)> callback) override {
    on_tick_ = std::move(callback);
  }

 private:
  enum class Stage {
    kIdle,       // between requests
    kHeader,     // some bytes of a request have come
    kBody,       // its header is read
    kAnswering,  // the handler has it
    kClosing,    // the last answer is being written
    kLingering,  // written; input is thrown away until the client closes, so that it sees the answer
    kClosed,
  };

  void read_more();
  void on_read(boost::system::error_code error, std::size_t bytes);
  void parse();
  bool begin_body();  // false: refused
  void dispatch();
  void refuse(int status, std::string message);
  void fail(std::string_view what);  // only inside a catch block
  void send_head(const Response& response, std::optional<std::size_t> length);
  void answer_complete();
  void flush();
  void on_written(boost::system::error_code error, std::size_t bytes);
  void linger();
  void enter(Stage stage);

  boost::asio::ip::tcp::socket socket_;
  IoThread& thread_;
  ConnectionContext& shared_;
  Stage stage_ = Stage::kIdle;
  std::chrono::steady_clock::time_point deadline_;  // of stages that have one

  boost::beast::flat_buffer input_;
  bool reading_ = false;
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser_;
  Request request_;
  bool keep_alive_ = true;
  bool is_head_ = false;
  bool is_http10_ = false;

  std::string outbox_;  // to be written next
  std::string flying_;  // being written
  std::size_t flown_ = 0;
  bool writing_ = false;
  bool streaming_ = false;
  std::chrono::steady_clock::time_point last_progress_;  // of writing

  std::function<void()> on_gone_;
  std::function<void(std::chrono::steady_clock::time_point)> on_tick_;
};

}  // namespace tessera::http
