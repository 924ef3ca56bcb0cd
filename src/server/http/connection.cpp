#include "server/http/connection.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/beast/http/error.hpp>
#include <cctype>

#include "server/http/failure.h"

namespace tessera::http {

namespace asio = boost::asio;
namespace beast = boost::beast;
using std::chrono::steady_clock;

// Requests that a client sends ahead of the answer wait here; more stay in the kernel.
constexpr std::size_t kReadBytes = 64U << 10;
constexpr std::chrono::milliseconds kLingerTime{2'000};

Connection::Connection(asio::ip::tcp::socket socket, IoThread& thread, ConnectionContext& shared)
    : socket_(std::move(socket)), thread_(thread), shared_(shared) {
  ++shared_.open;
}

Connection::~Connection() { --shared_.open; }

void Connection::start() {
  boost::system::error_code ignored;
  socket_.set_option(asio::ip::tcp::no_delay(true), ignored);
  const auto peer = socket_.remote_endpoint(ignored);
  if (!ignored) request_.client = fmt::format("{}:{}", peer.address().to_string(), peer.port());
  enter(Stage::kIdle);
  read_more();
}

void Connection::enter(Stage stage) {
  stage_ = stage;
  const auto now = steady_clock::now();
  switch (stage) {
    case Stage::kIdle:
      deadline_ = now + shared_.options.idle_timeout;
      break;
    case Stage::kHeader:
      deadline_ = now + shared_.options.header_timeout;
      break;
    case Stage::kBody:
      deadline_ = now + shared_.options.body_timeout;
      break;
    case Stage::kLingering:
      deadline_ = now + kLingerTime;
      break;
    default:
      deadline_ = steady_clock::time_point::max();
  }
}

void Connection::tick(steady_clock::time_point now) {
  if (stage_ == Stage::kClosed) return;
  if (writing_ && now - last_progress_ > shared_.options.write_timeout) return close();
  if (now > deadline_) {
    if (stage_ == Stage::kHeader) return refuse(408, "The request's header did not arrive in time.");
    if (stage_ == Stage::kBody) return refuse(408, "The request's body did not arrive in time.");
    return close();
  }
  if (stage_ == Stage::kAnswering && on_tick_) {
    const auto callback = on_tick_;  // may end the answer, which drops the member
    try {
      callback(now);
    } catch (...) {
      fail("a request's timed callback");
    }
  }
}

void Connection::close() {
  if (stage_ == Stage::kClosed) return;
  const auto self = shared_from_this();  // the set below may hold the last reference
  stage_ = Stage::kClosed;
  boost::system::error_code ignored;
  socket_.close(ignored);
  thread_.connections.erase(self);
  on_tick_ = nullptr;
  const auto gone = std::exchange(on_gone_, nullptr);
  if (!gone) return;
  try {
    gone();
  } catch (...) {
    spdlog::error("{}: ending a request whose client has gone failed: {}", request_.client,
                  describe_failure());
  }
}

void Connection::close_if_idle() {
  if (stage_ == Stage::kIdle) close();
}

void Connection::read_more() {
  if (reading_ || stage_ == Stage::kClosed) return;
  reading_ = true;
  socket_.async_read_some(input_.prepare(kReadBytes),
                          [self = shared_from_this()](boost::system::error_code error, std::size_t bytes) {
                            self->reading_ = false;
                            self->on_read(error, bytes);
                          });
}

void Connection::on_read(boost::system::error_code error, std::size_t bytes) {
  if (stage_ == Stage::kClosed) return;
  if (error) return stage_ == Stage::kClosing ? void() : close();
  if (stage_ == Stage::kLingering) return read_more();  // uncommitted bytes are thrown away
  input_.commit(bytes);
  // A request sent ahead of the answer waits; reading on would only pile it up.
  if (stage_ == Stage::kAnswering || stage_ == Stage::kClosing) return;
  parse();
}

void Connection::parse() {
  if (input_.size() == 0) return read_more();
  if (!parser_) {
    parser_.emplace();
    parser_->header_limit(static_cast<std::uint32_t>(shared_.options.max_header_bytes));
    parser_->body_limit(shared_.options.max_body_bytes);
    enter(Stage::kHeader);
  }
  while (true) {
    boost::system::error_code error;
    const std::size_t used = parser_->put(input_.data(), error);
    input_.consume(used);
    if (error == beast::http::error::need_more) return read_more();
    if (error == beast::http::error::body_limit) {
      return refuse(413, fmt::format("The request's body is larger than the limit of {} bytes.",
                                     shared_.options.max_body_bytes));
    }
    if (error == beast::http::error::header_limit) {
      return refuse(431, fmt::format("The request's header is larger than the limit of {} bytes.",
                                     shared_.options.max_header_bytes));
    }
    if (error) return refuse(400, "The request is not valid HTTP: " + error.message() + ".");
    if (stage_ == Stage::kHeader && parser_->is_header_done()) {
      enter(Stage::kBody);
      if (!begin_body()) return;
    }
    if (parser_->is_done()) return dispatch();
    if (input_.size() == 0) return read_more();
  }
}

// Fills request_ from the header and asks the handler whether the body is worth reading.
bool Connection::begin_body() {
  auto& message = parser_->get();
  const auto text = [](auto view) { return std::string(view.data(), view.size()); };
  request_.method = text(message.method_string());
  const std::string target = text(message.target());
  const std::size_t question = target.find('?');
  request_.path = target.substr(0, question);
  request_.query = question == std::string::npos ? "" : target.substr(question + 1);
  request_.headers.clear();
  for (const auto& field : message) {
    std::string name = text(field.name_string());
    std::ranges::transform(name, name.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    request_.headers.emplace_back(std::move(name), text(field.value()));
  }
  request_.body.clear();
  keep_alive_ = message.keep_alive();
  is_head_ = request_.method == "HEAD";
  is_http10_ = message.version() < 11;

  const bool has_body = !parser_->is_done();
  // While it decides, the answer's state is that of a request whose body is left unread.
  if (has_body) keep_alive_ = false;
  stage_ = Stage::kAnswering;
  try {
    if (shared_.handler.refuse(request_, *this)) return false;
  } catch (...) {
    fail("looking at a request's header");
    return false;
  }
  stage_ = Stage::kBody;
  if (has_body) keep_alive_ = message.keep_alive();
  if (has_body && request_.header("expect") == "100-continue") {
    outbox_ += "HTTP/1.1 100 Continue\r\n\r\n";
    flush();
  }
  parser_->eager(true);
  return true;
}

void Connection::dispatch() {
  request_.body = std::move(parser_->get().body());
  parser_.reset();
  enter(Stage::kAnswering);
  Request request = std::move(request_);
  request_ = Request{};
  request_.client = request.client;
  if (input_.size() == 0) read_more();  // notices a client that leaves
  const auto self = shared_from_this();
  try {
    shared_.handler.handle(self, std::move(request));
  } catch (...) {
    fail("handling a request");
  }
}

// The last border. Whatever the request had put in motion ends with its callbacks.
void Connection::fail(std::string_view what) {
  spdlog::error("{}: {} failed: {}", request_.client, what, describe_failure());
  if (stage_ != Stage::kAnswering) return;
  respond(shared_.handler.problem(500, "The server failed to answer this request."));
}

void Connection::refuse(int status, std::string message) {
  keep_alive_ = false;
  is_head_ = false;
  stage_ = Stage::kAnswering;
  respond(shared_.handler.problem(status, std::move(message)));
}

void Connection::send_head(const Response& response, std::optional<std::size_t> length) {
  if (shared_.draining) keep_alive_ = false;
  if (!length && is_http10_) keep_alive_ = false;  // the end of the stream is the end of the connection
  const auto to = std::back_inserter(outbox_);
  fmt::format_to(to, "HTTP/1.1 {} {}\r\n", response.status, reason_phrase(response.status));
  if (response.status != 204) {
    fmt::format_to(to, "Content-Type: {}\r\n", response.content_type);
    if (length) {
      fmt::format_to(to, "Content-Length: {}\r\n", *length);
    } else if (!is_http10_) {
      outbox_ += "Transfer-Encoding: chunked\r\n";
    }
  }
  for (const auto& [name, value] : response.headers) fmt::format_to(to, "{}: {}\r\n", name, value);
  outbox_ +=
      keep_alive_ ? (is_http10_ ? "Connection: keep-alive\r\n\r\n" : "\r\n") : "Connection: close\r\n\r\n";
}

void Connection::respond(Response response) {
  if (stage_ != Stage::kAnswering) return;
  if (streaming_) return close();
  send_head(response, response.body.size());
  if (!is_head_ && response.status != 204) outbox_ += response.body;
  answer_complete();
}

void Connection::begin_stream(Response head) {
  if (stage_ != Stage::kAnswering || streaming_) return;
  streaming_ = true;
  send_head(head, std::nullopt);
  flush();
}

void Connection::write(std::string_view bytes) {
  if (stage_ != Stage::kAnswering || !streaming_ || bytes.empty() || is_head_) return;
  if (outbox_.size() + bytes.size() > shared_.options.max_unsent_bytes) return close();
  if (is_http10_) {
    outbox_ += bytes;
  } else {
    fmt::format_to(std::back_inserter(outbox_), "{:x}\r\n", bytes.size());
    outbox_ += bytes;
    outbox_ += "\r\n";
  }
  flush();
}

void Connection::end_stream() {
  if (stage_ != Stage::kAnswering || !streaming_) return;
  streaming_ = false;
  if (!is_http10_ && !is_head_) outbox_ += "0\r\n\r\n";
  answer_complete();
}

void Connection::answer_complete() {
  on_gone_ = nullptr;
  on_tick_ = nullptr;
  parser_.reset();
  enter(keep_alive_ ? Stage::kIdle : Stage::kClosing);
  flush();
  if (stage_ != Stage::kIdle) return;
  // Not parsed from here: the handler that answered is still on the stack, and pipelined requests would
  // recurse.
  if (input_.size() > 0) {
    thread_.mailbox()->mail([self = shared_from_this()] {
      if (self->stage_ == Stage::kIdle && !self->reading_) self->parse();
    });
  } else {
    read_more();
  }
}

void Connection::flush() {
  if (writing_ || stage_ == Stage::kClosed) return;
  if (outbox_.empty()) {
    if (stage_ == Stage::kClosing) linger();
    return;
  }
  flying_.clear();
  flying_.swap(outbox_);
  flown_ = 0;
  writing_ = true;
  last_progress_ = steady_clock::now();
  socket_.async_write_some(asio::buffer(flying_), [self = shared_from_this()](auto error, std::size_t bytes) {
    self->on_written(error, bytes);
  });
}

void Connection::on_written(boost::system::error_code error, std::size_t bytes) {
  if (stage_ == Stage::kClosed) return;
  if (error) return close();
  last_progress_ = steady_clock::now();
  flown_ += bytes;
  if (flown_ < flying_.size()) {
    socket_.async_write_some(
        asio::buffer(flying_) + flown_,
        [self = shared_from_this()](auto next, std::size_t more) { self->on_written(next, more); });
    return;
  }
  writing_ = false;
  flush();
}

// Closing with unread input would reset the connection and may destroy the answer on its way.
void Connection::linger() {
  boost::system::error_code error;
  socket_.shutdown(asio::ip::tcp::socket::shutdown_send, error);
  if (error) return close();
  enter(Stage::kLingering);
  input_.clear();
  read_more();
}

}  // namespace tessera::http
