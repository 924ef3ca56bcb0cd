#include "bench/load/load_loop.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/connect.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <chrono>
#include <limits>
#include <optional>

namespace tessera::bench {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;
using tcp = asio::ip::tcp;
using Clock = std::chrono::steady_clock;

// A body that is handed on as it comes.
struct SinkBody {
  struct value_type {
    CallSink* sink = nullptr;
  };
  class reader {
   public:
    template <bool isRequest, class Fields>
    reader(http::header<isRequest, Fields>&, value_type& value) : value_(value) {}
    void init(const boost::optional<std::uint64_t>&, boost::system::error_code& error) { error = {}; }
    template <class Buffers>
    std::size_t put(const Buffers& buffers, boost::system::error_code& error) {
      error = {};
      std::size_t taken = 0;
      for (auto at = asio::buffer_sequence_begin(buffers); at != asio::buffer_sequence_end(buffers); ++at) {
        const asio::const_buffer buffer = *at;
        taken += buffer.size();
        if (value_.sink != nullptr)
          value_.sink->on_body({static_cast<const char*>(buffer.data()), buffer.size()});
      }
      return taken;
    }
    void finish(boost::system::error_code& error) { error = {}; }

   private:
    value_type& value_;
  };
};

Error io_error(const std::string& where, const char* what, const boost::system::error_code& error) {
  return {ErrorKind::kIo, where, std::string(what) + ": " + error.message() + "."};
}

// Lives as long as its handlers; `sink_` is null once the owner has let go.
class Connection final : public std::enable_shared_from_this<Connection> {
 public:
  Connection(asio::io_context& context, std::string url, std::string request, CallSink& sink)
      : socket_(context), url_(std::move(url)), request_(std::move(request)), sink_(&sink) {
    parser_.body_limit(std::numeric_limits<std::uint64_t>::max());
    parser_.get().body().sink = &sink;
  }

  void start(const tcp::resolver::results_type& endpoints) {
    asio::async_connect(socket_, endpoints,
                        [self = shared_from_this()](const boost::system::error_code& error,
                                                    const tcp::endpoint&) { self->on_connected(error); });
  }

  void close() {
    sink_ = nullptr;
    parser_.get().body().sink = nullptr;
    boost::system::error_code ignored;
    socket_.close(ignored);
  }

 private:
  void on_connected(const boost::system::error_code& error) {
    if (sink_ == nullptr) return;
    if (error) return end(io_error(url_, "The connection failed", error));
    boost::system::error_code ignored;
    socket_.set_option(tcp::no_delay(true), ignored);
    asio::async_write(socket_, asio::buffer(request_),
                      [self = shared_from_this()](const boost::system::error_code& failed, std::size_t) {
                        if (self->sink_ == nullptr) return;
                        std::string().swap(self->request_);
                        // An answer may have come all the same, e.g. to a body that was too large.
                        if (!failed) return;
                        self->write_error_ = failed;
                      });
    read_more();
  }

  void read_more() {
    socket_.async_read_some(input_.prepare(16384),
                            [self = shared_from_this()](const boost::system::error_code& error,
                                                        std::size_t bytes) { self->on_read(error, bytes); });
  }

  void on_read(const boost::system::error_code& error, std::size_t bytes) {
    if (sink_ == nullptr) return;
    input_.commit(bytes);
    boost::system::error_code parsed;
    if (error == asio::error::eof) {
      parser_.put_eof(parsed);
      if (parsed || !parser_.is_done())
        return end(
            Error{ErrorKind::kIo, url_, "The server closed the connection in the middle of its answer."});
    } else if (error) {
      return end(io_error(url_, "Reading failed", write_error_ ? write_error_ : error));
    }
    while (input_.size() > 0 && !parser_.is_done()) {
      const std::size_t used = parser_.put(input_.data(), parsed);
      if (sink_ == nullptr) return;  // closed by its sink
      input_.consume(used);
      if (parser_.is_header_done() && !head_told_) {
        head_told_ = true;
        parser_.eager(true);  // from here on as much as there is; before, the head alone
        sink_->on_head(static_cast<int>(parser_.get().result_int()));
        if (sink_ == nullptr) return;
      }
      if (parsed == http::error::need_more) {
        parsed = {};
        break;
      }
      if (parsed) return end(io_error(url_, "The answer is no HTTP", parsed));
      if (used == 0) break;
    }
    if (parser_.is_done()) return end({});
    read_more();
  }

  void end(const Result<void>& how) {
    CallSink* sink = std::exchange(sink_, nullptr);
    close();
    sink->on_end(how);
  }

  tcp::socket socket_;
  std::string url_;
  std::string request_;
  CallSink* sink_;
  boost::beast::flat_buffer input_;
  http::response_parser<SinkBody> parser_;
  boost::system::error_code write_error_;
  bool head_told_ = false;
};

class OwnedConnection final : public HttpCall {
 public:
  explicit OwnedConnection(std::shared_ptr<Connection> connection) : connection_(std::move(connection)) {}
  ~OwnedConnection() override { connection_->close(); }
  void close() override { connection_->close(); }

 private:
  std::shared_ptr<Connection> connection_;  // shared with its pending reads and writes
};

class AsioLoop final : public LoadLoop {
 public:
  explicit AsioLoop(HttpTarget target) : target_(std::move(target)), work_(context_.get_executor()) {}

  Result<void> resolve() {
    boost::system::error_code error;
    tcp::resolver resolver(context_);
    endpoints_ = resolver.resolve(target_.host, target_.port, error);
    if (error) return io_error(target_.url(), "The host cannot be looked up", error);
    return {};
  }

  const HttpTarget& target() const override { return target_; }
  double now() const override { return std::chrono::duration<double>(Clock::now() - began_).count(); }

  void at(double when, std::function<void()> task) override {
    auto timer = std::make_unique<asio::steady_timer>(context_, point(when));
    asio::steady_timer& waiting = *timer;
    waiting.async_wait(
        [timer = std::move(timer), task = std::move(task)](const boost::system::error_code& error) {
          if (!error) task();
        });
  }

  std::unique_ptr<HttpCall> send(std::string_view method, std::string_view path, std::string body,
                                 CallSink& sink) override {
    std::string request = std::string(method) + ' ' + target_.base + std::string(path) +
                          " HTTP/1.1\r\nHost: " + target_.host + ':' + target_.port +
                          "\r\nConnection: close\r\nAccept: */*\r\n";
    if (!target_.api_key.empty()) request += "Authorization: Bearer " + target_.api_key + "\r\n";
    if (!body.empty()) request += "Content-Type: application/json\r\n";
    request += "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
    request += body;
    auto connection =
        std::make_shared<Connection>(context_, target_.url() + std::string(path), std::move(request), sink);
    connection->start(endpoints_);
    return std::make_unique<OwnedConnection>(std::move(connection));
  }

  void run_until(double when) override {
    context_.restart();
    context_.run_until(point(when));
  }
  void stop() override { context_.stop(); }

 private:
  Clock::time_point point(double when) const {
    return began_ + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(when));
  }

  const Clock::time_point began_ = Clock::now();
  HttpTarget target_;
  asio::io_context context_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  tcp::resolver::results_type endpoints_;
};

class Collector final : public CallSink {
 public:
  explicit Collector(LoadLoop& loop) : loop_(loop) {}
  void on_head(int status) override { reply.status = status; }
  void on_body(std::string_view bytes) override { reply.body += bytes; }
  void on_end(const Result<void>& how) override {
    ended = how;
    loop_.stop();
  }

  HttpReply reply;
  std::optional<Result<void>> ended;

 private:
  LoadLoop& loop_;
};

}  // namespace

Result<std::unique_ptr<LoadLoop>> LoadLoop::open(HttpTarget target) {
  auto loop = std::make_unique<AsioLoop>(std::move(target));
  TS_TRY(loop->resolve());
  return std::unique_ptr<LoadLoop>(std::move(loop));
}

Result<HttpReply> LoadLoop::fetch(std::string_view method, std::string_view path, std::string body,
                                  double timeout_s) {
  Collector sink(*this);
  const double until = now() + timeout_s;
  const std::unique_ptr<HttpCall> call = send(method, path, std::move(body), sink);
  while (!sink.ended && now() < until) run_until(until);
  if (!sink.ended) {
    return Error{ErrorKind::kUnavailable, target().url() + std::string(path),
                 "No answer came in " + std::to_string(static_cast<int>(timeout_s)) + " s."};
  }
  TS_TRY(*sink.ended);
  return std::move(sink.reply);
}

Result<std::string> LoadLoop::fetch_ok(std::string_view method, std::string_view path, std::string body,
                                       double timeout_s) {
  TS_TRY(HttpReply reply, fetch(method, path, std::move(body), timeout_s));
  if (reply.status == 200) return std::move(reply.body);
  return Error{ErrorKind::kUnavailable, target().url() + std::string(path),
               "It answered " + std::to_string(reply.status) + ": " + reply.body.substr(0, 400)};
}

}  // namespace tessera::bench
