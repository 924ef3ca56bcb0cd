// For tests: a git repository in a temporary folder, driven by the git program, which is the independent
// judge of what we do.
#pragma once

#include <gtest/gtest.h>
#include <stdlib.h>

#include <array>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>

namespace tessera::stack {

// A folder that vanishes with this value.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "tessera-stack-XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr) << pattern;
    path_ = pattern;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string operator/(std::string_view name) const { return (path_ / name).string(); }

  void write(std::string_view name, std::string_view bytes) const {
    const std::filesystem::path file = path_ / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << bytes;
  }

 private:
  std::filesystem::path path_;
};

// Runs a shell command with a fixed environment; its output without the last line end, and its status.
struct CommandOutput {
  int status = 0;
  std::string text;  // stdout and stderr
};

inline CommandOutput run_command(const std::string& command) {
  CommandOutput output;
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return {-1, "popen failed"};
  std::array<char, 4096> buffer;
  std::size_t got = 0;
  while ((got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0)
    output.text.append(buffer.data(), got);
  const int status = ::pclose(pipe);
  output.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (!output.text.empty() && output.text.back() == '\n') output.text.pop_back();
  return output;
}

class ScratchRepository {
 public:
  ScratchRepository() { git("init -q -b main ."); }

  std::string path() const { return folder_.path().string(); }
  std::string operator/(std::string_view name) const { return folder_ / name; }
  const ScratchFolder& folder() const { return folder_; }
  void write(std::string_view name, std::string_view bytes) const { folder_.write(name, bytes); }
  void remove(std::string_view name) const { std::filesystem::remove_all(folder_.path() / name); }

  // `git <arguments>` in the repository, without anybody's configuration; fails the test when git fails.
  std::string git(const std::string& arguments) const {
    const CommandOutput output = try_git(arguments);
    EXPECT_EQ(output.status, 0) << "git " << arguments << "\n" << output.text;
    return output.text;
  }
  CommandOutput try_git(const std::string& arguments) const {
    return run_command(
        "cd '" + path() +
        "' && env -i PATH=\"$PATH\" HOME=/nonexistent LC_ALL=C GIT_CONFIG_NOSYSTEM=1 "
        "GIT_CONFIG_GLOBAL=/dev/null "
        "GIT_AUTHOR_NAME=Ada GIT_AUTHOR_EMAIL=ada@example.org GIT_AUTHOR_DATE='2026-01-02T03:04:05Z' "
        "GIT_COMMITTER_NAME=Ada GIT_COMMITTER_EMAIL=ada@example.org "
        "GIT_COMMITTER_DATE='2026-01-02T03:04:05Z' git " +
        arguments);
  }
  // Commits everything in the working folder; the commit's id.
  std::string commit(std::string_view message) const {
    git("add -A");
    git("commit -q --allow-empty -m '" + std::string(message) + "'");
    return git("rev-parse HEAD");
  }

 private:
  ScratchFolder folder_;
};

}  // namespace tessera::stack
