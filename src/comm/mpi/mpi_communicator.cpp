#include "comm/mpi/mpi_communicator.h"

#include <algorithm>
#include <cstring>
#include <set>

#include "base/check.h"
#include "comm/mpi/process_group.h"
#include "comm/rank_order_sum.h"

namespace tessera {
namespace {

// Up to here an all-reduce gathers everybody's data and each rank sums all of it: one exchange instead of
// two, for size() times the bytes. A token's hidden state (14 KiB in bf16) goes this way. The bits are the
// same either way.
constexpr std::size_t kOneExchange = 32 << 10;

class MpiCommunicator final : public Communicator {
 public:
  MpiCommunicator(std::shared_ptr<ProcessGroup> group, int local)
      : group_(std::move(group)), local_(local), parts_(static_cast<std::size_t>(group_->layout().size())) {}
  ~MpiCommunicator() override { group_->leave(local_); }

  int rank() const override { return group_->layout().first_here() + local_; }
  int size() const override { return group_->layout().size(); }
  std::string name() const override { return group_->name(); }

  void all_reduce(void* data, DType dtype, std::int64_t count) override {
    if (size() == 1) return;
    const auto width = static_cast<std::size_t>(bytes_of(dtype));
    const std::size_t bytes = static_cast<std::size_t>(count) * width;
    if (bytes <= kOneExchange) {
      group_->gather(local_, data, bytes, "all-reduce");
      for (int r = 0; r < size(); ++r) parts_[static_cast<std::size_t>(r)] = group_->gathered(r, bytes);
      sum_in_rank_order(parts_, 0, dtype, count, data);
      return;
    }
    // Each rank sums one share of the elements, then everybody gathers the shares; zeros fill up the last
    // ones.
    const std::int64_t share = (count + size() - 1) / size();
    const std::size_t share_bytes = static_cast<std::size_t>(share) * width;
    scratch_.resize((static_cast<std::size_t>(size()) + 1) * share_bytes);
    std::memcpy(scratch_.data(), data, bytes);
    std::byte* const sums = scratch_.data() + static_cast<std::size_t>(size()) * share_bytes;
    std::memset(scratch_.data() + bytes, 0, static_cast<std::size_t>(sums - scratch_.data()) - bytes);
    sum_own_part(scratch_.data(), sums, dtype, share, "all-reduce");
    group_->gather(local_, sums, share_bytes, "all-reduce");
    std::memcpy(data, group_->gathered(0, share_bytes), bytes);
  }

  void all_gather(const void* in, void* out, std::size_t bytes) override {
    group_->gather(local_, in, bytes, "all-gather");
    std::memcpy(out, group_->gathered(0, bytes), static_cast<std::size_t>(size()) * bytes);
  }

  void reduce_scatter(const void* in, void* out, DType dtype, std::int64_t count) override {
    sum_own_part(in, out, dtype, count, "reduce-scatter");
  }

  void all_to_all(const void* in, void* out, std::size_t bytes) override {
    group_->exchange_parts(local_, in, bytes, "all-to-all");
    for (int r = 0; r < size(); ++r) {
      std::memcpy(static_cast<std::byte*>(out) + static_cast<std::size_t>(r) * bytes,
                  group_->part(r, local_, bytes), bytes);
    }
  }

  void broadcast(void* data, std::size_t bytes, int root) override {
    TS_CHECK(root >= 0 && root < size(), root, size());
    group_->broadcast(local_, data, bytes, root);
    if (rank() != root && bytes > 0) std::memcpy(data, group_->gathered(0, bytes), bytes);
  }

  void barrier() override { group_->gather(local_, nullptr, 0, "barrier"); }

  std::unique_ptr<Communicator> split(int colour, const std::string& name) override {
    const ProcessGroup::Child child = group_->split(local_, colour, name);
    return std::make_unique<MpiCommunicator>(child.group, child.local);
  }

 private:
  void sum_own_part(const void* in, void* out, DType dtype, std::int64_t count, const char* operation) {
    const std::size_t bytes = static_cast<std::size_t>(count * bytes_of(dtype));
    group_->exchange_parts(local_, in, bytes, operation);
    for (int r = 0; r < size(); ++r) parts_[static_cast<std::size_t>(r)] = group_->part(r, local_, bytes);
    sum_in_rank_order(parts_, 0, dtype, count, out);
  }

  std::shared_ptr<ProcessGroup> group_;  // shared by this process's ranks, which end in any order
  int local_;                            // which of them this is
  std::vector<const void*> parts_;       // [ranks], scratch
  std::vector<std::byte> scratch_;       // grows to the largest all-reduce, then stays
};

}  // namespace

Result<std::vector<std::unique_ptr<Communicator>>> make_mpi_communicators(
    MpiSession& session, int threads, const std::string& name, std::chrono::milliseconds deadline) {
  TS_CHECK(threads >= 1, threads);
  // First one rank a process, to agree on the number of threads.
  GroupLayout layout{.processes = {}, .first = {0}, .here = session.process()};
  for (int p = 0; p < session.processes(); ++p) {
    layout.processes.push_back(p);
    layout.first.push_back(p + 1);
  }
  std::vector<int> counts(static_cast<std::size_t>(session.processes()));
  try {
    const auto meeting = std::make_shared<ProcessGroup>(session, layout, name + " (start)",
                                                        session.next_world_tag(), deadline);
    MpiCommunicator(meeting, 0).all_gather(&threads, counts.data(), sizeof threads);
  } catch (const CommError& error) {
    return Error{ErrorKind::kUnavailable, name, error.what()};
  }
  for (std::size_t p = 0; p < counts.size(); ++p) {
    if (counts[p] != threads) {
      return Error{ErrorKind::kMismatch, name,
                   "process " + std::to_string(p) + " runs " + std::to_string(counts[p]) +
                       " ranks, process " + std::to_string(session.process()) + " runs " +
                       std::to_string(threads) + "; start every process with the same flags."};
    }
  }
  for (int& first : layout.first) first *= threads;
  const auto group =
      std::make_shared<ProcessGroup>(session, layout, name, session.next_world_tag(), deadline);
  std::vector<std::unique_ptr<Communicator>> result;
  for (int t = 0; t < threads; ++t) result.push_back(std::make_unique<MpiCommunicator>(group, t));
  return result;
}

}  // namespace tessera
