#include "bench/load/load_loop.h"

#include <netdb.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <ctime>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "base/check.h"
#include "bench/load/call_connection.h"

namespace tessera::bench {
namespace {

using Clock = std::chrono::steady_clock;

// What is gathered after a wake before the next look: a server that answers a hundred streams writes to them
// for about so long. Bytes are dated by the kernel, so nothing is measured late.
constexpr double kNap = 1e-3;  // s
constexpr int kEvents = 256;

class EpollLoop final : public LoadLoop {
 public:
  explicit EpollLoop(HttpTarget target) : target_(std::move(target)), epoll_(epoll_create1(EPOLL_CLOEXEC)) {
    TS_CHECK(epoll_ >= 0, errno);
  }
  ~EpollLoop() override {
    if (addresses_ != nullptr) freeaddrinfo(addresses_);
    ::close(epoll_);
  }

  Result<void> resolve() {
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    const int failed = getaddrinfo(target_.host.c_str(), target_.port.c_str(), &hints, &addresses_);
    if (failed == 0) return {};
    return Error{ErrorKind::kIo, target_.url(),
                 std::string("The host cannot be looked up: ") + gai_strerror(failed) + "."};
  }

  const HttpTarget& target() const override { return target_; }
  double now() const override { return std::chrono::duration<double>(Clock::now() - began_).count(); }
  LoopCounts counts() const override { return tools_.counts; }

  void at(double when, std::function<void()> task) override { timers_.emplace(when, std::move(task)); }

  std::unique_ptr<HttpCall> send(std::string_view method, std::string_view path, std::string body,
                                 CallSink& sink) override {
    std::string request = std::string(method) + ' ' + target_.base + std::string(path) +
                          " HTTP/1.1\r\nHost: " + target_.host + ':' + target_.port +
                          "\r\nConnection: close\r\nAccept: */*\r\n";
    if (!target_.api_key.empty()) request += "Authorization: Bearer " + target_.api_key + "\r\n";
    if (!body.empty()) request += "Content-Type: application/json\r\n";
    request += "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
    request += body;
    const std::uint64_t id = ++last_id_;
    auto connection =
        std::make_shared<CallConnection>(tools_, target_.url() + std::string(path), std::move(request), sink);
    calls_[id] = {connection};
    // Not before the caller holds the call: it may be refused at once.
    at(now(), [this, id] {
      const auto call = calls_.find(id);
      if (call == calls_.end()) return;
      const std::shared_ptr<CallConnection> starting = call->second.connection;
      starting->connect(addresses_);
      watch(id);
    });
    return std::make_unique<OwnedCall>(*this, id, std::move(connection));
  }

  void run_until(double when) override {
    is_stopped_ = false;
    while (!is_stopped_) {
      while (!timers_.empty() && timers_.begin()->first <= now()) {
        const std::function<void()> task = std::move(timers_.begin()->second);
        timers_.erase(timers_.begin());
        task();
        if (is_stopped_) return;
      }
      const double current = now();
      if (current >= when) return;
      const double next = timers_.empty() ? when : std::min(when, timers_.begin()->first);
      const double left = std::min(next - current, 3600.0);
      const int timeout_ms = static_cast<int>(left * 1e3);
      if (timeout_ms == 0) nap(left);  // shorter than what can be waited for
      if (serve_ready(timeout_ms) > 0 && tools_.has_stamps && !is_stopped_)
        nap(std::clamp(next - now(), 0.0, kNap));
    }
  }
  void stop() override { is_stopped_ = true; }

 private:
  struct Watched {
    std::shared_ptr<CallConnection> connection;  // shared with its owner, who may drop it in its own sink
    int socket = -1;                             // that epoll knows
    bool for_writing = false;
  };
  class OwnedCall final : public HttpCall {
   public:
    OwnedCall(EpollLoop& loop, std::uint64_t id, std::shared_ptr<CallConnection> connection)
        : loop_(loop), id_(id), connection_(std::move(connection)) {}
    ~OwnedCall() override { close(); }
    void close() override {
      connection_->close();
      loop_.calls_.erase(id_);
    }

   private:
    EpollLoop& loop_;
    std::uint64_t id_;
    std::shared_ptr<CallConnection> connection_;
  };

  int serve_ready(int timeout_ms) {
    std::array<epoll_event, kEvents> events;
    ++tools_.counts.waits;
    const int ready = epoll_wait(epoll_, events.data(), kEvents, timeout_ms);
    if (ready <= 0) return 0;
    tools_.now = now();
    timespec real{};
    clock_gettime(CLOCK_REALTIME, &real);
    tools_.now_realtime = static_cast<double>(real.tv_sec) + static_cast<double>(real.tv_nsec) * 1e-9;
    for (int i = 0; i < ready; ++i) {
      const epoll_event& event = events[static_cast<std::size_t>(i)];
      const std::uint64_t id = event.data.u64;  // copied: the kernel's struct is packed
      const auto call = calls_.find(id);
      if (call == calls_.end()) continue;  // closed by one before it
      const std::shared_ptr<CallConnection> connection = call->second.connection;
      connection->on_ready(event.events);
      watch(id);
    }
    return ready;
  }

  // Tells epoll what the call waits for, where that has changed; forgets a call that is over.
  void watch(std::uint64_t id) {
    const auto found = calls_.find(id);
    if (found == calls_.end()) return;
    Watched& call = found->second;
    if (call.connection->is_over()) {
      calls_.erase(found);
      return;
    }
    const bool for_writing = call.connection->wants_to_write();
    const int socket = call.connection->socket();
    if (socket == call.socket && for_writing == call.for_writing) return;
    epoll_event event{};
    event.events = EPOLLIN | (for_writing ? EPOLLOUT : 0U);
    event.data.u64 = id;
    // A socket that was closed is gone from epoll, even where the next one got its number.
    if (epoll_ctl(epoll_, EPOLL_CTL_MOD, socket, &event) != 0)
      TS_CHECK(epoll_ctl(epoll_, EPOLL_CTL_ADD, socket, &event) == 0, errno);
    call.socket = socket;
    call.for_writing = for_writing;
  }

  void nap(double seconds) {
    if (seconds <= 0) return;
    ++tools_.counts.naps;
    const timespec time{static_cast<time_t>(seconds), static_cast<long>(std::fmod(seconds, 1.0) * 1e9)};
    nanosleep(&time, nullptr);
  }

  const Clock::time_point began_ = Clock::now();
  HttpTarget target_;
  int epoll_;
  addrinfo* addresses_ = nullptr;
  LoopTools tools_;
  std::multimap<double, std::function<void()>> timers_;
  std::unordered_map<std::uint64_t, Watched> calls_;  // by number
  std::uint64_t last_id_ = 0;
  bool is_stopped_ = false;
};

class Collector final : public CallSink {
 public:
  explicit Collector(LoadLoop& loop) : loop_(loop) {}
  void on_head(int status) override { reply.status = status; }
  void on_body(std::string_view bytes, double) override { reply.body += bytes; }
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
  auto loop = std::make_unique<EpollLoop>(std::move(target));
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
