// SHA-256 on a thread of its own, while the caller goes on reading: a layer is read about as fast as it is
// hashed.
#pragma once

#include <condition_variable>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "stack/object/digest.h"

namespace tessera::stack {

// One caller; the thread starts with the second batch, so that small inputs cost none.
class BackgroundHasher {
 public:
  BackgroundHasher() = default;
  ~BackgroundHasher();
  BackgroundHasher(const BackgroundHasher&) = delete;
  BackgroundHasher& operator=(const BackgroundHasher&) = delete;

  // Copies the bytes; waits while the thread is a whole batch behind.
  void add(std::string_view bytes);
  // The digest in lower-case hex. The hasher is spent afterwards.
  std::string hex();

 private:
  void hand_over();
  void hash_batches();
  void end();

  std::string filling_;                   // the caller's
  std::string hashing_;                   // the thread's while is_busy_
  Hasher hasher_{Hasher::Kind::kSha256};  // the thread's until it has ended
  std::mutex mutex_;                      // of the two below
  bool is_busy_ = false;
  bool is_ending_ = false;
  std::condition_variable changed_;
  std::thread thread_;
};

}  // namespace tessera::stack
