#include "stack/source/byte_source.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <filesystem>
#include <vector>

#include "base/scratch_folder.h"

namespace tessera::stack {
namespace {

constexpr std::uint64_t kSize = 300 << 20;  // large enough to be given back

// The part of the file that is in memory.
double cached_part(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY);
  void* const mapped = ::mmap(nullptr, kSize, PROT_READ, MAP_SHARED, fd, 0);
  std::vector<unsigned char> pages(kSize / static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE)));
  EXPECT_EQ(::mincore(mapped, kSize, pages.data()), 0);
  ::munmap(mapped, kSize);
  ::close(fd);
  double cached = 0;
  for (const unsigned char page : pages) cached += page & 1;
  return cached / static_cast<double>(pages.size());
}

std::uint64_t read_through(const std::string& path) {
  auto file = FileBytes::open(path, true);
  EXPECT_TRUE(file.ok());
  std::uint64_t count = 0;
  while (true) {
    const auto chunk = (*file)->next();
    EXPECT_TRUE(chunk.ok());
    if (!chunk || chunk->empty()) return count;
    count += chunk->size();
  }
}

TEST(FileBytes, ALargeFileLeavesTheSystemsMemoryAsItWas) {
  const ScratchFolder folder;
  const std::string path = folder / "large";
  folder.write("large", "");
  std::filesystem::resize_file(path, kSize);
  if (cached_part(path) > 0.1) GTEST_SKIP() << "this file system lives in memory";
  EXPECT_EQ(read_through(path), kSize);
  EXPECT_LT(cached_part(path), 0.3);
  // What somebody else has read stays.
  const int fd = ::open(path.c_str(), O_RDONLY);
  std::string chunk(1 << 20, '\0');
  while (::read(fd, chunk.data(), chunk.size()) > 0) continue;
  ::close(fd);
  const double before = cached_part(path);
  if (before < 0.9) GTEST_SKIP() << "no room in memory";
  EXPECT_EQ(read_through(path), kSize);
  EXPECT_GT(cached_part(path), 0.6);
}

TEST(FileBytes, SkippingGoesToTheEndAndNoFurther) {
  const ScratchFolder folder;
  folder.write("f", std::string(3 << 20, 'a') + "end");
  auto file = FileBytes::open(folder / "f", true);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ((*file)->skip(3 << 20), 3u << 20);
  EXPECT_EQ((*file)->next()->substr(0), "end");
  EXPECT_EQ((*file)->skip(100), 0u);
  EXPECT_TRUE((*file)->next()->empty());
}

}  // namespace
}  // namespace tessera::stack
