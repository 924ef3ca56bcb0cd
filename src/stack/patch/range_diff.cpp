#include "stack/patch/range_diff.h"

#include "stack/object/printable.h"
#include "stack/patch/patch_reader.h"
#include "stack/patch/patch_writer.h"

namespace tessera::stack {
namespace {

std::string mode_word(const FilePatch& file) {
  if (file.old_path.empty()) return " (new)";
  if (file.new_path.empty()) return " (deleted)";
  if (file.old_mode && file.new_mode && *file.old_mode != *file.new_mode) return " (mode)";
  return "";
}

void add_file(const FilePatch& file, std::string& out) {
  out += " ## " + printable(file.path()) + mode_word(file) + " ##\n";
  if (file.is_binary) out += " binary " + file.old_id + ".." + file.new_id + "\n";
  for (const Hunk& hunk : file.hunks) {
    out += "@@" + (hunk.section.empty() ? "" : " " + printable(hunk.section)) + "\n";
    for (const HunkLine& line : hunk.lines) {
      out += line.sign + line.text;
      if (!line.text.ends_with('\n')) out += "\n\\ No newline at end of file\n";
    }
  }
}

}  // namespace

Result<std::string> normal_version(const TopicVersion& version) {
  std::string out = " ## Commit message ##\n";
  std::size_t at = 0;
  while (at < version.message.size()) {
    const std::size_t end = std::min(version.message.find('\n', at), version.message.size());
    out += "    " + version.message.substr(at, end - at) + "\n";
    at = end + 1;
  }
  if (version.patch.empty()) return out;
  TS_TRY(const PatchFile patch, read_patch(version.patch, "topic"));
  for (const FilePatch& file : patch.files) add_file(file, out);
  return out;
}

Result<std::string> range_diff(const TopicVersion& before, const TopicVersion& after) {
  TS_TRY(const std::string old_text, normal_version(before));
  TS_TRY(const std::string new_text, normal_version(after));
  return printable_text(unified_hunks(old_text, new_text, 3));
}

}  // namespace tessera::stack
