// A communicator that notes how long its rank spends in each call, waiting for the others included.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "comm/communicator.h"

namespace tessera {

struct CommTime {
  double microseconds = 0;
  std::int64_t calls = 0;
};

class TimedCommunicator final : public Communicator {
 public:
  // `time` is counted up by the rank's thread and outlives this.
  TimedCommunicator(std::unique_ptr<Communicator> inner, CommTime& time)
      : inner_(std::move(inner)), time_(time) {}

  int rank() const override { return inner_->rank(); }
  int size() const override { return inner_->size(); }
  std::string name() const override { return inner_->name(); }

  void all_reduce(void* data, DType dtype, std::int64_t count) override {
    timed([&] { inner_->all_reduce(data, dtype, count); });
  }
  void all_gather(const void* in, void* out, std::size_t bytes) override {
    timed([&] { inner_->all_gather(in, out, bytes); });
  }
  void reduce_scatter(const void* in, void* out, DType dtype, std::int64_t count) override {
    timed([&] { inner_->reduce_scatter(in, out, dtype, count); });
  }
  void all_to_all(const void* in, void* out, std::size_t bytes) override {
    timed([&] { inner_->all_to_all(in, out, bytes); });
  }
  void broadcast(void* data, std::size_t bytes, int root) override {
    timed([&] { inner_->broadcast(data, bytes, root); });
  }
  void barrier() override {
    timed([&] { inner_->barrier(); });
  }
  // Not timed itself; the part's calls are not counted here.
  std::unique_ptr<Communicator> split(int colour, const std::string& name) override {
    return inner_->split(colour, name);
  }

 private:
  template <class Call>
  void timed(const Call& call) {
    const auto begin = std::chrono::steady_clock::now();
    call();
    time_.microseconds +=
        std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count();
    ++time_.calls;
  }

  std::unique_ptr<Communicator> inner_;
  CommTime& time_;
};

}  // namespace tessera
