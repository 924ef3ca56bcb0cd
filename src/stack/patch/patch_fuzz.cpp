// Any bytes as a patch file: no crash; what is read can be placed and reversed; reversing twice changes
// nothing.
#include <cstdint>

#include "base/check.h"
#include "stack/git/libgit2.h"
#include "stack/patch/patch_reader.h"
#include "stack/patch/placement.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace tessera::stack;
  // Kept started: each line difference would otherwise start libgit2, and with it OpenSSL, anew (20 ms).
  static const GitLibrary library;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto patch = read_patch(text, "fuzz", {.binary_bytes = 1 << 16});
  if (!patch) return 0;
  for (const FilePatch& file : patch->files) {
    std::string old_side;
    for (const Hunk& hunk : file.hunks) {
      TS_CHECK(static_cast<std::int64_t>(hunk.side('-').size()) == hunk.old_count, hunk.old_count);
      TS_CHECK(static_cast<std::int64_t>(hunk.side('+').size()) == hunk.new_count, hunk.new_count);
      for (const std::string& line : hunk.side('-')) old_side += line;
    }
    const FilePlacement placed = place_hunks(file, old_side);
    TS_CHECK(placed.hunks.size() == file.hunks.size(), placed.hunks.size());
    (void)place_hunks(reversed(file), old_side, old_side);
    (void)apply_exactly(file, old_side);
  }
  return 0;
}
