// How far a long computation has come. Whoever computes says so; nobody has to listen.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace tessera::stack {

// A stage in words for people ("composing topics"), how much of it is done, and of how much. `total` is 0
// when nobody knows the end; `done` is in bytes then. A stage ends with a call that has done == total.
using StageProgress = std::function<void(std::string_view stage, std::uint64_t done, std::uint64_t total)>;

// One stage: step() before each of its steps, finished when it goes out of scope.
class Stage {
 public:
  Stage(const StageProgress& progress, std::string_view name, std::uint64_t steps)
      : progress_(progress), name_(name), steps_(steps) {}
  ~Stage() {
    if (progress_ && steps_ > 0) progress_(name_, steps_, steps_);
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  void step() {
    if (progress_) progress_(name_, done_++, steps_);
  }

 private:
  const StageProgress& progress_;
  std::string_view name_;
  std::uint64_t steps_;
  std::uint64_t done_ = 0;
};

}  // namespace tessera::stack
