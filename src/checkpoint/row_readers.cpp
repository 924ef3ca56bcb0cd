#include "checkpoint/row_readers.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "checkpoint/mapped_file.h"

namespace tessera {
namespace {

// What a thread takes at a time: small beside a large matrix, so that all threads end together; large beside
// the lock and the hint.
constexpr std::int64_t kPieceBytes = std::int64_t{1} << 20;

void run(const RowCopy& copy) {
  const auto* from = static_cast<const std::byte*>(copy.from);
  // All of the piece is asked for before its first byte is waited for.
  advise_soon({from, static_cast<std::size_t>((copy.rows - 1) * copy.from_stride + copy.bytes)});
  for (std::int64_t row = 0; row < copy.rows; ++row) {
    std::memcpy(copy.to + row * copy.bytes, from + row * copy.from_stride,
                static_cast<std::size_t>(copy.bytes));
  }
}

}  // namespace

RowReaders::RowReaders(int threads) {
  TS_CHECK(threads > 0, threads);
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

RowReaders::~RowReaders() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  asked_.notify_all();
}

void RowReaders::read(const RowCopy& copy, Batch& batch) {
  if (copy.rows <= 0 || copy.bytes <= 0) return;
  if (copy.rows > 1 && copy.from_stride == copy.bytes) {  // one run of bytes, cut anywhere
    return read(
        {.to = copy.to, .from = copy.from, .from_stride = 0, .bytes = copy.rows * copy.bytes, .rows = 1},
        batch);
  }
  std::vector<Piece> pieces;
  const auto add = [&](std::int64_t to, std::int64_t from, std::int64_t bytes, std::int64_t rows) {
    pieces.push_back({.copy = {.to = copy.to + to,
                               .from = static_cast<const std::byte*>(copy.from) + from,
                               .from_stride = copy.from_stride,
                               .bytes = bytes,
                               .rows = rows},
                      .batch = &batch});
  };
  if (copy.rows == 1) {
    for (std::int64_t at = 0; at < copy.bytes; at += kPieceBytes)
      add(at, at, std::min(kPieceBytes, copy.bytes - at), 1);
  } else {
    const std::int64_t step = std::max<std::int64_t>(1, kPieceBytes / copy.bytes);
    for (std::int64_t first = 0; first < copy.rows; first += step)
      add(first * copy.bytes, first * copy.from_stride, copy.bytes, std::min(step, copy.rows - first));
  }
  {
    const std::lock_guard lock(mutex_);
    waiting_.insert(waiting_.end(), pieces.begin(), pieces.end());
    batch.left += static_cast<std::int64_t>(pieces.size());
  }
  asked_.notify_all();
}

bool RowReaders::is_done(const Batch& batch) const {
  const std::lock_guard lock(mutex_);
  return batch.left == 0;
}

void RowReaders::wait(const Batch& batch) const {
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return batch.left == 0; });
}

void RowReaders::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    asked_.wait(lock, [&] { return ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    const Piece piece = waiting_.front();
    waiting_.pop_front();
    lock.unlock();
    run(piece.copy);
    lock.lock();
    if (--piece.batch->left == 0) done_.notify_all();
  }
}

}  // namespace tessera
