// The way back to an event loop from other threads. Outlives the loop: mail to a loop that ended is dropped,
// so that an engine may still deliver while the server goes down.
#pragma once

#include <functional>
#include <mutex>
#include <utility>
#include <vector>

namespace tessera::http {

class Mailbox {
 public:
  // `wake` must make the loop call deliver() soon; called once for all mail that gathers while the loop is
  // busy.
  explicit Mailbox(std::function<void()> wake) : wake_(std::move(wake)) {}

  // From any thread; never waits for the loop. Tasks run in order.
  void mail(std::function<void()> task) {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    tasks_.push_back(std::move(task));
    if (tasks_.size() == 1) wake_();
  }

  // On the loop's thread.
  void deliver() {
    std::vector<std::function<void()>> tasks;
    {
      const std::lock_guard lock(mutex_);
      tasks.swap(tasks_);
    }
    for (auto& task : tasks) task();
  }

  void close() {
    std::vector<std::function<void()>> dropped;  // destroyed after the lock: tasks may own what mails
    const std::lock_guard lock(mutex_);
    closed_ = true;
    dropped.swap(tasks_);
  }

 private:
  std::function<void()> wake_;
  std::mutex mutex_;  // guards what follows
  std::vector<std::function<void()>> tasks_;
  bool closed_ = false;
};

}  // namespace tessera::http
