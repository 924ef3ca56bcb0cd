// For tests: a git repository in a temporary folder, driven by the git program, which is the independent
// judge of what we do.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <string_view>

#if defined(TESSERA_SANITIZED) && defined(__has_feature)
#if __has_feature(address_sanitizer)
#define TESSERA_FINDS_LEAKS
#include <sanitizer/lsan_interface.h>
#endif
#endif

#include "base/scratch_folder.h"
#include "stack/git/run_command.h"

namespace tessera::stack {

// While one of these lives, leaks are not reported: libgit2 1.5 does not free what it matched with when it
// looks at a repository's extensions (git_config_foreach_match).
struct Libgit2ForgetsMatches {
  Libgit2ForgetsMatches() {}
#ifdef TESSERA_FINDS_LEAKS
  __lsan::ScopedDisabler disabler;
#endif
};

// Lines that tell where they were: "line 3\nline 4\n" from 3 to 4.
inline std::string numbered(int from, int to, const std::string& word = "line") {
  std::string out;
  for (int i = from; i <= to; ++i) out += word + " " + std::to_string(i) + "\n";
  return out;
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
