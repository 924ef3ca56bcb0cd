#include "comm/thread_communicator.h"

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "base/check.h"
#include "comm/rank_order_sum.h"

namespace tessera {
namespace {

// What the threads of one group share. Between two barriers every rank's `in` is valid and nobody writes to
// it.
struct Group {
  Group(int ranks, std::string group_name, std::chrono::milliseconds limit)
      : size(ranks),
        name(std::move(group_name)),
        deadline(limit),
        in(static_cast<std::size_t>(ranks)),
        sums(static_cast<std::size_t>(ranks)),
        here(static_cast<std::size_t>(ranks)),
        calls(static_cast<std::size_t>(ranks)) {}

  // What a rank came for. All must come for the same, or each would read past what another offers.
  struct Call {
    std::string_view operation;
    std::size_t bytes = 0;  // from each rank
    friend bool operator==(const Call&, const Call&) = default;
  };

  const int size;
  const std::string name;
  const std::chrono::milliseconds deadline;
  std::vector<const void*> in;
  std::vector<const void*> sums;  // each rank's share of an all-reduce

  std::mutex mutex;
  std::condition_variable all_came;
  std::vector<std::uint64_t> here;  // rounds that each rank has entered
  std::vector<Call> calls;          // of the round that each rank has entered
  std::uint64_t round = 0;          // rounds that are complete
  int waiting = 0;
  int left = -1;        // a rank that has gone
  std::string failure;  // why the group is unusable; empty while it is fine

  std::map<int, std::shared_ptr<Group>> children;  // by colour, while a split is under way
  std::vector<int> colours;
};

class ThreadCommunicator final : public Communicator {
 public:
  ThreadCommunicator(std::shared_ptr<Group> group, int rank) : group_(std::move(group)), rank_(rank) {}
  ~ThreadCommunicator() override {
    // A rank that leaves (its thread is unwinding) must not leave the others waiting for the deadline.
    const std::lock_guard lock(group_->mutex);
    group_->left = rank_;
    if (group_->waiting > 0) fail(left_message());
  }

  int rank() const override { return rank_; }
  int size() const override { return group_->size; }
  std::string name() const override { return group_->name; }

  void all_reduce(void* data, DType dtype, std::int64_t count) override {
    if (size() == 1) return;
    // Each rank sums its own share of the elements into scratch, in rank order, then everybody copies every
    // share.
    const std::int64_t share = (count + size() - 1) / size();
    const std::int64_t first = std::min(share * rank_, count);
    const std::int64_t mine = std::min(share, count - first);
    const std::int64_t width = bytes_of(dtype);
    scratch_.resize(static_cast<std::size_t>(share * width));
    group_->sums[static_cast<std::size_t>(rank_)] = scratch_.data();
    publish(data, "all-reduce", static_cast<std::size_t>(count * width));
    sum_in_rank_order(group_->in, first, dtype, mine, scratch_.data());
    wait("all-reduce");
    for (int r = 0; r < size(); ++r) {
      const std::int64_t begin = std::min(share * r, count);
      const std::int64_t length = std::min(share, count - begin);
      std::memcpy(static_cast<std::byte*>(data) + begin * width, group_->sums[static_cast<std::size_t>(r)],
                  static_cast<std::size_t>(length * width));
    }
    wait("all-reduce");
  }

  void all_gather(const void* in, void* out, std::size_t bytes) override {
    publish(in, "all-gather", bytes);
    for (int r = 0; r < size(); ++r) {
      std::memcpy(static_cast<std::byte*>(out) + static_cast<std::size_t>(r) * bytes,
                  group_->in[static_cast<std::size_t>(r)], bytes);
    }
    wait("all-gather");
  }

  void reduce_scatter(const void* in, void* out, DType dtype, std::int64_t count) override {
    publish(in, "reduce-scatter", static_cast<std::size_t>(count * bytes_of(dtype)));
    sum_in_rank_order(group_->in, rank_ * count, dtype, count, out);
    wait("reduce-scatter");
  }

  void all_to_all(const void* in, void* out, std::size_t bytes) override {
    publish(in, "all-to-all", bytes);
    for (int r = 0; r < size(); ++r) {
      std::memcpy(static_cast<std::byte*>(out) + static_cast<std::size_t>(r) * bytes,
                  static_cast<const std::byte*>(group_->in[static_cast<std::size_t>(r)]) +
                      static_cast<std::size_t>(rank_) * bytes,
                  bytes);
    }
    wait("all-to-all");
  }

  void broadcast(void* data, std::size_t bytes, int root) override {
    TS_CHECK(root >= 0 && root < size(), root, size());
    publish(data, "broadcast", bytes);
    if (rank_ != root && bytes > 0) std::memcpy(data, group_->in[static_cast<std::size_t>(root)], bytes);
    wait("broadcast");
  }

  void barrier() override { wait("barrier"); }

  std::unique_ptr<Communicator> split(int colour, const std::string& name) override {
    {
      const std::lock_guard lock(group_->mutex);
      group_->colours.resize(static_cast<std::size_t>(size()));
      group_->colours[static_cast<std::size_t>(rank_)] = colour;
    }
    wait("split");
    const auto& colours = group_->colours;
    const auto members = static_cast<int>(std::ranges::count(colours, colour));
    const auto child_rank = static_cast<int>(std::count(colours.begin(), colours.begin() + rank_, colour));
    std::shared_ptr<Group> child;
    {
      const std::lock_guard lock(group_->mutex);
      std::shared_ptr<Group>& slot = group_->children[colour];
      if (!slot) slot = std::make_shared<Group>(members, name, group_->deadline);
      child = slot;
    }
    wait("split");
    {
      const std::lock_guard lock(group_->mutex);
      group_->children.erase(colour);
    }
    return std::make_unique<ThreadCommunicator>(std::move(child), child_rank);
  }

 private:
  void publish(const void* in, const char* operation, std::size_t bytes) {
    group_->in[static_cast<std::size_t>(rank_)] = in;
    wait(operation, bytes);
  }

  std::string left_message() const {
    return "rank " + std::to_string(group_->left) + " of " + group_->name + " has left";
  }

  void fail(std::string why) {  // under the lock
    if (group_->failure.empty()) group_->failure = std::move(why);
    group_->all_came.notify_all();
  }

  // With the lock, by the last to come.
  void check_calls() {
    const auto describe = [&](std::size_t r) {
      const Group::Call& call = group_->calls[r];
      return "rank " + std::to_string(r) + " came for " + std::string(call.operation) + " of " +
             std::to_string(call.bytes) + " bytes";
    };
    for (std::size_t r = 1; r < group_->calls.size(); ++r) {
      if (group_->calls[r] != group_->calls[0])
        fail("ranks of " + group_->name + " disagree: " + describe(0) + ", " + describe(r));
    }
  }

  void wait(const char* operation, std::size_t bytes = 0) {
    Group& group = *group_;
    std::unique_lock lock(group.mutex);
    if (group.left >= 0) fail(left_message());
    if (!group.failure.empty()) throw CommError(group.failure);
    const std::uint64_t mine = ++group.here[static_cast<std::size_t>(rank_)];
    group.calls[static_cast<std::size_t>(rank_)] = {operation, bytes};
    if (++group.waiting == group.size) {
      group.waiting = 0;
      check_calls();
      if (!group.failure.empty()) throw CommError(group.failure);
      group.round = mine;
      group.all_came.notify_all();
      return;
    }
    const bool came = group.all_came.wait_for(lock, group.deadline,
                                              [&] { return group.round >= mine || !group.failure.empty(); });
    if (group.round >= mine) return;
    if (!came) {
      std::string missing;
      for (int r = 0; r < group.size; ++r) {
        if (group.here[static_cast<std::size_t>(r)] < mine)
          missing += (missing.empty() ? "" : ", ") + std::to_string(r);
      }
      fail(std::string(operation) + " in " + group.name + ": rank " + missing + " did not come within " +
           std::to_string(group.deadline.count()) + " ms");
    }
    throw CommError(group.failure);
  }

  std::shared_ptr<Group> group_;  // shared by the group's threads, which end in any order
  int rank_;
  std::vector<std::byte> scratch_;  // grows to the largest all-reduce, then stays
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> make_thread_communicators(int ranks, const std::string& name,
                                                                     std::chrono::milliseconds deadline) {
  TS_CHECK(ranks >= 1, ranks);
  const auto group = std::make_shared<Group>(ranks, name, deadline);
  std::vector<std::unique_ptr<Communicator>> result;
  for (int r = 0; r < ranks; ++r) result.push_back(std::make_unique<ThreadCommunicator>(group, r));
  return result;
}

}  // namespace tessera
