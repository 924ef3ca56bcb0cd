#include "checkpoint/read_ahead.h"

#include <gtest/gtest.h>

#include <string>

namespace tessera {
namespace {

// A disk that says when so many bytes were asked for.
struct FakeDisk {
  ReadAhead::Disk disk() {
    return {.start = [this](ReadAhead::Bytes bytes) { note('s', bytes); },
            .wait = [this](ReadAhead::Bytes bytes) { note('w', bytes); }};
  }
  void note(char what, ReadAhead::Bytes bytes) {
    const std::lock_guard lock(mutex);
    calls += what;
    if (what == 's') started += static_cast<std::int64_t>(bytes.size());
    if (what == 'w') arrived += static_cast<std::int64_t>(bytes.size());
    if (what == 's' && first == nullptr) first = bytes.data();
    changed.notify_all();
  }
  std::int64_t wait_until_started(std::int64_t bytes) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return started >= bytes; });
    return started;
  }
  void wait_until_arrived(std::int64_t bytes) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return arrived >= bytes; });
  }

  std::mutex mutex;
  std::condition_variable changed;
  std::string calls;
  std::int64_t started = 0;
  std::int64_t arrived = 0;
  const std::byte* first = nullptr;
};

// Nothing is touched but by the fake, so the bytes need not exist.
ReadAhead::Bytes bytes_at(std::uintptr_t address, std::int64_t size) {
  return {reinterpret_cast<const std::byte*>(address), static_cast<std::size_t>(size)};
}
constexpr std::int64_t kPiece = ReadAhead::kPiece;

TEST(ReadAhead, StaysWithinItsWindowUntilBytesAreConsumed) {
  FakeDisk disk;
  ReadAhead ahead({bytes_at(4096, 10 * kPiece)}, 3 * kPiece, disk.disk());
  EXPECT_EQ(disk.wait_until_started(3 * kPiece), 3 * kPiece);
  ahead.consumed(kPiece - 1);  // not enough for another piece
  ahead.consumed(1);
  EXPECT_EQ(disk.wait_until_started(4 * kPiece), 4 * kPiece);
  ahead.consumed(100 * kPiece);
  disk.wait_until_arrived(10 * kPiece);
  EXPECT_EQ(disk.started, 10 * kPiece);
}

TEST(ReadAhead, ThePieceBehindIsAskedForBeforeOneIsWaitedFor) {
  FakeDisk disk;
  {
    ReadAhead ahead({bytes_at(4096, 2 * kPiece), bytes_at(1U << 30, 5)}, 100 * kPiece, disk.disk());
    disk.wait_until_arrived(2 * kPiece + 5);
  }
  EXPECT_EQ(disk.calls, "sswsww");
}

TEST(ReadAhead, EveryByteIsReadOnceAndInOrder) {
  FakeDisk disk;
  {
    ReadAhead ahead({bytes_at(8192, 7), bytes_at(1U << 30, kPiece + 1), {}}, 100 * kPiece, disk.disk());
    disk.wait_until_arrived(kPiece + 8);
  }
  EXPECT_EQ(disk.started, kPiece + 8);
  EXPECT_EQ(disk.arrived, kPiece + 8);
  EXPECT_EQ(disk.first, bytes_at(8192, 0).data());
}

TEST(ReadAhead, EndsWhileItWaitsForRoom) {
  FakeDisk disk;
  {
    ReadAhead ahead({bytes_at(4096, 10 * kPiece)}, kPiece, disk.disk());
    disk.wait_until_started(kPiece);
  }
  EXPECT_EQ(disk.started, kPiece);
}

TEST(ReadAhead, NothingToReadIsRead) { const ReadAhead ahead({}, 1); }

}  // namespace
}  // namespace tessera
