// What the program is doing until it can serve: written by main while it loads, read by /health.
#pragma once

#include <mutex>
#include <string>

namespace tessera {

class ReadyState {
 public:
  struct Snapshot {
    bool ready = false;
    bool failed = false;
    std::string phase = "starting";  // "loading weights", "warming up", "ready", "draining"
    double progress = 0;             // of the phase, 0..1
    std::string detail;              // "3.1 of 24.2 MB, 1.2 GB/s"
  };

  void set_phase(std::string phase, double progress = 0, std::string detail = {}) {
    const std::lock_guard lock(mutex_);
    now_ = {.phase = std::move(phase), .progress = progress, .detail = std::move(detail)};
  }
  void set_ready() {
    const std::lock_guard lock(mutex_);
    now_ = {.ready = true, .phase = "ready", .progress = 1, .detail = {}};
  }
  // The engine is gone and will not come back.
  void set_failed(std::string why) {
    const std::lock_guard lock(mutex_);
    now_ = {.failed = true, .phase = "failed", .detail = std::move(why)};
  }
  Snapshot snapshot() const {
    const std::lock_guard lock(mutex_);
    return now_;
  }

 private:
  mutable std::mutex mutex_;
  Snapshot now_;
};

}  // namespace tessera
