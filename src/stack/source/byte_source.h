// Bytes that arrive in chunks: a file, an entry of an archive, what a decompressor makes of another source.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "stack/object/background_hasher.h"

namespace tessera::stack {

class ByteSource {
 public:
  virtual ~ByteSource() = default;
  // The next chunk, never empty before the end; empty at the end. Valid until the next call.
  virtual Result<std::string_view> next() = 0;
  // Passes over up to `count` bytes without reading them, and says how many; 0 when that is not possible.
  virtual std::uint64_t skip(std::uint64_t count) { return count * 0; }
};

// A regular file, opened without following a symlink in its last component when `follow` is false. Of a large
// file that is not in memory, what was read is given back to the system at once: an image of 20 GB is read
// once, and would push out whatever else is cached.
class FileBytes final : public ByteSource {
 public:
  using Watch = std::function<void(std::uint64_t position)>;
  static Result<std::unique_ptr<FileBytes>> open(const std::string& path, bool follow, Watch watch = {});
  ~FileBytes() override;
  FileBytes(const FileBytes&) = delete;
  FileBytes& operator=(const FileBytes&) = delete;

  Result<std::string_view> next() override;
  std::uint64_t skip(std::uint64_t count) override;
  std::uint64_t size() const { return size_; }
  // The first bytes of the file, without moving the position.
  std::string peek(std::size_t count) const;

 private:
  FileBytes(std::string path, int fd, std::uint64_t size, Watch watch);
  void give_back();
  std::string path_;
  int fd_;
  std::uint64_t size_;
  std::uint64_t position_ = 0;
  bool gives_back_;
  std::uint64_t kept_from_ = 0;  // from here to the position, pages were read and not yet given back
  Watch watch_;
  std::string buffer_;
};

class MemoryBytes final : public ByteSource {
 public:
  explicit MemoryBytes(std::string_view bytes, std::size_t chunk = 1 << 16) : rest_(bytes), chunk_(chunk) {}
  Result<std::string_view> next() override;

 private:
  std::string_view rest_;
  std::size_t chunk_;
};

// Puts a chunk that was read for sniffing back in front of the rest.
class ReplayedBytes final : public ByteSource {
 public:
  ReplayedBytes(std::string first, ByteSource& rest) : first_(std::move(first)), rest_(rest) {}
  Result<std::string_view> next() override;

 private:
  std::string first_;
  bool replayed_ = false;
  ByteSource& rest_;
};

// Counts what passes, and hashes it in the background.
class HashedBytes final : public ByteSource {
 public:
  explicit HashedBytes(ByteSource& from) : from_(from) {}
  Result<std::string_view> next() override;
  // Reads whatever is left, so that the digest covers all of it.
  Result<void> drain();
  std::uint64_t count() const { return count_; }
  std::string hex() { return hasher_.hex(); }

 private:
  ByteSource& from_;
  BackgroundHasher hasher_;  // SHA-256
  std::uint64_t count_ = 0;
};

// All of it, or kTooLarge.
Result<std::string> read_all(ByteSource& source, std::uint64_t limit, const std::string& where);

}  // namespace tessera::stack
