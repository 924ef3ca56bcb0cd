// Threads that copy rows out of mapped files, side by side: page faults happen there, and so does the reading
// of the disk, several places at once.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace tessera {

// `rows` pieces of `bytes`, `from_stride` apart, to one place without gaps.
struct RowCopy {
  std::byte* to = nullptr;
  const void* from = nullptr;
  std::int64_t from_stride = 0;
  std::int64_t bytes = 0;
  std::int64_t rows = 0;
};

class RowReaders {
 public:
  // Copies that are asked for together. Empty again once they are done; must outlive them.
  class Batch {
    friend class RowReaders;
    std::int64_t left = 0;  // pieces; guarded by mutex_
  };

  explicit RowReaders(int threads);
  ~RowReaders();  // when everything asked for is done
  RowReaders(const RowReaders&) = delete;
  RowReaders& operator=(const RowReaders&) = delete;

  // Returns at once. Copies begin in the order in which they are asked for.
  void read(const RowCopy& copy, Batch& batch);
  bool is_done(const Batch& batch) const;
  void wait(const Batch& batch) const;

 private:
  struct Piece {
    RowCopy copy;
    Batch* batch = nullptr;
  };
  void work();

  mutable std::mutex mutex_;
  std::condition_variable asked_;
  mutable std::condition_variable done_;
  std::deque<Piece> waiting_;
  bool ending_ = false;
  std::vector<std::jthread> threads_;
};

}  // namespace tessera
