#include "bench/load/call_connection.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <utility>

namespace tessera::bench {
namespace {

namespace asio = boost::asio;
namespace http = boost::beast::http;

}  // namespace

CallConnection::CallConnection(LoopTools& tools, std::string url, std::string request, CallSink& sink)
    : tools_(tools), url_(std::move(url)), request_(std::move(request)), sink_(&sink) {
  parser_.body_limit(std::numeric_limits<std::uint64_t>::max());
  parser_.get().body().sink = &sink;
}

void CallConnection::connect(const addrinfo* addresses) {
  address_ = addresses;
  int error = 0;
  while (address_ != nullptr) {
    if (next_address()) return;
    error = errno;
  }
  fail("The connection failed", error);
}

// False where the next address refuses at once.
bool CallConnection::next_address() {
  const addrinfo& to = *std::exchange(address_, address_->ai_next);
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  socket_ = ::socket(to.ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (socket_ < 0) return false;
  const int on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  setsockopt(socket_, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof on);
  return ::connect(socket_, to.ai_addr, to.ai_addrlen) == 0 || errno == EINPROGRESS;
}

void CallConnection::close() {
  sink_ = nullptr;
  parser_.get().body().sink = nullptr;
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
}

void CallConnection::on_ready(std::uint32_t epoll_events) {
  if (!is_connected_) return finish_connecting();
  if ((epoll_events & EPOLLOUT) != 0 && wants_to_write()) send_more();
  if ((epoll_events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) read_once();
}

void CallConnection::finish_connecting() {
  int error = 0;
  socklen_t size = sizeof error;
  getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &size);
  if (error == 0) {
    is_connected_ = true;
    return send_more();
  }
  while (address_ != nullptr) {
    if (next_address()) return;
    error = errno;
  }
  fail("The connection failed", error);
}

void CallConnection::send_more() {
  while (sent_ < request_.size()) {
    ++tools_.counts.sends;
    const auto sent = ::send(socket_, request_.data() + sent_, request_.size() - sent_, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
    if (sent < 0) {
      // An answer may have come all the same, e.g. to a body that was too large.
      write_error_ = errno;
      sent_ = request_.size();
      break;
    }
    sent_ += static_cast<std::size_t>(sent);
  }
  request_ = {};
  sent_ = 0;
}

void CallConnection::read_once() {
  iovec space{tools_.input.data(), tools_.input.size()};
  alignas(cmsghdr) std::array<char, 64> control;
  msghdr message{};
  message.msg_iov = &space;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ++tools_.counts.receives;
  const auto got = recvmsg(socket_, &message, 0);
  if (got < 0) {
    if (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) return;
    return fail("Reading failed", write_error_ != 0 ? write_error_ : errno);
  }
  if (got == 0) {
    boost::system::error_code parsed;
    parser_.put_eof(parsed);
    if (!parsed && parser_.is_done()) return end({});
    return end(Error{ErrorKind::kIo, url_, "The server closed the connection in the middle of its answer."});
  }
  parser_.get().body().at = arrival_of(message);
  const asio::const_buffer bytes(tools_.input.data(), static_cast<std::size_t>(got));
  if (rest_.size() == 0) return parse(bytes);
  asio::buffer_copy(rest_.prepare(bytes.size()), bytes);
  rest_.commit(bytes.size());
  const boost::beast::flat_buffer whole = std::move(rest_);
  rest_ = {};
  parse(whole.data());
}

// By the kernel's stamp, where there is one that can be true.
double CallConnection::arrival_of(const msghdr& message) {
  for (const cmsghdr* c = CMSG_FIRSTHDR(&message); c != nullptr;
       c = CMSG_NXTHDR(const_cast<msghdr*>(&message), const_cast<cmsghdr*>(c))) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_TIMESTAMPNS) continue;
    timespec stamp{};
    std::memcpy(&stamp, CMSG_DATA(c), sizeof stamp);
    const double age =
        tools_.now_realtime - (static_cast<double>(stamp.tv_sec) + static_cast<double>(stamp.tv_nsec) * 1e-9);
    if (age > 10) break;  // somebody has set the clock
    tools_.has_stamps = true;
    // Bytes may have come after the wake began.
    return tools_.now - std::max(age, -0.1);
  }
  return tools_.now;
}

void CallConnection::parse(asio::const_buffer bytes) {
  boost::system::error_code parsed;
  while (bytes.size() > 0 && !parser_.is_done()) {
    const std::size_t used = parser_.put(bytes, parsed);
    if (sink_ == nullptr) return;  // closed by its sink
    bytes += used;
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
    if (parsed) return end(Error{ErrorKind::kIo, url_, "The answer is no HTTP: " + parsed.message() + "."});
    if (used == 0) break;
  }
  if (parser_.is_done()) return end({});
  asio::buffer_copy(rest_.prepare(bytes.size()), bytes);
  rest_.commit(bytes.size());
}

void CallConnection::end(const Result<void>& how) {
  CallSink* sink = sink_;
  close();
  if (sink != nullptr) sink->on_end(how);
}

void CallConnection::fail(const char* what, int error) {
  end(Error{ErrorKind::kIo, url_, std::string(what) + ": " + std::strerror(error) + "."});
}

}  // namespace tessera::bench
