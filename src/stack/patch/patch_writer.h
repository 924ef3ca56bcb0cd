// Writes the difference of two states of one path as git would, so that `git am`, `git apply` and quilt take
// it back exactly.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "stack/tree.h"

namespace tessera::stack {

// One side of a path; the bytes are borrowed. For a submodule they are empty and `oid` is its commit.
struct PathState {
  FileMode mode = FileMode::kFile;
  Oid oid{};
  std::string_view bytes{};
};

struct PatchStyle {
  int context = 3;
  bool git_headers =
      true;  // false: plain ---/+++ for quilt, which cannot say modes, symlinks or binary contents
};

// Empty when both sides are equal. A change of type (file to symlink) is a deletion and a creation, in that
// order, as git has it.
std::string write_file_patch(std::string_view path, const std::optional<PathState>& before,
                             const std::optional<PathState>& after, const PatchStyle& style = {});

// Two texts' hunks alone, without a file's header; empty when they are equal.
std::string unified_hunks(std::string_view before, std::string_view after, int context);

// Whether the difference can be said without git's headers: text on both sides, no mode, no symlink.
bool is_plain_text_change(const std::optional<PathState>& before, const std::optional<PathState>& after);

}  // namespace tessera::stack
