// A patch file as data: what a unified diff with git's extended headers says, byte for byte, before anybody
// asks where it fits.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "stack/tree.h"

namespace tessera::stack {

struct HunkLine {
  char sign = ' ';   // ' ', '-' or '+'
  std::string text;  // with its line end; without one only at the end of a file
  friend bool operator==(const HunkLine&, const HunkLine&) = default;
};

struct Hunk {
  std::int64_t old_start = 0;  // counted from 1; with old_count 0 the line after which (0: before the first)
  std::int64_t old_count = 0;
  std::int64_t new_start = 0;
  std::int64_t new_count = 0;
  std::string section{};  // text behind the second @@; evidence, never identity
  std::vector<HunkLine> lines{};
  std::int32_t patch_line = 0;  // of its header in the patch file, from 1

  // The lines of one side, context included.
  std::vector<std::string> side(char sign) const;
};

// One direction of a "GIT binary patch".
struct BinaryChange {
  bool is_delta = false;
  std::string bytes{};  // the new content, or git's delta instructions, inflated
  friend bool operator==(const BinaryChange&, const BinaryChange&) = default;
};

struct FilePatch {
  std::string old_path{};  // empty: the file is created
  std::string new_path{};  // empty: the file is deleted
  std::optional<FileMode> old_mode{};
  std::optional<FileMode> new_mode{};
  std::string old_id{};  // of the index line, possibly shortened; empty when there is none; all zeros: absent
  std::string new_id{};
  bool is_rename = false;
  bool is_copy = false;
  bool is_binary = false;
  std::optional<BinaryChange> forward{};  // absent for "Binary files differ", which carries nothing
  std::optional<BinaryChange> backward{};
  std::vector<Hunk> hunks{};
  std::int32_t patch_line = 0;  // where it begins in the patch file, from 1

  const std::string& path() const { return new_path.empty() ? old_path : new_path; }
};

struct PatchFile {
  std::vector<FilePatch> files{};
  std::vector<std::string> warnings{};  // full sentences; printable
};

// What undoes it.
FilePatch reversed(const FilePatch& patch);

}  // namespace tessera::stack
