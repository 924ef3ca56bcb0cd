#include "stack/patch/patch_reader.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "stack/git/line_diff.h"
#include "stack/object/printable.h"
#include "stack/patch/binary_patch.h"
#include "stack/patch/path_quote.h"

namespace tessera::stack {
namespace {

std::string_view without_end(std::string_view line) {
  if (line.ends_with('\n')) line.remove_suffix(1);
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::optional<std::int64_t> take_number(std::string_view& text) {
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || value < 0 || text.empty() || text[0] == '-') return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return value;
}

// "12,3" or "12".
bool take_range(std::string_view& text, std::int64_t& start, std::int64_t& count) {
  const auto first = take_number(text);
  if (!first) return false;
  start = *first;
  count = 1;
  if (!text.starts_with(',')) return true;
  text.remove_prefix(1);
  const auto second = take_number(text);
  if (!second) return false;
  count = *second;
  return true;
}

std::optional<Hunk> hunk_header(std::string_view line) {
  Hunk hunk;
  if (!line.starts_with("@@ -")) return std::nullopt;
  line.remove_prefix(4);
  if (!take_range(line, hunk.old_start, hunk.old_count) || !line.starts_with(" +")) return std::nullopt;
  line.remove_prefix(2);
  if (!take_range(line, hunk.new_start, hunk.new_count) || !line.starts_with(" @@")) return std::nullopt;
  line.remove_prefix(3);
  if (line.starts_with(' ')) line.remove_prefix(1);
  hunk.section = line;
  return hunk;
}

std::optional<FileMode> mode_from(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, FileMode>, 4> kModes = {{{"100644", FileMode::kFile},
                                                                            {"100755", FileMode::kExecutable},
                                                                            {"120000", FileMode::kSymlink},
                                                                            {"160000", FileMode::kGitlink}}};
  for (const auto& [name, mode] : kModes) {
    if (name == text) return mode;
  }
  return std::nullopt;
}

// A name of a "---" or "+++" line: quoted, or up to a tab (behind which a date may stand).
std::string header_name(std::string_view text) {
  if (const auto unquoted = unquote_path(text)) return unquoted->path;
  return std::string(text.substr(0, text.find('\t')));
}

std::string_view without_first_folder(std::string_view path) {
  const std::size_t slash = path.find('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
}

// The two names of "diff --git", which are ambiguous when they hold blanks: cut where both sides name one
// file.
struct GitNames {
  std::string old_path;
  std::string new_path;
  bool has_prefix = true;
};

std::optional<GitNames> git_names(std::string_view text) {
  const auto accept = [](std::string_view left, std::string_view right) -> std::optional<GitNames> {
    if (left == right) return GitNames{std::string(left), std::string(right), false};
    const std::string_view a = without_first_folder(left), b = without_first_folder(right);
    if (a.empty() || b.empty()) return std::nullopt;
    return GitNames{std::string(a), std::string(b), true};
  };
  if (text.starts_with('"')) {
    const auto left = unquote_path(text);
    if (!left || left->length + 1 >= text.size()) return std::nullopt;
    const std::string_view rest = text.substr(left->length + 1);
    const auto right = unquote_path(rest);
    return accept(left->path, right ? right->path : std::string(rest));
  }
  // Views and slashes found once: a hostile line has half as many cuts as bytes.
  std::optional<GitNames> any;
  const std::size_t first_slash = text.find('/');
  std::size_t next_slash = first_slash;  // the first one behind the cut
  for (std::size_t blank = text.find(' '); blank != std::string_view::npos;
       blank = text.find(' ', blank + 1)) {
    const std::string_view rest = text.substr(blank + 1);
    const auto right = unquote_path(rest);
    if (right && right->length != rest.size()) continue;
    const std::string_view left = text.substr(0, blank), name = right ? std::string_view(right->path) : rest;
    if (left == name) return GitNames{std::string(left), std::string(name), false};
    if (next_slash < blank) next_slash = text.find('/', blank);
    std::string_view old_path, new_path;
    if (first_slash < blank) old_path = left.substr(first_slash + 1);
    if (right) {
      new_path = without_first_folder(name);
    } else if (next_slash != std::string_view::npos) {
      new_path = text.substr(next_slash + 1);
    }
    if (old_path.empty() || new_path.empty()) continue;
    if (old_path == new_path || !any) any = GitNames{std::string(old_path), std::string(new_path), true};
    if (old_path == new_path) return any;
  }
  return any;
}

class PatchReader {
 public:
  PatchReader(std::string_view text, const std::string& where, const PatchLimits& limits)
      : lines_(split_lines(text)), where_(where), limits_(limits) {}

  Result<PatchFile> run() {
    while (at_ < lines_.size()) {
      const std::string_view line = current();
      if (line.starts_with("diff --git ")) {
        TS_TRY(git_file());
      } else if (begins_plain_file()) {
        TS_TRY(plain_file());
      } else if (line.starts_with("diff --cc ") || line.starts_with("diff --combined ")) {
        return Error{ErrorKind::kUnsupported, place(),
                     "This is the combined diff of a merge, which cannot be applied."};
      } else {
        ++at_;
      }
    }
    if (out_.files.empty()) {
      return Error{ErrorKind::kInvalidArgument, where_,
                   "It is prose, no diff: no file header and no hunk is inside."};
    }
    return std::move(out_);
  }

 private:
  std::string_view current() const {
    return at_ < lines_.size() ? without_end(lines_[at_]) : std::string_view();
  }
  std::string place() const { return where_ + ':' + std::to_string(at_ + 1); }
  std::int32_t line_number() const { return static_cast<std::int32_t>(at_ + 1); }

  // "--- x", "+++ y", "@@ …" in a row; a "---" alone is a mail's separator or prose.
  bool begins_plain_file() const {
    return at_ + 2 < lines_.size() && lines_[at_].starts_with("--- ") &&
           lines_[at_ + 1].starts_with("+++ ") && hunk_header(without_end(lines_[at_ + 2])).has_value();
  }

  Result<void> plain_file() {
    FilePatch file{.patch_line = line_number()};
    std::string old_name = header_name(current().substr(4));
    ++at_;
    std::string new_name = header_name(current().substr(4));
    ++at_;
    const bool prefixed = (old_name.starts_with("a/") || old_name == "/dev/null") &&
                          (new_name.starts_with("b/") || new_name == "/dev/null");
    const auto clean = [&](const std::string& name) -> std::string {
      if (name == "/dev/null") return {};
      return prefixed ? name.substr(2) : name;
    };
    file.old_path = clean(old_name);
    file.new_path = clean(new_name);
    // `diff -u x.orig x`: the new name is the file's.
    if (!file.old_path.empty() && !file.new_path.empty()) file.old_path = file.new_path;
    return finish(std::move(file));
  }

  Result<void> git_file() {
    FilePatch file{.patch_line = line_number()};
    const auto names = git_names(current().substr(11));
    ++at_;
    if (names) {
      file.old_path = names->old_path;
      file.new_path = names->new_path;
    }
    const bool has_prefix = !names || names->has_prefix;
    bool created = false, deleted = false;
    for (; at_ < lines_.size(); ++at_) {
      const std::string_view line = current();
      const auto value = [&](std::string_view key) -> std::optional<std::string_view> {
        if (!line.starts_with(key)) return std::nullopt;
        return line.substr(key.size());
      };
      const auto whole = [](std::string_view text) {
        const auto unquoted = unquote_path(text);
        return unquoted ? unquoted->path : std::string(text);
      };
      if (const auto text = value("old mode ")) {
        file.old_mode = mode_from(*text);
      } else if (const auto text2 = value("new mode ")) {
        file.new_mode = mode_from(*text2);
      } else if (const auto text3 = value("new file mode ")) {
        created = true;
        file.new_mode = mode_from(*text3);
      } else if (const auto text4 = value("deleted file mode ")) {
        deleted = true;
        file.old_mode = mode_from(*text4);
      } else if (const auto from = value("rename from ")) {
        file.is_rename = true;
        file.old_path = whole(*from);
      } else if (const auto to = value("rename to ")) {
        file.new_path = whole(*to);
      } else if (const auto copy_from = value("copy from ")) {
        file.is_copy = true;
        file.old_path = whole(*copy_from);
      } else if (const auto copy_to = value("copy to ")) {
        file.new_path = whole(*copy_to);
      } else if (const auto index = value("index ")) {
        read_index(*index, file);
      } else if (!line.starts_with("similarity index ") && !line.starts_with("dissimilarity index ")) {
        break;
      }
    }
    if (current().starts_with("--- ") && at_ + 1 < lines_.size() && lines_[at_ + 1].starts_with("+++ ")) {
      const std::string old_name = header_name(current().substr(4));
      ++at_;
      const std::string new_name = header_name(current().substr(4));
      ++at_;
      const auto clean = [&](const std::string& name) {
        return has_prefix ? std::string(without_first_folder(name)) : name;
      };
      // These names are not ambiguous; renames and copies have said theirs already.
      if (!file.is_rename && !file.is_copy) {
        if (old_name != "/dev/null") file.old_path = clean(old_name);
        if (new_name != "/dev/null") file.new_path = clean(new_name);
      }
      created = created || old_name == "/dev/null";
      deleted = deleted || new_name == "/dev/null";
    } else if (current() == "GIT binary patch") {
      ++at_;
      file.is_binary = true;
      TS_TRY(file.forward, binary_block());
      TS_TRY(file.backward, binary_block());
    } else if (current().starts_with("Binary files ") && current().ends_with(" differ")) {
      file.is_binary = true;
      out_.warnings.push_back(
          where_ + ":" + std::to_string(at_ + 1) + ": " + printable(file.path()) +
          " is binary and its bytes are not in the patch; make it again with git diff --binary.");
      ++at_;
    }
    if (created) file.old_path.clear();
    if (deleted) file.new_path.clear();
    if (file.path().empty()) {
      return Error{ErrorKind::kCorrupt, where_ + ":" + std::to_string(file.patch_line),
                   "This header names no file."};
    }
    return finish(std::move(file));
  }

  static void read_index(std::string_view text, FilePatch& file) {
    const std::size_t dots = text.find("..");
    if (dots == std::string_view::npos) return;
    file.old_id = text.substr(0, dots);
    const std::string_view rest = text.substr(dots + 2);
    const std::size_t blank = rest.find(' ');
    file.new_id = rest.substr(0, blank);
    if (blank == std::string_view::npos) return;
    const auto mode = mode_from(rest.substr(blank + 1));  // stands here when it did not change
    if (!file.old_mode) file.old_mode = mode;
    if (!file.new_mode) file.new_mode = mode;
  }

  Result<std::optional<BinaryChange>> binary_block() {
    BinaryChange change;
    std::string_view line = current();
    if (line.starts_with("delta ")) {
      change.is_delta = true;
    } else if (!line.starts_with("literal ")) {
      return std::optional<BinaryChange>();
    }
    line.remove_prefix(line.find(' ') + 1);
    const auto size = take_number(line);
    if (!size || static_cast<std::uint64_t>(*size) > limits_.binary_bytes) {
      return Error{ErrorKind::kTooLarge, place(),
                   "This binary content states no size, or one over the limit."};
    }
    ++at_;
    std::string packed;
    for (; at_ < lines_.size() && !current().empty(); ++at_) {
      const std::string_view row = current();
      // The first character is the number of bytes: A to Z are 1 to 26, a to z 27 to 52.
      const char lead = row[0];
      const std::size_t bytes = lead >= 'A' && lead <= 'Z'   ? static_cast<std::size_t>(lead - 'A') + 1
                                : lead >= 'a' && lead <= 'z' ? static_cast<std::size_t>(lead - 'a') + 27
                                                             : 0;
      auto decoded =
          bytes == 0
              ? Result<std::string>(Error{ErrorKind::kCorrupt, "", "This is no line of a binary patch."})
              : decode_base85(row.substr(1), bytes);
      if (!decoded) return Error{ErrorKind::kCorrupt, place(), decoded.error().what};
      packed += *decoded;
    }
    if (at_ < lines_.size()) ++at_;  // the empty line
    auto inflated = inflate_exactly(packed, static_cast<std::uint64_t>(*size));
    if (!inflated) return Error{ErrorKind::kCorrupt, place(), inflated.error().what};
    change.bytes = *std::move(inflated);
    return std::optional<BinaryChange>(std::move(change));
  }

  Result<void> finish(FilePatch file) {
    while (at_ < lines_.size()) {
      auto header = hunk_header(current());
      if (!header) break;
      header->patch_line = line_number();
      ++at_;
      TS_TRY(hunk_body(*header));
      file.hunks.push_back(*std::move(header));
    }
    out_.files.push_back(std::move(file));
    return {};
  }

  // Counts decide where a hunk ends: a removed line may look like a signature ("-- ") or like a header ("---
  // x").
  Result<void> hunk_body(Hunk& hunk) {
    std::int64_t old_left = hunk.old_count, new_left = hunk.new_count;
    while (old_left > 0 || new_left > 0) {
      if (at_ >= lines_.size()) return short_hunk(hunk, old_left, new_left);
      const std::string_view line = lines_[at_];
      // An empty context line may have lost its blank to a mailer.
      const char sign = line == "\n" || line == "\r\n" ? ' ' : line[0];
      const std::string_view text = line == "\n" || line == "\r\n" ? line : line.substr(1);
      if (sign == '\\') {
        if (!drop_line_end(hunk)) return short_hunk(hunk, old_left, new_left);
        ++at_;
        continue;
      }
      if (sign != ' ' && sign != '-' && sign != '+') return short_hunk(hunk, old_left, new_left);
      if (sign != '+' && --old_left < 0) return short_hunk(hunk, old_left, new_left);
      if (sign != '-' && --new_left < 0) return short_hunk(hunk, old_left, new_left);
      hunk.lines.push_back({sign, std::string(text)});
      ++at_;
    }
    if (at_ < lines_.size() && lines_[at_].starts_with("\\ ")) {
      drop_line_end(hunk);
      ++at_;
    }
    return {};
  }

  // "\ No newline at end of file" speaks of the line before it.
  static bool drop_line_end(Hunk& hunk) {
    if (hunk.lines.empty()) return false;
    std::string& text = hunk.lines.back().text;
    if (text.ends_with('\n')) text.pop_back();
    return true;
  }

  Error short_hunk(const Hunk& hunk, std::int64_t old_left, std::int64_t new_left) const {
    return Error{ErrorKind::kCorrupt, where_ + ":" + std::to_string(at_ + 1),
                 "The hunk of line " + std::to_string(hunk.patch_line) + " announces " +
                     std::to_string(hunk.old_count) + " old and " + std::to_string(hunk.new_count) +
                     " new lines; here it ends with " + std::to_string(old_left) + " and " +
                     std::to_string(new_left) + " to go."};
  }

  const std::vector<std::string_view> lines_;
  const std::string& where_;
  const PatchLimits& limits_;
  std::size_t at_ = 0;
  PatchFile out_;
};

}  // namespace

Result<PatchFile> read_patch(std::string_view text, const std::string& where, const PatchLimits& limits) {
  return PatchReader(text, where, limits).run();
}

}  // namespace tessera::stack
