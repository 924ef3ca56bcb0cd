#include "comm/mpi/mpi_channel.h"

#include <array>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "base/check.h"

namespace tessera {
namespace {

enum class Kind : std::uint32_t { kMessage = 1, kHeartbeat = 2, kEnd = 3 };

struct Header {
  Kind kind;
  std::uint32_t unused;
  std::uint64_t bytes;  // of the message
};

// The first frame has one size, so that it can be waited for; the rest of a long message follows in a second.
// A decode plan of some 60 sequences fits the first.
constexpr std::size_t kFrame = 4096;
constexpr std::size_t kInFrame = kFrame - sizeof(Header);
constexpr std::uint64_t kMaxMessage = std::uint64_t{1} << 32;

// What MPI may write to after an exchange was given up; kept by the session then.
struct Buffers {
  std::array<std::byte, kFrame> frame{};
  std::vector<std::byte> message;
  std::vector<std::byte> answers;  // a byte of each receiver
};

std::string lost(const std::string& operation, const std::string& name, const std::vector<int>& processes,
                 std::chrono::milliseconds patience) {
  std::string who;
  for (const int process : processes)
    who += (who.empty() ? "process " : ", process ") + std::to_string(process);
  return operation + " in " + name + ": " + who + " did not answer within " +
         std::to_string(patience.count()) + " ms";
}

class MpiSender final : public MessageSender {
 public:
  MpiSender(MpiSession& session, MpiChannelOptions options, int tag, int answer_tag)
      : session_(session),
        options_(std::move(options)),
        buffers_(std::make_shared<Buffers>()),
        frames_(session, tag),
        answers_(session, answer_tag) {
    buffers_->answers.resize(static_cast<std::size_t>(session.processes()));
    thread_ = std::thread([this] { beat(); });
  }

  ~MpiSender() override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    wake_.notify_one();
    thread_.join();
    try {
      if (failure_.empty()) exchange(Kind::kEnd, {});
    } catch (const CommError&) {  // a receiver that is gone needs not be told
    }
  }

  void send(std::span<const std::byte> message) override {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) throw CommError(failure_);
    busy_ = true;
    exchange(Kind::kMessage, message);
  }

  void idle() override {
    const std::lock_guard lock(mutex_);
    busy_ = false;
  }

 private:
  void beat() {
    std::unique_lock lock(mutex_);
    while (!wake_.wait_for(lock, options_.heartbeat, [&] { return ending_; })) {
      if (busy_) continue;
      try {
        exchange(Kind::kHeartbeat, {});
      } catch (const CommError&) {
        if (options_.on_lost) options_.on_lost(failure_);
        return;
      }
    }
  }

  // With mutex_ held.
  void exchange(Kind kind, std::span<const std::byte> message) {
    Buffers& b = *buffers_;
    const Header header{.kind = kind, .unused = 0, .bytes = message.size()};
    std::memcpy(b.frame.data(), &header, sizeof header);
    const std::size_t first = std::min(message.size(), kInFrame);
    if (first > 0) std::memcpy(b.frame.data() + sizeof header, message.data(), first);
    // A frame may be more than MPI sends ahead, so this waits for the receivers too.
    const char* const operation = kind == Kind::kHeartbeat ? "heartbeat" : "sending";
    run(operation, frames_, b.frame, {});
    if (message.size() > first) {
      b.message.assign(message.begin() + static_cast<std::ptrdiff_t>(first), message.end());
      run(operation, frames_, b.message, {});
    }
    if (kind == Kind::kHeartbeat) run("heartbeat", answers_, {}, b.answers);
  }

  void run(const char* operation, MpiExchange& exchange, std::span<const std::byte> out,
           std::span<std::byte> in) {
    sends_.clear();
    receives_.clear();
    for (int p = 1; p < session_.processes(); ++p) {
      if (in.empty()) {
        sends_.push_back({p, out});
      } else {
        receives_.push_back({p, in.subspan(static_cast<std::size_t>(p), 1)});
      }
    }
    std::vector<int> missing;
    try {
      missing = exchange.run(sends_, receives_, options_.patience);
    } catch (const CommError& error) {
      failure_ = std::string(operation) + " in " + options_.name + ": " + error.what();
    }
    if (!missing.empty()) failure_ = lost(operation, options_.name, missing, options_.patience);
    if (failure_.empty()) return;
    session_.keep(buffers_);
    throw CommError(failure_);
  }

  MpiSession& session_;
  const MpiChannelOptions options_;
  std::shared_ptr<Buffers> buffers_;  // shared with the session once an exchange was given up
  MpiExchange frames_;
  MpiExchange answers_;
  std::vector<MpiExchange::Outgoing> sends_;
  std::vector<MpiExchange::Incoming> receives_;

  std::mutex mutex_;
  std::condition_variable wake_;
  bool busy_ = false;
  bool ending_ = false;
  std::string failure_;
  std::thread thread_;
};

class MpiReceiver final : public MessageReceiver {
 public:
  MpiReceiver(MpiSession& session, MpiChannelOptions options, int tag, int answer_tag)
      : session_(session),
        options_(std::move(options)),
        buffers_(std::make_shared<Buffers>()),
        frames_(session, tag),
        answers_(session, answer_tag) {}

  std::optional<std::span<const std::byte>> receive() override {
    Buffers& b = *buffers_;
    for (;;) {
      take(b.frame);
      Header header;
      std::memcpy(&header, b.frame.data(), sizeof header);
      if (header.kind == Kind::kEnd) return std::nullopt;
      if (header.kind == Kind::kHeartbeat) {
        const MpiExchange::Outgoing answer{0, std::span<const std::byte>(b.frame).first(1)};
        check(answers_.run({&answer, 1}, {}, options_.patience), "heartbeat");
        continue;
      }
      if (header.kind != Kind::kMessage || header.bytes > kMaxMessage)
        throw CommError("a message in " + options_.name + " of kind " +
                        std::to_string(static_cast<std::uint32_t>(header.kind)) + " and " +
                        std::to_string(header.bytes) + " bytes is none that this program sends");
      if (header.bytes <= kInFrame)
        return std::span<const std::byte>(b.frame).subspan(sizeof header, header.bytes);
      b.message.resize(header.bytes);
      std::memcpy(b.message.data(), b.frame.data() + sizeof header, kInFrame);
      take(std::span(b.message).subspan(kInFrame));
      return b.message;
    }
  }

 private:
  void take(std::span<std::byte> bytes) {
    const MpiExchange::Incoming from{0, bytes};
    check(frames_.run({}, {&from, 1}, options_.patience), "waiting for a message");
  }
  void check(const std::vector<int>& missing, const char* operation) {
    if (missing.empty()) return;
    session_.keep(buffers_);
    throw CommError(lost(operation, options_.name, missing, options_.patience));
  }

  MpiSession& session_;
  const MpiChannelOptions options_;
  std::shared_ptr<Buffers> buffers_;  // shared with the session once an exchange was given up
  MpiExchange frames_;
  MpiExchange answers_;
};

}  // namespace

std::unique_ptr<MessageSender> make_mpi_sender(MpiSession& session, MpiChannelOptions options) {
  TS_CHECK(session.process() == 0, session.process());
  const int tag = session.next_world_tag();
  return std::make_unique<MpiSender>(session, std::move(options), tag, session.next_world_tag());
}

std::unique_ptr<MessageReceiver> make_mpi_receiver(MpiSession& session, MpiChannelOptions options) {
  TS_CHECK(session.process() > 0, session.process());
  const int tag = session.next_world_tag();
  return std::make_unique<MpiReceiver>(session, std::move(options), tag, session.next_world_tag());
}

}  // namespace tessera
