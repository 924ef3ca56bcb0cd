#include "comm/peer/peer_communicator.h"

#include <cuda_runtime_api.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "base/check.h"
#include "comm/peer/peer_kernel.h"

namespace tessera {
namespace {

using Clock = std::chrono::steady_clock;

std::string cuda_text(cudaError_t status) {
  (void)cudaGetLastError();  // it is told here, and not found again by the next check of a launch
  return std::string(cudaGetErrorName(status)) + ": " + cudaGetErrorString(status);
}
void check_cuda(cudaError_t status, const char* what) {
  if (status != cudaSuccess) throw CommError(std::string(what) + ": " + cuda_text(status));
}

// Every rank's objection to going on; the first one is everybody's.
std::optional<std::string> first_objection(Communicator& host, const std::optional<std::string>& mine) {
  struct Objection {
    std::array<char, 240> text = {};
  };
  Objection own;
  if (mine) {
    const std::size_t size = std::min(mine->size(), own.text.size() - 1);
    std::memcpy(own.text.data(), mine->data(), size);
  }
  std::vector<Objection> all(static_cast<std::size_t>(host.size()));
  host.all_gather(&own, all.data(), sizeof own);
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (all[r].text[0] != '\0') return "rank " + std::to_string(r) + ": " + all[r].text.data();
  }
  return std::nullopt;
}

// The mailboxes of a group as one rank reaches them.
class Mailboxes {
 public:
  Mailboxes(Communicator& host, DeviceStream& stream, std::int64_t slot_bytes)
      : host_(host), stream_(stream), layout_{.ranks = host.size(), .slot_bytes = slot_bytes} {}
  ~Mailboxes() {
    for (void* const peer : opened_) (void)cudaIpcCloseMemHandle(peer);
    (void)cudaFree(own_);
    (void)cudaFree(counters_);
    (void)cudaFreeHost(trouble_);
  }
  Mailboxes(const Mailboxes&) = delete;
  Mailboxes& operator=(const Mailboxes&) = delete;

  // Why it cannot be, the same on every rank.
  std::optional<std::string> open() {
    stream_.enter();
    Card card;
    if (const auto objection = first_objection(host_, allocate(card))) return objection;
    std::vector<Card> cards(static_cast<std::size_t>(host_.size()));
    host_.all_gather(&card, cards.data(), sizeof card);
    std::optional<std::string> mine;
    for (int r = 0; r < host_.size() && !mine; ++r) mine = reach(r, card, cards[static_cast<std::size_t>(r)]);
    return first_objection(host_, mine);
  }

  PeerCall call(void* data, std::int64_t bytes) const {
    PeerCall call{.layout = layout_,
                  .rank = host_.rank(),
                  .counters = counters_,
                  .trouble = trouble_,
                  .data = data,
                  .packs = bytes / kPeerPack,
                  .blocks = peer_blocks(bytes / kPeerPack)};
    std::ranges::copy(mailboxes_, call.mailboxes);
    return call;
  }
  const MailboxLayout& layout() const { return layout_; }
  const std::byte* own() const { return static_cast<const std::byte*>(own_); }
  bool has_trouble() const { return happened() == kComplained; }
  bool has_ended() const { return happened() == kEnded; }
  std::string describe_trouble() const {
    return "rank " + std::to_string(trouble_->missing) + " did not come to call " +
           std::to_string(trouble_->call) + " (block " + std::to_string(trouble_->block) + ')';
  }
  // Every wait on the device ends.
  void end() {
    if (happened() == 0) *reinterpret_cast<volatile std::uint32_t*>(&trouble_->happened) = kEnded;
  }

 private:
  // What ranks tell each other about themselves.
  struct Card {
    std::array<char, 128> machine = {};
    std::int64_t process = 0;
    std::int32_t device = 0;
    void* mailbox = nullptr;
    cudaIpcMemHandle_t handle = {};
  };

  // Of PeerTrouble::happened: what the device writes when its complaint is complete, and what end() writes.
  static constexpr std::uint32_t kComplained = 1;
  static constexpr std::uint32_t kEnded = 3;
  std::uint32_t happened() const {
    return *reinterpret_cast<const volatile std::uint32_t*>(&trouble_->happened);
  }

  std::optional<std::string> allocate(Card& card) {
    if (host_.size() < 2 || host_.size() > kPeerMostRanks)
      return "a group of " + std::to_string(host_.size()) + " ranks; 2 to 16 can be served";
    const auto bytes = static_cast<std::size_t>(layout_.bytes());
    cudaError_t status = cudaMalloc(&own_, bytes);
    // All bits set is NaN: what is read without having been written shows.
    if (status == cudaSuccess) status = cudaMemset(own_, 0xff, static_cast<std::size_t>(layout_.slot(2, 0)));
    if (status == cudaSuccess)
      status = cudaMemset(static_cast<std::byte*>(own_) + layout_.slot(2, 0), 0,
                          bytes - static_cast<std::size_t>(layout_.slot(2, 0)));
    void* counters = nullptr;
    if (status == cudaSuccess) status = cudaMalloc(&counters, sizeof(PeerCounters));
    counters_ = static_cast<PeerCounters*>(counters);
    if (status == cudaSuccess) status = cudaMemset(counters_, 0, sizeof(PeerCounters));
    void* trouble = nullptr;
    if (status == cudaSuccess)
      status = cudaHostAlloc(&trouble, sizeof(PeerTrouble), cudaHostAllocPortable | cudaHostAllocMapped);
    trouble_ = static_cast<PeerTrouble*>(trouble);
    if (status != cudaSuccess) return "its mailbox: " + cuda_text(status);
    *trouble_ = {};
    status = cudaIpcGetMemHandle(&card.handle, own_);
    if (status == cudaSuccess) status = cudaDeviceSynchronize();
    if (status != cudaSuccess) return "its mailbox cannot be shared: " + cuda_text(status);
    (void)gethostname(card.machine.data(), card.machine.size() - 1);
    card.process = getpid();
    card.device = stream_.device();
    card.mailbox = own_;
    return std::nullopt;
  }

  std::optional<std::string> reach(int rank, const Card& mine, const Card& theirs) {
    const std::string who = "rank " + std::to_string(rank);
    if (rank == host_.rank()) {
      mailboxes_[static_cast<std::size_t>(rank)] = static_cast<std::byte*>(own_);
      return std::nullopt;
    }
    if (mine.machine != theirs.machine) return who + " is on another machine";
    if (mine.process == theirs.process) {
      int can = 0;
      cudaError_t status = cudaDeviceCanAccessPeer(&can, mine.device, theirs.device);
      if (status == cudaSuccess && can == 0)
        return "cuda:" + std::to_string(mine.device) +
               " cannot reach the memory of cuda:" + std::to_string(theirs.device) + " (" + who + ")";
      if (status == cudaSuccess) status = cudaDeviceEnablePeerAccess(theirs.device, 0);
      if (status != cudaSuccess && status != cudaErrorPeerAccessAlreadyEnabled)
        return "reaching " + who + ": " + cuda_text(status);
      (void)cudaGetLastError();
      mailboxes_[static_cast<std::size_t>(rank)] = static_cast<std::byte*>(theirs.mailbox);
      return std::nullopt;
    }
    void* opened = nullptr;
    const cudaError_t status = cudaIpcOpenMemHandle(&opened, theirs.handle, cudaIpcMemLazyEnablePeerAccess);
    if (status != cudaSuccess) return "reaching " + who + ": " + cuda_text(status);
    opened_.push_back(opened);
    mailboxes_[static_cast<std::size_t>(rank)] = static_cast<std::byte*>(opened);
    return std::nullopt;
  }

  Communicator& host_;
  DeviceStream& stream_;
  MailboxLayout layout_;
  void* own_ = nullptr;
  PeerCounters* counters_ = nullptr;  // on the device
  PeerTrouble* trouble_ = nullptr;    // the host's memory, as the device sees it too
  std::vector<void*> opened_;         // of other processes
  std::array<std::byte*, kPeerMostRanks> mailboxes_ = {};
};

// Moves data between every pair and looks at it.
class Trial {
 public:
  Trial(Communicator& host, DeviceStream& stream, Mailboxes& mailboxes, const PeerOptions& options)
      : host_(host), stream_(stream), mailboxes_(mailboxes), options_(options) {
    check_cuda(cudaMalloc(&data_, static_cast<std::size_t>(options.most_bytes)), "memory to try peers with");
  }
  ~Trial() { (void)cudaFree(data_); }
  Trial(const Trial&) = delete;
  Trial& operator=(const Trial&) = delete;

  std::optional<std::string> objection() {
    constexpr int kCalls = 6;  // each set of slots three times
    for (int call = 0; call < kCalls; ++call) {
      const std::int64_t bytes = call % 3 == 0   ? kPeerPack
                                 : call % 3 == 1 ? options_.most_bytes
                                                 : 40 * kPeerPack;
      if (const auto found = first_objection(host_, try_call(call, bytes))) return found;
    }
    return std::nullopt;
  }

  // Of the long way alone where the short one cannot be gone.
  std::vector<WayTimes> times(Communicator& group, bool with_short) {
    std::vector<WayTimes> result;
    for (std::int64_t bytes = 1024; bytes <= options_.most_bytes; bytes *= 2) {
      const auto by = [&](const auto& once) {
        constexpr int kTurns = 20;
        std::array<double, 5> medians{};
        for (double& one : medians) {
          stream_.wait();
          host_.barrier();
          const auto begin = Clock::now();
          for (int i = 0; i < kTurns; ++i) once();
          stream_.wait();
          one = std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / kTurns;
        }
        std::ranges::sort(medians);
        return medians[medians.size() / 2];
      };
      const double short_us = with_short ? by([&] { launch(bytes, options_.check_patience); }) : 0.0;
      const double long_us = by([&] { group.all_reduce(data_, DType::kF32, bytes / 4); });
      result.push_back({bytes, short_us, long_us});
    }
    // Rank 0's clock decides for all.
    host_.broadcast(result.data(), result.size() * sizeof(WayTimes), 0);
    return result;
  }

 private:
  cudaStream_t stream() const { return static_cast<cudaStream_t>(stream_.handle()); }
  // Whole numbers below 2^20: sums of 16 ranks are exact.
  static float value(int call, int rank, std::size_t i) {
    return static_cast<float>(
        (static_cast<std::size_t>(call) * 7919 + static_cast<std::size_t>(rank) * 104729 + i * 31) % 1000003);
  }
  void launch(std::int64_t bytes, std::chrono::milliseconds patience) {
    check_cuda(launch_peer_all_reduce(mailboxes_.call(data_, bytes), DType::kF32, patience, stream()),
               "one-shot all-reduce");
  }

  std::optional<std::string> try_call(int call, std::int64_t bytes) {
    const std::size_t count = static_cast<std::size_t>(bytes) / 4;
    std::vector<float> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = value(call, host_.rank(), i);
    check_cuda(cudaMemcpyAsync(data_, values.data(), values.size() * 4, cudaMemcpyHostToDevice, stream()),
               "trying peers");
    launch(bytes, options_.check_patience);
    check_cuda(cudaMemcpyAsync(values.data(), data_, values.size() * 4, cudaMemcpyDeviceToHost, stream()),
               "trying peers");
    stream_.wait();
    if (mailboxes_.has_trouble())
      return "nothing arrived within " + std::to_string(options_.check_patience.count()) +
             " ms: " + mailboxes_.describe_trouble();
    // Pair by pair first: it says whose writes are lost. Calls count from 1.
    const std::uint32_t set = static_cast<std::uint32_t>(call + 1) & 1U;
    std::vector<float> slot(count);
    for (int source = 0; source < host_.size(); ++source) {
      check_cuda(cudaMemcpy(slot.data(), mailboxes_.own() + mailboxes_.layout().slot(set, source),
                            slot.size() * 4, cudaMemcpyDeviceToHost),
                 "trying peers");
      for (std::size_t i = 0; i < count; ++i) {
        if (slot[i] != value(call, source, i))
          return "what rank " + std::to_string(source) + " wrote arrived changed, at byte " +
                 std::to_string(4 * i) + " of " + std::to_string(bytes);
      }
    }
    for (std::size_t i = 0; i < count; ++i) {
      float sum = 0;
      for (int source = 0; source < host_.size(); ++source) sum += value(call, source, i);
      if (values[i] != sum)
        return "a sum is wrong, at byte " + std::to_string(4 * i) + " of " + std::to_string(bytes);
    }
    return std::nullopt;
  }

  Communicator& host_;
  DeviceStream& stream_;
  Mailboxes& mailboxes_;
  PeerOptions options_;
  void* data_ = nullptr;
};

class PeerCommunicator final : public Communicator, private DeviceStream::Party {
 public:
  PeerCommunicator(std::unique_ptr<Communicator> group, std::unique_ptr<Mailboxes> mailboxes,
                   DeviceStream& stream, std::int64_t limit, std::chrono::milliseconds patience)
      : group_(std::move(group)),
        mailboxes_(std::move(mailboxes)),
        stream_(stream),
        limit_(limit),
        patience_(patience),
        operation_("all-reduce in " + group_->name() + ", the short way") {
    stream_.join(*this);
  }
  ~PeerCommunicator() override { stream_.leave(*this); }

  int rank() const override { return group_->rank(); }
  int size() const override { return group_->size(); }
  std::string name() const override { return group_->name(); }

  void all_reduce(void* data, DType dtype, std::int64_t count) override {
    const std::int64_t bytes = count * bytes_of(dtype);
    // Ranks lay their memory out alike, so all of them see the same alignment.
    if (bytes == 0 || bytes > limit_ || bytes % kPeerPack != 0 ||
        reinterpret_cast<std::uintptr_t>(data) % kPeerPack != 0)
      return group_->all_reduce(data, dtype, count);
    if (mailboxes_->has_trouble()) throw CommError(describe());
    if (mailboxes_->has_ended()) throw CommError(operation_ + ": it has ended");
    stream_.enqueued(operation_);
    check_cuda(launch_peer_all_reduce(mailboxes_->call(data, bytes), dtype, patience_,
                                      static_cast<cudaStream_t>(stream_.handle())),
               operation_.c_str());
  }
  void all_gather(const void* in, void* out, std::size_t bytes) override {
    group_->all_gather(in, out, bytes);
  }
  void reduce_scatter(const void* in, void* out, DType dtype, std::int64_t count) override {
    group_->reduce_scatter(in, out, dtype, count);
  }
  void all_to_all(const void* in, void* out, std::size_t bytes) override {
    group_->all_to_all(in, out, bytes);
  }
  void broadcast(void* data, std::size_t bytes, int root) override { group_->broadcast(data, bytes, root); }
  void barrier() override { group_->barrier(); }
  // Parts go the long way: what they exchange is larger, and no all-reduce.
  std::unique_ptr<Communicator> split(int colour, const std::string& part) override {
    return group_->split(colour, part);
  }

 private:
  std::string describe() const {
    return operation_ + ": rank " + std::to_string(rank()) + ": " + mailboxes_->describe_trouble();
  }
  std::optional<std::string> trouble() override {
    return mailboxes_->has_trouble() ? std::optional(describe()) : std::nullopt;
  }
  void end_collectives() override { mailboxes_->end(); }

  std::unique_ptr<Communicator> group_;
  std::unique_ptr<Mailboxes> mailboxes_;
  DeviceStream& stream_;
  std::int64_t limit_;
  std::chrono::milliseconds patience_;
  std::string operation_;
};

std::string verdict(const std::string& name, std::int64_t limit, const std::vector<WayTimes>& times) {
  const WayTimes* at = &times.front();
  for (const WayTimes& one : times) {
    if (one.bytes <= std::max(limit, std::int64_t{16} << 10)) at = &one;
  }
  char text[160];
  std::snprintf(text, sizeof text, "at %lld KiB one shot takes %.1f us, %s %.1f us",
                static_cast<long long>(at->bytes >> 10), at->short_us, "NCCL", at->long_us);
  return name +
         (limit > 0 ? ": one-shot all-reduce up to " + std::to_string(limit >> 10) + " KiB; "
                    : ": no one-shot all-reduce, which is never faster here; ") +
         text;
}

}  // namespace

std::int64_t peer_limit(const std::vector<WayTimes>& times) {
  std::int64_t limit = 0;
  for (const WayTimes& one : times) {
    if (one.short_us > one.long_us) break;
    limit = one.bytes;
  }
  return limit;
}

PeerTrial try_peers(Communicator& group, Communicator& host, DeviceStream& stream,
                    const PeerOptions& options) {
  TS_CHECK(options.most_bytes % kPeerPack == 0 && options.most_bytes >= 1024, options.most_bytes);
  PeerTrial result;
  Mailboxes mailboxes(host, stream, options.most_bytes);
  result.objection = mailboxes.open();
  Trial trial(host, stream, mailboxes, options);
  if (!result.objection) result.objection = trial.objection();
  result.times = trial.times(group, !result.objection);
  host.barrier();  // nobody frees a mailbox that another still writes to
  return result;
}

std::unique_ptr<Communicator> with_peer_all_reduce(std::unique_ptr<Communicator> group, Communicator& host,
                                                   DeviceStream& stream, const PeerOptions& options) {
  TS_CHECK(options.most_bytes % kPeerPack == 0 && options.most_bytes >= 1024, options.most_bytes);
  const auto log = [&](const std::string& sentence) {
    if (host.rank() == 0 && options.log) options.log(sentence);
  };
  auto mailboxes = std::make_unique<Mailboxes>(host, stream, options.most_bytes);
  std::optional<std::string> objection = mailboxes->open();
  std::vector<WayTimes> times;
  if (!objection) {
    Trial trial(host, stream, *mailboxes, options);
    objection = trial.objection();
    if (!objection) times = trial.times(*group, true);
  }
  if (objection) {
    log(group->name() + ": no one-shot all-reduce: " + *objection);
    host.barrier();  // nobody frees a mailbox that another still writes to
    return group;
  }
  const std::int64_t limit = peer_limit(times);
  log(verdict(group->name(), limit, times));
  if (limit == 0) {
    host.barrier();
    return group;
  }
  return std::make_unique<PeerCommunicator>(std::move(group), std::move(mailboxes), stream, limit,
                                            options.patience);
}

}  // namespace tessera
