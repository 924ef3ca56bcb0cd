#include "stack/atom/attributes.h"

#include "stack/atom/glob.h"
#include "stack/git/line_diff.h"

namespace tessera::stack {
namespace {

std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> words;
  while (true) {
    const std::size_t begin = line.find_first_not_of(" \t\r\n");
    if (begin == std::string_view::npos) return words;
    line.remove_prefix(begin);
    const std::size_t size = line.find_first_of(" \t\r\n");
    words.push_back(line.substr(0, size));
    line.remove_prefix(size == std::string_view::npos ? line.size() : size);
  }
}

}  // namespace

TextAttributes TextAttributes::read(const Tree& base, const BlobStore& blobs) {
  TextAttributes attributes;
  for (const TreeEntry& entry :
       base.entries) {  // sorted: "a/.gitattributes" comes before "a/b/.gitattributes"
    const std::string_view path = entry.path;
    if (path != ".gitattributes" && !path.ends_with("/.gitattributes")) continue;
    if (entry.unreadable || entry.size > (1u << 20)) continue;
    const auto bytes = blobs.read(entry.oid);
    if (!bytes) continue;
    const std::string folder(path.substr(0, path.size() - std::string_view(".gitattributes").size()));
    for (const std::string_view line : split_lines(*bytes)) {
      const auto words = words_of(line);
      if (words.size() < 2 || words[0].starts_with('#') || words[0].starts_with("[attr]")) continue;
      std::string glob(words[0]);
      // As in .gitignore: a pattern without a slash matches a name in any folder below.
      const bool anchored = glob.find('/') != std::string::npos;
      if (glob.starts_with('/')) glob.erase(0, 1);
      if (!anchored) glob = "**/" + glob;
      for (std::size_t i = 1; i < words.size(); ++i) {
        const std::string_view word = words[i];
        if (word == "binary" || word == "-diff") attributes.rules_.push_back({folder, glob, false});
        if (word == "diff" || word.starts_with("diff=")) attributes.rules_.push_back({folder, glob, true});
      }
    }
  }
  return attributes;
}

std::optional<bool> TextAttributes::is_text(std::string_view path) const {
  std::optional<bool> answer;
  for (const Rule& rule : rules_) {
    if (path.starts_with(rule.folder) && glob_matches(rule.glob, path.substr(rule.folder.size())))
      answer = rule.text;
  }
  return answer;
}

}  // namespace tessera::stack
