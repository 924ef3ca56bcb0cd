// A whole file in memory, read-only, by mmap.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

#include "base/result.h"

namespace tessera {

class MappedFile {
 public:
  static Result<MappedFile> open(const std::filesystem::path& path);
  MappedFile() = default;
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  ~MappedFile();

  // Stays at the same address for the life of the map, whoever owns it. An empty file gives an empty span.
  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(data_), size_}; }

 private:
  void* data_ = nullptr;
  std::size_t size_ = 0;
};

// Hints for a part of a map; all are without effect on what is read. Ranges are widened to whole pages,
// except by drop_pages, which keeps the pages at the edges.
void advise_random(std::span<const std::byte> bytes);      // no read-ahead: single values here and there
void advise_sequential(std::span<const std::byte> bytes);  // read ahead far, forget behind
void advise_soon(std::span<const std::byte> bytes);        // will be read next; waits for nothing
void drop_pages(std::span<const std::byte> bytes);         // gives the memory back

}  // namespace tessera
