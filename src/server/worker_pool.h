// Threads that take work in the order in which it was given.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace tessera {

class WorkerPool {
 public:
  explicit WorkerPool(int threads);
  ~WorkerPool();

  // Tasks do not throw: there would be nobody to tell. After join() they are dropped.
  void post(std::function<void()> task);
  // What was posted is done, then the threads end. Safe to call twice.
  void join();

 private:
  void work();

  std::mutex mutex_;  // guards what follows
  std::condition_variable arrived_;
  std::deque<std::function<void()>> tasks_;
  bool ending_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tessera
