#include "stack/object/background_hasher.h"

namespace tessera::stack {
namespace {

constexpr std::size_t kBatch =
    1 << 20;  // bytes; about a millisecond of hashing, a hundred times what waking costs

}  // namespace

BackgroundHasher::~BackgroundHasher() { end(); }

void BackgroundHasher::add(std::string_view bytes) {
  if (filling_.size() >= kBatch) hand_over();
  filling_ += bytes;
}

void BackgroundHasher::hand_over() {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !is_busy_; });
    filling_.swap(hashing_);
    is_busy_ = true;
  }
  filling_.clear();
  if (!thread_.joinable()) thread_ = std::thread([this] { hash_batches(); });
  changed_.notify_all();
}

void BackgroundHasher::hash_batches() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return is_busy_ || is_ending_; });
    if (!is_busy_) return;
    lock.unlock();
    hasher_.add(hashing_);
    lock.lock();
    is_busy_ = false;
    changed_.notify_all();
  }
}

void BackgroundHasher::end() {
  if (!thread_.joinable()) return;
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::string BackgroundHasher::hex() {
  end();
  hasher_.add(filling_);
  return hasher_.hex();
}

}  // namespace tessera::stack
