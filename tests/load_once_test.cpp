// However many ranks share a host, each byte of a checkpoint is read from its disk once.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/scratch_folder.h"
#include "checkpoint/synthetic_checkpoint.h"
#include "support/tiny_model.h"

namespace tessera::test {
namespace {

// That storage delivered for this process, mapped files included.
std::int64_t bytes_read() {
  std::ifstream io("/proc/self/io");
  std::string name;
  std::int64_t value = 0;
  while (io >> name >> value) {
    if (name == "read_bytes:") return value;
  }
  return -1;
}

std::int64_t evict(const std::filesystem::path& folder) {
  std::int64_t bytes = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const int file = ::open(entry.path().c_str(), O_RDONLY);
    EXPECT_GE(file, 0) << entry.path();
    EXPECT_EQ(::fdatasync(file), 0);
    EXPECT_EQ(::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED), 0);
    ::close(file);
    bytes += static_cast<std::int64_t>(entry.file_size());
  }
  return bytes;
}

TEST(Loading, ReadsEachByteOnceForAllRanksOfAHost) {
  const ScratchFolder folder;
  std::filesystem::copy(std::string(TESSERA_SOURCE_DIR) + "/models/tessera-tiny", folder.path(),
                        std::filesystem::copy_options::recursive);
  for (const auto& [ranks, expert_parallel] :
       {std::pair{1, false}, std::pair{4, false}, std::pair{4, true}}) {
    const std::int64_t size = evict(folder.path());
    const std::int64_t before = bytes_read();
    const TinyModel model =
        load_tiny({.folder = folder.path(), .ranks = ranks, .expert_parallel = expert_parallel});
    const std::int64_t read = bytes_read() - before;
    if (before < 0 || read < size / 2)
      GTEST_SKIP() << folder.path() << " stays in memory, or reads are not counted here";
    EXPECT_LT(read, size * 11 / 10) << ranks << " ranks";
  }
}

}  // namespace
}  // namespace tessera::test
