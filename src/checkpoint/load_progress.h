// Progress of reading weights: how much, how fast, how long still. A line every five seconds, and a fraction
// for /health.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace tessera {

class LoadProgress {
 public:
  using Clock = std::function<std::chrono::nanoseconds()>;  // monotonic
  using Sink = std::function<void(std::string_view)>;       // takes one line, without its end

  struct Options {
    std::string label = "weights";
    std::int64_t total_bytes = 0;
    std::chrono::seconds every{5};
    Clock clock = {};  // null: std::chrono::steady_clock
    Sink sink = {};    // null: no lines
  };
  explicit LoadProgress(Options options);

  // Any thread may call these.
  void add(std::int64_t bytes);
  std::int64_t done_bytes() const { return done_.load(std::memory_order_relaxed); }
  double fraction() const;   // 0 to 1; 1 when there is nothing to load
  std::string line() const;  // "weights: 118.2 of 594.2 GB (20 %), 9.84 GB/s, 48 s left"

  void finish();  // a last line with the mean rate

 private:
  Options options_;
  std::chrono::nanoseconds start_;
  std::atomic<std::int64_t> done_{0};
  std::atomic<std::int64_t> next_line_ns_;
};

}  // namespace tessera
