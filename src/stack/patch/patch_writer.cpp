#include "stack/patch/patch_writer.h"

#include <algorithm>
#include <vector>

#include "stack/git/line_diff.h"
#include "stack/object/digest.h"
#include "stack/object/tree_digest.h"
#include "stack/patch/binary_patch.h"
#include "stack/patch/path_quote.h"

namespace tessera::stack {
namespace {

constexpr std::size_t kTextProbe = 8000;  // where git looks for a NUL
constexpr std::size_t kBase85Line = 52;   // bytes in one line of a binary patch
constexpr std::string_view kNoNewline = "\n\\ No newline at end of file\n";

bool is_regular(const PathState& state) {
  return state.mode == FileMode::kFile || state.mode == FileMode::kExecutable;
}
bool is_binary(const std::optional<PathState>& state) {
  return state && state->mode != FileMode::kGitlink &&
         state->bytes.substr(0, kTextProbe).find('\0') != std::string_view::npos;
}

// A submodule's difference is a text of one line.
std::string text_of(const PathState& state) {
  if (state.mode == FileMode::kGitlink) return "Subproject commit " + to_hex(state.oid) + "\n";
  return std::string(state.bytes);
}

std::string range(std::int32_t begin, std::int32_t count) {
  // With count 0 the line after which; a count of 1 is left out.
  const std::string start = std::to_string(count == 0 ? begin : begin + 1);
  return count == 1 ? start : start + ',' + std::to_string(count);
}

void append_line(std::string& out, char sign, std::string_view line) {
  out += sign;
  if (line.ends_with('\n')) {
    out += line;
  } else {
    out += line;
    out += kNoNewline;
  }
}

std::string written_hunks(std::string_view before, std::string_view after, int context) {
  const std::vector<std::string_view> old_lines = split_lines(before), new_lines = split_lines(after);
  const std::vector<LineChange> changes = diff_lines(before, after);
  std::string out;
  for (std::size_t first = 0; first < changes.size();) {
    // Changes whose contexts touch share a hunk.
    std::size_t last = first;
    while (last + 1 < changes.size() &&
           changes[last + 1].old_begin - (changes[last].old_begin + changes[last].old_count) <= 2 * context) {
      ++last;
    }
    const auto old_size = static_cast<std::int32_t>(old_lines.size());
    const std::int32_t lead = std::min<std::int32_t>(context, changes[first].old_begin);
    const std::int32_t old_begin = changes[first].old_begin - lead;
    const std::int32_t new_begin = changes[first].new_begin - lead;
    const std::int32_t old_end_of_change = changes[last].old_begin + changes[last].old_count;
    const std::int32_t trail = std::min<std::int32_t>(context, old_size - old_end_of_change);
    const std::int32_t old_end = old_end_of_change + trail;
    const std::int32_t new_end = changes[last].new_begin + changes[last].new_count + trail;
    out += "@@ -" + range(old_begin, old_end - old_begin) + " +" + range(new_begin, new_end - new_begin) +
           " @@\n";
    std::int32_t at = old_begin;
    for (std::size_t i = first; i <= last; ++i) {
      const LineChange& change = changes[i];
      for (; at < change.old_begin; ++at) append_line(out, ' ', old_lines[static_cast<std::size_t>(at)]);
      for (; at < change.old_begin + change.old_count; ++at)
        append_line(out, '-', old_lines[static_cast<std::size_t>(at)]);
      for (std::int32_t line = change.new_begin; line < change.new_begin + change.new_count; ++line) {
        append_line(out, '+', new_lines[static_cast<std::size_t>(line)]);
      }
    }
    for (; at < old_end; ++at) append_line(out, ' ', old_lines[static_cast<std::size_t>(at)]);
    first = last + 1;
  }
  return out;
}

std::string literal(std::string_view bytes) {
  std::string out = "literal " + std::to_string(bytes.size()) + "\n";
  const std::string packed = deflate(bytes);
  for (std::size_t at = 0; at < packed.size(); at += kBase85Line) {
    const std::string_view row = std::string_view(packed).substr(at, kBase85Line);
    out += static_cast<char>(row.size() <= 26 ? 'A' + row.size() - 1 : 'a' + row.size() - 27);
    out += encode_base85(row) + "\n";
  }
  return out + "\n";
}

// A name with a blank ends in a tab on its "---" line, so that a date cannot be taken for part of it.
std::string side_line(std::string_view mark, std::string_view prefix, std::string_view path, bool exists) {
  if (!exists) return std::string(mark) + " /dev/null\n";
  const std::string name = quote_path(std::string(prefix) + std::string(path));
  const bool tab = name[0] != '"' && name.find(' ') != std::string::npos;
  return std::string(mark) + ' ' + name + (tab ? "\t\n" : "\n");
}

std::string one_type(std::string_view path, const std::optional<PathState>& before,
                     const std::optional<PathState>& after, const PatchStyle& style) {
  const bool binary = is_binary(before) || is_binary(after);
  const std::string old_text = before ? text_of(*before) : std::string();
  const std::string new_text = after ? text_of(*after) : std::string();
  std::string out;
  if (style.git_headers) {
    const std::string zero(40, '0');
    out += "diff --git " + quote_path("a/" + std::string(path)) + ' ' + quote_path("b/" + std::string(path)) +
           "\n";
    if (!before) out += "new file mode " + mode_text(after->mode) + "\n";
    if (!after) out += "deleted file mode " + mode_text(before->mode) + "\n";
    const bool modes_differ = before && after && before->mode != after->mode;
    if (modes_differ)
      out += "old mode " + mode_text(before->mode) + "\nnew mode " + mode_text(after->mode) + "\n";
    const std::string old_id = before ? to_hex(before->oid) : zero;
    const std::string new_id = after ? to_hex(after->oid) : zero;
    if (old_id != new_id) {
      out += "index " + old_id + ".." + new_id +
             (before && after && !modes_differ ? ' ' + mode_text(after->mode) : "") + "\n";
    }
    if (binary && old_text != new_text)
      return out + "GIT binary patch\n" + literal(new_text) + literal(old_text);
  }
  if (old_text == new_text) return out;
  return out + side_line("---", "a/", path, before.has_value()) +
         side_line("+++", "b/", path, after.has_value()) + written_hunks(old_text, new_text, style.context);
}

bool is_one_type(const PathState& a, const PathState& b) {
  return a.mode == b.mode || (is_regular(a) && is_regular(b));
}

}  // namespace

std::string unified_hunks(std::string_view before, std::string_view after, int context) {
  return written_hunks(before, after, context);
}

std::string write_file_patch(std::string_view path, const std::optional<PathState>& before,
                             const std::optional<PathState>& after, const PatchStyle& style) {
  if (!before && !after) return {};
  if (before && after) {
    if (before->mode == after->mode && before->oid == after->oid) return {};
    if (!is_one_type(*before, *after)) {
      return one_type(path, before, std::nullopt, style) + one_type(path, std::nullopt, after, style);
    }
  }
  return one_type(path, before, after, style);
}

bool is_plain_text_change(const std::optional<PathState>& before, const std::optional<PathState>& after) {
  for (const auto* side : {&before, &after}) {
    if (*side && (!is_regular(**side) || (*side)->mode == FileMode::kExecutable || is_binary(*side)))
      return false;
  }
  if (before && after) return true;
  // Creating or deleting an empty file leaves no hunk to say so.
  return !(before ? before : after)->bytes.empty();
}

}  // namespace tessera::stack
