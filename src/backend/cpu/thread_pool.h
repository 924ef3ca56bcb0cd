// Persistent threads that split one call at a time. Nothing is allocated by a call, and nobody spins for
// longer than a few microseconds, so that more threads than cores (other ranks, sanitizers, a busy machine)
// only cost their switches.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace tessera {

// Items [first, last) of one thread.
struct ItemRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

// `items` cut into `parts` ranges whose sizes differ by at most one.
constexpr ItemRange static_share(std::int64_t items, std::int64_t parts, std::int64_t part) {
  return {.first = items * part / parts, .last = items * (part + 1) / parts};
}

class ThreadPool {
 public:
  explicit ThreadPool(int threads);  // the caller counts as one of them
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return static_cast<int>(workers_.size()) + 1; }

  // body(ItemRange, thread) on every thread that has items; returns when all are done. The caller is thread
  // 0. Which thread gets which items depends on the counts alone. Exceptions must not leave `body`.
  template <class Body>
  void split(std::int64_t items, const Body& body) {
    if (items <= 0) return;
    const int parts = items < size() ? static_cast<int>(items) : size();
    if (parts == 1) {
      body(ItemRange{0, items}, 0);
      return;
    }
    struct Job {
      const Body& body;
      std::int64_t items;
      int parts;
    };
    const Job job{body, items, parts};
    start(
        parts,
        [](const void* raw, int thread) {
          const Job& j = *static_cast<const Job*>(raw);
          j.body(static_share(j.items, j.parts, thread), thread);
        },
        &job);
  }

 private:
  using Call = void (*)(const void* job, int thread);
  void start(int parts, Call call, const void* job);
  void work(int thread);

  // Written by the caller before epoch_ moves, read by workers after they saw it move.
  Call call_ = nullptr;
  const void* job_ = nullptr;
  int parts_ = 0;
  bool stopping_ = false;
  alignas(64) std::atomic<std::uint32_t> epoch_{0};    // moves once a call
  alignas(64) std::atomic<std::uint32_t> running_{0};  // workers that have not finished this call
  std::vector<std::thread> workers_;
};

}  // namespace tessera
