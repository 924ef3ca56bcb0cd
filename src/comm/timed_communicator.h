// A communicator that notes how long its rank spends in each call. For groups whose calls return when they
// are done: those of devices only enqueue, and are not called at all where a recorded step is replayed.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "comm/collective_times.h"
#include "comm/communicator.h"

namespace tessera {

class TimedCommunicator final : public Communicator {
 public:
  // `times` is shared with whoever reads it, who may be gone before the rank's thread is.
  TimedCommunicator(std::unique_ptr<Communicator> inner, std::shared_ptr<CollectiveTimes> times)
      : inner_(std::move(inner)), times_(std::move(times)) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string name() const override { return inner_->name(); }

  void all_reduce(void* data, DType dtype, std::int64_t count) override {
    timed(Collective::kAllReduce, [&] { inner_->all_reduce(data, dtype, count); });
  }
  void all_gather(const void* in, void* out, std::size_t bytes) override {
    timed(Collective::kAllGather, [&] { inner_->all_gather(in, out, bytes); });
  }
  void reduce_scatter(const void* in, void* out, DType dtype, std::int64_t count) override {
    timed(Collective::kReduceScatter, [&] { inner_->reduce_scatter(in, out, dtype, count); });
  }
  void all_to_all(const void* in, void* out, std::size_t bytes) override {
    timed(Collective::kAllToAll, [&] { inner_->all_to_all(in, out, bytes); });
  }
  void broadcast(void* data, std::size_t bytes, int root) override {
    timed(Collective::kBroadcast, [&] { inner_->broadcast(data, bytes, root); });
  }
  void barrier() override {
    timed(Collective::kBarrier, [&] { inner_->barrier(); });
  }
  // Not timed itself; the part's calls are not counted here.
  std::unique_ptr<Communicator> split(int colour, const std::string& name) override {
    return inner_->split(colour, name);
  }

 private:
  template <class Call>
  void timed(Collective operation, const Call& call) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    times_->count(operation, std::chrono::steady_clock::now() - begin);
  }

  std::unique_ptr<Communicator> inner_;
  std::shared_ptr<CollectiveTimes> times_;
};

}  // namespace tessera
