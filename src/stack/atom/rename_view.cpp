#include "stack/atom/rename_view.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "stack/object/printable.h"

namespace tessera::stack {
namespace {

bool is_blank(std::string_view line) { return line.find_first_not_of(" \t\r\n") == std::string_view::npos; }

// How often each line that says anything occurs.
using Bag = std::unordered_map<std::string_view, std::int32_t>;

void add_lines(std::span<const std::string_view> lines, Bag& bag) {
  for (const std::string_view line : lines) {
    if (!is_blank(line)) ++bag[line];
  }
}

// Lines of `a` that `b` holds too, each as often as both have it.
std::int32_t common_lines(const Bag& a, const Bag& b) {
  std::int32_t count = 0;
  for (const auto& [line, times] : a) {
    const auto found = b.find(line);
    if (found != b.end()) count += std::min(times, found->second);
  }
  return count;
}

}  // namespace

std::vector<MovedText> find_moves(const Listing& listing, const BlobStore& blobs,
                                  std::int32_t least_percent) {
  std::vector<MovedText> found;
  std::vector<std::int32_t> deleted;
  for (std::size_t i = 0; i < listing.files.size(); ++i) {
    const FileChange& file = listing.files[i];
    if (!file.after && file.before && file.before->mode != FileMode::kGitlink)
      deleted.push_back(static_cast<std::int32_t>(i));
  }
  if (deleted.empty()) return found;
  std::vector<std::pair<std::int32_t, Bag>> adding;
  for (std::size_t i = 0; i < listing.files.size(); ++i) {
    if (!listing.files[i].is_text) continue;
    Bag bag;
    for (const Atom& atom : listing.atoms_of(listing.files[i])) add_lines(listing.added(atom), bag);
    if (!bag.empty()) adding.emplace_back(static_cast<std::int32_t>(i), std::move(bag));
  }
  for (const std::int32_t from : deleted) {
    const FileChange& gone = listing.files[static_cast<std::size_t>(from)];
    // Equal bytes need no reading, and binary files have nothing else.
    const auto same = std::ranges::find_if(listing.files, [&](const FileChange& file) {
      return !file.before && file.after && file.after->oid == gone.before->oid;
    });
    if (same != listing.files.end()) {
      found.push_back({from, static_cast<std::int32_t>(same - listing.files.begin()), 100, true});
      continue;
    }
    auto bytes = blobs.read(gone.before->oid);
    if (!bytes || bytes->substr(0, 8000).find('\0') != std::string::npos) continue;
    const Text text(*std::move(bytes));
    Bag lines;
    add_lines(text.lines, lines);
    std::int32_t total = 0;
    for (const auto& [line, times] : lines) total += times;
    if (total == 0) continue;
    std::optional<MovedText> best;
    for (const auto& [to, bag] : adding) {
      const std::int32_t percent = 100 * common_lines(lines, bag) / total;
      const bool is_rename = !listing.files[static_cast<std::size_t>(to)].before;
      // A new file is the likelier home.
      const bool is_better =
          !best || percent > best->percent || (percent == best->percent && is_rename && !best->is_rename);
      if (percent >= least_percent && is_better) best = MovedText{from, to, percent, is_rename};
    }
    if (best) found.push_back(*best);
  }
  return found;
}

std::string sentence_of(const MovedText& moved, const Listing& listing) {
  const auto path = [&](std::int32_t at) {
    return printable(listing.files[static_cast<std::size_t>(at)].path);
  };
  return path(moved.from) + " -> " + path(moved.to) + ", " + std::to_string(moved.percent) +
         " percent of its lines";
}

}  // namespace tessera::stack
