#include "stack/suggest/code_owners.h"

#include <algorithm>

#include "stack/atom/glob.h"

namespace tessera::stack {
namespace {

// A pattern in the manner of .gitignore as globs over whole paths. A folder's name means all below it.
std::vector<std::string> globs_of(std::string pattern) {
  const bool is_anchored = pattern.find('/') + 1 < pattern.size() && pattern.find('/') != std::string::npos;
  if (pattern.starts_with('/')) pattern.erase(0, 1);
  if (pattern.empty()) return {"**"};
  const bool is_folder = pattern.ends_with('/');
  if (is_folder) pattern.pop_back();
  if (!is_anchored) pattern = "**/" + pattern;
  std::vector<std::string> globs = {pattern + "/**"};
  if (!is_folder) globs.push_back(pattern);
  std::erase_if(globs, [](const std::string& glob) { return !check_glob(glob).ok(); });
  return globs;
}

}  // namespace

CodeOwners CodeOwners::read(const Tree& base, const BlobStore& blobs) {
  for (const char* path : {".github/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS"}) {
    const TreeEntry* entry = base.find(path);
    if (entry == nullptr || entry->unreadable || entry->mode == FileMode::kGitlink) continue;
    if (const auto text = blobs.read(entry->oid)) return CodeOwners(*text);
  }
  return CodeOwners("");
}

CodeOwners::CodeOwners(std::string_view text) {
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    line = line.substr(0, line.find('#'));
    std::vector<std::string> words(1);
    for (const char c : line) {
      if (c != ' ' && c != '\t' && c != '\r')
        words.back() += c;
      else if (!words.back().empty())
        words.emplace_back();
    }
    if (words.back().empty()) words.pop_back();
    if (words.empty()) continue;
    std::string owners;
    for (std::size_t i = 1; i < words.size(); ++i) owners += (i == 1 ? "" : " ") + words[i];
    rules_.push_back({globs_of(words[0]), std::move(owners)});  // without owners it frees the path
  }
}

std::string CodeOwners::of(std::string_view path) const {
  for (auto rule = rules_.rbegin(); rule != rules_.rend(); ++rule) {
    for (const std::string& glob : rule->globs) {
      if (glob_matches(glob, path)) return rule->owners;
    }
  }
  return {};
}

}  // namespace tessera::stack
