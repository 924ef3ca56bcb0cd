#include "stack/command/checkout.h"

#include <stdlib.h>
#include <sys/wait.h>

#include <cstdio>
#include <filesystem>
#include <fstream>

#include "stack/object/printable.h"

namespace tessera::stack {
namespace {

class TemporaryFolder {
 public:
  static Result<TemporaryFolder> make() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tessera-stack-check-XXXXXX").string();
    if (::mkdtemp(pattern.data()) == nullptr)
      return Error{ErrorKind::kIo, pattern, "No temporary folder could be made."};
    return TemporaryFolder(pattern);
  }
  TemporaryFolder(TemporaryFolder&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  TemporaryFolder& operator=(TemporaryFolder&&) = delete;
  ~TemporaryFolder() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  const std::filesystem::path& path() const { return path_; }

 private:
  explicit TemporaryFolder(std::filesystem::path path) : path_(std::move(path)) {}
  std::filesystem::path path_;
};

// A git tree cannot name ".." or "", so no path leaves the folder; links are written last, so that nothing is
// written through one.
Result<void> write_files(const Repository& repository, const Oid& tree, const std::filesystem::path& folder) {
  TS_TRY(const Tree files, repository.read_tree(tree));
  for (const bool links : {false, true}) {
    for (const TreeEntry& entry : files.entries) {
      if (entry.mode == FileMode::kGitlink || (entry.mode == FileMode::kSymlink) != links) continue;
      if (("/" + entry.path + "/").find("/../") != std::string::npos)
        return Error{ErrorKind::kCorrupt, printable(entry.path), "This path leaves its tree."};
      TS_TRY(const std::string bytes, repository.read(entry.oid));
      const std::filesystem::path path = folder / entry.path;
      std::error_code failed;
      std::filesystem::create_directories(path.parent_path(), failed);
      if (links) {
        std::filesystem::create_symlink(bytes, path, failed);
      } else {
        std::ofstream(path, std::ios::binary) << bytes;
        if (entry.mode == FileMode::kExecutable)
          std::filesystem::permissions(path, std::filesystem::perms(0755), failed);
      }
      if (failed)
        return Error{ErrorKind::kIo, printable(path.string()), "Writing failed: " + failed.message() + "."};
    }
  }
  return {};
}

}  // namespace

Result<std::vector<CheckResult>> run_checks(const Repository& repository, const Oid& tree,
                                            const std::vector<std::string>& commands) {
  TS_TRY(const TemporaryFolder folder, TemporaryFolder::make());
  TS_TRY(write_files(repository, tree, folder.path()));
  std::vector<CheckResult> results;
  for (const std::string& command : commands) {
    CheckResult result{.command = command};
    std::FILE* pipe =
        ::popen(("cd '" + folder.path().string() + "' && { " + command + "\n} 2>&1 </dev/null").c_str(), "r");
    if (pipe == nullptr) return Error{ErrorKind::kIo, command, "The command could not be started."};
    char* line = nullptr;
    std::size_t size = 0;
    while (::getline(&line, &size, pipe) > 0) {
      std::string text = line;
      while (text.ends_with('\n') || text.ends_with('\r')) text.pop_back();
      if (!text.empty()) result.last_line = text;
    }
    ::free(line);
    const int status = ::pclose(pipe);
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    results.push_back(std::move(result));
  }
  return results;
}

}  // namespace tessera::stack
