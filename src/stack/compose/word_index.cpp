#include "stack/compose/word_index.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <unordered_set>

#include "stack/plan/plan_file.h"

namespace tessera::stack {
namespace {

constexpr std::uint64_t kLargestFile = 1u << 20;  // bytes; larger ones are data
constexpr std::string_view kMagic = "words1\n";

// FNV-1a. Two names with one hash would hide a dependency; over a million names that happens once in 30
// million trees.
std::uint64_t hash_of(std::string_view word) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : word) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

}  // namespace

WordIndex WordIndex::of(const Tree& tree, const Repository& repository, const StageProgress& progress) {
  WordIndex index;
  const std::string folder = repository.path() + "tessera-stack/";
  const std::string path = folder + "words-" + tree.digest.substr(tree.digest.find(':') + 1);
  if (const auto cached = load_text(path);
      cached && cached->starts_with(kMagic) && (cached->size() - kMagic.size()) % 8 == 0) {
    index.hashes_.resize((cached->size() - kMagic.size()) / 8);
    if (index.hashes_.empty()) return index;  // a tree without words; memcpy takes no null
    std::memcpy(index.hashes_.data(), cached->data() + kMagic.size(), index.hashes_.size() * 8);
    return index;
  }
  std::unordered_set<std::uint64_t> seen;
  Stage stage(progress, "names of the base", tree.entries.size());
  for (const TreeEntry& entry : tree.entries) {
    stage.step();
    if (entry.unreadable || entry.size > kLargestFile || entry.mode == FileMode::kGitlink ||
        entry.mode == FileMode::kSymlink)
      continue;
    const auto bytes = repository.read(entry.oid);
    if (!bytes || std::string_view(*bytes).substr(0, 8000).find('\0') != std::string_view::npos) continue;
    for_each_word(*bytes, [&](std::string_view word, std::size_t) { seen.insert(hash_of(word)); });
    // A module is known by its file name too.
    for_each_word(entry.path, [&](std::string_view word, std::size_t) { seen.insert(hash_of(word)); });
  }
  index.hashes_.assign(seen.begin(), seen.end());
  std::ranges::sort(index.hashes_);
  std::string text(kMagic);
  text.append(reinterpret_cast<const char*>(index.hashes_.data()), index.hashes_.size() * 8);
  std::error_code ignored;
  std::filesystem::create_directories(folder, ignored);
  (void)save_text(path, text).ok();  // a cache that cannot be written is built again next time
  return index;
}

bool WordIndex::contains(std::string_view word) const {
  return std::ranges::binary_search(hashes_, hash_of(word));
}

}  // namespace tessera::stack
