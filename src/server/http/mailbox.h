// The way back to an event loop from other threads. Outlives the loop: mail to a loop that ended is dropped,
// so that an engine may still deliver while the server goes down.
#pragma once

#include <functional>
#include <mutex>
#include <vector>

namespace tessera::http {

class Mailbox {
 public:
  // `wake` must make the loop call deliver() soon; called once for all mail that gathers while the loop is
  // busy.
  explicit Mailbox(std::function<void()> wake) : wake_(std::move(wake)) {}

  // From any thread; never waits for the loop. Tasks run in order.
  void mail(std::function<void()> task);
  // On the loop's thread. A task that throws is logged and does not hold up the others; who needs to answer
  // somebody catches before.
  void deliver();
  void close();

 private:
  std::function<void()> wake_;
  std::mutex mutex_;  // guards what follows
  std::vector<std::function<void()>> tasks_;
  bool closed_ = false;
};

}  // namespace tessera::http
