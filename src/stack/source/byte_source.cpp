#include "stack/source/byte_source.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "stack/object/printable.h"

namespace tessera::stack {
namespace {

constexpr std::size_t kFileChunk =
    1 << 20;  // large enough that the system call costs nothing beside the hash

constexpr std::uint64_t kLargeFile = 256 << 20;  // what is smaller may stay in memory
constexpr std::uint64_t kGivenBack =
    16 << 20;  // at a time; beyond what is read ahead, so that nothing is read twice

// By a thousand samples. True also when the system does not say.
bool is_mostly_cached(int fd, std::uint64_t size) {
  constexpr std::uint64_t kSamples = 1000;
  const auto page = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  void* const mapped = ::mmap(nullptr, size, PROT_READ, MAP_SHARED, fd, 0);
  if (mapped == MAP_FAILED) return true;
  std::uint64_t cached = 0;
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    unsigned char state = 1;
    const std::uint64_t at = size / kSamples * i / page * page;
    if (::mincore(static_cast<char*>(mapped) + at, 1, &state) != 0) state = 1;
    cached += state & 1;
  }
  ::munmap(mapped, size);
  return cached * 2 > kSamples;
}

Error os_error(const std::string& path, const char* doing) {
  const ErrorKind kind = errno == ENOENT ? ErrorKind::kNotFound : ErrorKind::kIo;
  return Error{kind, printable(path), std::string("Cannot ") + doing + ": " + std::strerror(errno) + "."};
}

}  // namespace

FileBytes::FileBytes(std::string path, int fd, std::uint64_t size, Watch watch)
    : path_(std::move(path)),
      fd_(fd),
      size_(size),
      gives_back_(size >= kLargeFile && !is_mostly_cached(fd, size)),
      watch_(std::move(watch)) {}

FileBytes::~FileBytes() {
  give_back();
  ::close(fd_);
}

// Only what was read here: other readers may be at other places of the same file.
void FileBytes::give_back() {
  if (gives_back_ && position_ > kept_from_) {
    (void)::posix_fadvise(fd_, static_cast<off_t>(kept_from_), static_cast<off_t>(position_ - kept_from_),
                          POSIX_FADV_DONTNEED);
  }
  kept_from_ = position_;
}

Result<std::unique_ptr<FileBytes>> FileBytes::open(const std::string& path, bool follow, Watch watch) {
  // O_NONBLOCK: a fifo under the expected name must not hang us before fstat has seen what it is.
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | (follow ? 0 : O_NOFOLLOW));
  if (fd < 0) return os_error(path, "open it");
  struct stat status {};
  if (::fstat(fd, &status) != 0) {
    const Error error = os_error(path, "read its size");
    ::close(fd);
    return error;
  }
  if (!S_ISREG(status.st_mode)) {
    ::close(fd);
    return Error{ErrorKind::kInvalidArgument, printable(path), "This is not a regular file."};
  }
  return std::unique_ptr<FileBytes>(
      new FileBytes(path, fd, static_cast<std::uint64_t>(status.st_size), std::move(watch)));
}

Result<std::string_view> FileBytes::next() {
  buffer_.resize(kFileChunk);
  ssize_t got = 0;
  do {
    got = ::read(fd_, buffer_.data(), buffer_.size());
  } while (got < 0 && errno == EINTR);
  if (got < 0) return os_error(path_, "read it");
  position_ += static_cast<std::uint64_t>(got);
  if (position_ - kept_from_ >= kGivenBack) give_back();
  if (watch_) watch_(position_);
  return std::string_view(buffer_.data(), static_cast<std::size_t>(got));
}

std::uint64_t FileBytes::skip(std::uint64_t count) {
  // Never past the end: a truncated file must be noticed by the read that follows.
  count = std::min(count, size_ - std::min(size_, position_));
  if (count == 0 || ::lseek(fd_, static_cast<off_t>(position_ + count), SEEK_SET) < 0) return 0;
  give_back();
  position_ += count;
  kept_from_ = position_;
  if (watch_) watch_(position_);
  return count;
}

std::string FileBytes::peek(std::size_t count) const {
  std::string out(count, '\0');
  const ssize_t got = ::pread(fd_, out.data(), count, static_cast<off_t>(position_));
  out.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return out;
}

Result<std::string_view> MemoryBytes::next() {
  const std::string_view chunk = rest_.substr(0, chunk_);
  rest_.remove_prefix(chunk.size());
  return chunk;
}

Result<std::string_view> ReplayedBytes::next() {
  if (!replayed_ && !first_.empty()) {
    replayed_ = true;
    return std::string_view(first_);
  }
  return rest_.next();
}

Result<std::string_view> HashedBytes::next() {
  TS_TRY(const std::string_view chunk, from_.next());
  hasher_.add(chunk);
  count_ += chunk.size();
  return chunk;
}

Result<void> HashedBytes::drain() {
  while (true) {
    TS_TRY(const std::string_view chunk, next());
    if (chunk.empty()) return {};
  }
}

Result<std::string> read_all(ByteSource& source, std::uint64_t limit, const std::string& where) {
  std::string out;
  while (true) {
    TS_TRY(const std::string_view chunk, source.next());
    if (chunk.empty()) return out;
    if (out.size() + chunk.size() > limit) {
      return Error{ErrorKind::kTooLarge, where,
                   "It is larger than the limit of " + std::to_string(limit) + " bytes."};
    }
    out += chunk;
  }
}

}  // namespace tessera::stack
