#include "checkpoint/mapped_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

namespace tessera {
namespace {

#ifndef MADV_POPULATE_READ
constexpr int MADV_POPULATE_READ = 22;  // Linux 5.14
#endif

constexpr std::uintptr_t kPage = 4096;

Error io_error(const std::filesystem::path& path, const char* action) {
  const int code = errno;
  return Error{code == ENOENT ? ErrorKind::kNotFound : ErrorKind::kIo, path.string(),
               std::string("cannot ") + action + ": " + std::strerror(code) + "."};
}

struct PageRange {
  void* start;
  std::size_t bytes;
};
PageRange outer_pages(std::span<const std::byte> bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(bytes.data()) / kPage * kPage;
  const auto last = reinterpret_cast<std::uintptr_t>(bytes.data() + bytes.size());
  return {reinterpret_cast<void*>(first), last - first};
}

}  // namespace

Result<MappedFile> MappedFile::open(const std::filesystem::path& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return io_error(path, "open the file");
  struct stat status = {};
  if (::fstat(file, &status) != 0) {
    Error error = io_error(path, "ask for the file's size");
    ::close(file);
    return error;
  }
  if (!S_ISREG(status.st_mode)) {
    ::close(file);
    return Error{ErrorKind::kIo, path.string(), "is not a regular file."};
  }
  MappedFile map;
  map.size_ = static_cast<std::size_t>(status.st_size);
  if (map.size_ > 0) {
    void* data = ::mmap(nullptr, map.size_, PROT_READ, MAP_SHARED, file, 0);
    if (data == MAP_FAILED) {
      Error error = io_error(path, "map the file into memory");
      ::close(file);
      return error;
    }
    map.data_ = data;
  }
  ::close(file);  // the map keeps the file
  return map;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

void advise_random(std::span<const std::byte> bytes) {
  const PageRange range = outer_pages(bytes);
  if (range.bytes > 0) (void)::madvise(range.start, range.bytes, MADV_RANDOM);
}

void advise_sequential(std::span<const std::byte> bytes) {
  const PageRange range = outer_pages(bytes);
  if (range.bytes > 0) (void)::madvise(range.start, range.bytes, MADV_SEQUENTIAL);
}

void advise_soon(std::span<const std::byte> bytes) {
  const PageRange range = outer_pages(bytes);
  if (range.bytes > 0) (void)::madvise(range.start, range.bytes, MADV_WILLNEED);
}

void drop_pages(std::span<const std::byte> bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data());
  const std::uintptr_t first = (begin + kPage - 1) / kPage * kPage;
  const std::uintptr_t last = (begin + bytes.size()) / kPage * kPage;
  if (first < last) (void)::madvise(reinterpret_cast<void*>(first), last - first, MADV_DONTNEED);
}

}  // namespace tessera
