#include "checkpoint/read_ahead.h"

#include <algorithm>
#include <utility>

#include "checkpoint/mapped_file.h"

namespace tessera {
namespace {

std::vector<ReadAhead::Bytes> in_pieces(const std::vector<ReadAhead::Bytes>& parts) {
  std::vector<ReadAhead::Bytes> pieces;
  for (ReadAhead::Bytes part : parts) {
    while (!part.empty()) {
      const auto piece = part.first(std::min(part.size(), static_cast<std::size_t>(ReadAhead::kPiece)));
      pieces.push_back(piece);
      part = part.subspan(piece.size());
    }
  }
  return pieces;
}

}  // namespace

ReadAhead::ReadAhead(std::vector<Bytes> parts, std::int64_t window_bytes)
    : ReadAhead(std::move(parts), window_bytes, {.start = start_reading, .wait = read_pages}) {}

ReadAhead::ReadAhead(std::vector<Bytes> parts, std::int64_t window_bytes, Disk disk)
    : window_(window_bytes),
      disk_(std::move(disk)),
      thread_([this, pieces = in_pieces(parts)] { run(pieces); }) {}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  moved_.notify_all();
  thread_.join();
}

void ReadAhead::consumed(std::int64_t bytes) {
  {
    const std::lock_guard lock(mutex_);
    consumed_ += bytes;
  }
  moved_.notify_all();
}

bool ReadAhead::wait_for_room(std::int64_t end) {
  std::unique_lock lock(mutex_);
  moved_.wait(lock, [&] { return stopping_ || end <= consumed_ + window_; });
  return !stopping_;
}

void ReadAhead::run(const std::vector<Bytes>& pieces) {
  std::int64_t end = 0;  // of the piece that is asked for
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    end += static_cast<std::int64_t>(pieces[i].size());
    if (!wait_for_room(end)) return;
    disk_.start(pieces[i]);
    if (i > 0) disk_.wait(pieces[i - 1]);
  }
  if (!pieces.empty()) disk_.wait(pieces.back());
}

}  // namespace tessera
