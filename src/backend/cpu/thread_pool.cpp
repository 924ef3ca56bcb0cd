#include "backend/cpu/thread_pool.h"

#include "base/check.h"

namespace tessera {
namespace {

// About two microseconds: the gap between two calls of one layer. Longer gaps sleep in the kernel.
constexpr int kSpins = 200;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

// Until `value` is no longer `old`.
void wait_while(const std::atomic<std::uint32_t>& value, std::uint32_t old) {
  for (int i = 0; i < kSpins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    relax();
  }
  while (value.load(std::memory_order_acquire) == old) value.wait(old, std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(int threads) {
  TS_CHECK(threads >= 1, threads);
  workers_.reserve(static_cast<std::size_t>(threads - 1));
  for (int i = 1; i < threads; ++i) workers_.emplace_back([this, i] { work(i); });
}

ThreadPool::~ThreadPool() {
  stopping_ = true;
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::start(int parts, Call call, const void* job) {
  call_ = call;
  job_ = job;
  parts_ = parts;
  running_.store(static_cast<std::uint32_t>(workers_.size()), std::memory_order_relaxed);
  epoch_.fetch_add(1, std::memory_order_release);
  epoch_.notify_all();
  call(job, 0);
  for (std::uint32_t left = running_.load(std::memory_order_acquire); left != 0;
       left = running_.load(std::memory_order_acquire)) {
    wait_while(running_, left);
  }
}

void ThreadPool::work(int thread) {
  std::uint32_t seen = 0;
  while (true) {
    wait_while(epoch_, seen);
    ++seen;  // the caller waits for every worker before it starts the next call, so none is missed
    if (stopping_) return;
    if (thread < parts_) call_(job_, thread);
    if (running_.fetch_sub(1, std::memory_order_acq_rel) == 1) running_.notify_one();
  }
}

}  // namespace tessera
