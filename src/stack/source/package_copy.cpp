#include "stack/source/package_copy.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "stack/object/printable.h"

namespace tessera::stack {
namespace {

constexpr std::int64_t kLeastMatches = 3;
constexpr std::int64_t kLeastSharePercent =
    10;  // of the tree's files: an installed package lacks tests, docs and sources of extensions
constexpr std::int64_t kLeastSamePercent = 60;
constexpr std::size_t kPathsShown = 20;

struct Match {
  std::string_view relative;  // path in the tree
  bool same;
};

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string::npos ? std::string() : path.substr(0, slash);
}
std::string name_of_path(const std::string& path) { return path.substr(path.rfind('/') + 1); }
std::string joined(const std::string& folder, const std::string& rest) {
  return folder.empty() ? rest : rest.empty() ? folder : folder + '/' + rest;
}
bool is_site_folder(const std::string& path) {
  return path.ends_with("/site-packages") || path.ends_with("/dist-packages");
}

std::optional<Oid> oid_of(const CopySearch& search, const MergedEntry& entry) {
  if (entry.kind != TarKind::kFile || !entry.unreadable.empty()) return std::nullopt;
  const LayerEntry& content =
      search.listings[static_cast<std::size_t>(entry.place.layer)]->entries[entry.place.entry];
  if (!content.hashed) return std::nullopt;
  return content.oid;
}

// Every file elsewhere votes, for each of its path's endings that the tree has too, for the folder in front
// of that ending.
std::map<std::string, std::vector<Match>> votes(const CopySearch& search) {
  std::unordered_map<std::string_view, const TreeEntry*> by_path;
  for (const TreeEntry& entry : search.tree.entries) {
    if (entry.mode != FileMode::kSymlink) by_path.emplace(entry.path, &entry);
  }
  std::map<std::string, std::vector<Match>> out;
  const std::string inside = search.root + '/';
  for (const auto& [path, entry] : search.merged.paths) {
    if (entry.kind != TarKind::kFile || search.root.empty() || path.starts_with(inside)) continue;
    std::optional<Oid> oid;
    for (std::size_t at = 0; at != std::string::npos && at < path.size();) {
      const auto found = by_path.find(std::string_view(path).substr(at));
      if (found != by_path.end()) {
        if (!oid) oid = oid_of(search, entry);
        if (oid)
          out[path.substr(0, at == 0 ? 0 : at - 1)].push_back({found->first, *oid == found->second->oid});
      }
      const std::size_t slash = path.find('/', at);
      at = slash == std::string::npos ? slash : slash + 1;
    }
  }
  return out;
}

// The deepest folder that holds nine tenths of the matches: "vllm" when a checkout is compared with its
// installed package.
std::string shared_folder(const std::vector<Match>& matches) {
  std::string folder;
  while (true) {
    std::map<std::string, std::size_t> counts;
    for (const Match& match : matches) {
      if (!folder.empty() && !match.relative.starts_with(folder + '/')) continue;
      const std::string_view rest = match.relative.substr(folder.empty() ? 0 : folder.size() + 1);
      if (const std::size_t slash = rest.find('/'); slash != std::string_view::npos)
        ++counts[std::string(rest.substr(0, slash))];
    }
    const auto most = std::max_element(counts.begin(), counts.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most == counts.end() || most->second * 10 < matches.size() * 9) return folder;
    folder = joined(folder, most->first);
  }
}

// The .pth file or editable finder that puts `folder` on Python's path, if there is one.
std::string who_adds(const CopySearch& search, const std::string& folder) {
  for (const auto& [path, entry] : search.merged.paths) {
    if (entry.kind != TarKind::kFile || !entry.unreadable.empty()) continue;
    const std::string& text =
        search.listings[static_cast<std::size_t>(entry.place.layer)]->entries[entry.place.entry].text;
    const std::size_t at = text.find('/' + folder);
    if (at == std::string::npos || name_of_path(path) == "direct_url.json") continue;
    const std::size_t end = at + 1 + folder.size();
    const bool whole =
        end == text.size() || std::string_view("\n\r'\"/ ,").find(text[end]) != std::string_view::npos;
    if (whole) return path;
  }
  return {};
}

std::string preference(const CopySearch& search, const std::string& ours, const std::string& theirs) {
  const std::string package = name_of_path(theirs);
  const std::string our_parent = parent_of(ours), their_parent = parent_of(theirs);
  if (name_of_path(ours) != package || !search.merged.paths.contains(theirs + "/__init__.py")) return {};
  std::string out;
  for (const std::string& variable : search.env) {
    if (!variable.starts_with("PYTHONPATH=")) continue;
    std::string_view rest = std::string_view(variable).substr(11);
    while (!rest.empty()) {
      const std::string_view item = rest.substr(0, rest.find(':'));
      rest.remove_prefix(std::min(rest.size(), item.size() + 1));
      const std::string folder = clean_path(item).value_or("");
      if (folder != our_parent && folder != their_parent) continue;
      out = "With the image's PYTHONPATH Python imports " + printable(package) + " from /" +
            printable(folder == our_parent ? ours : theirs) + ". ";
      break;
    }
  }
  const bool ours_is_site = is_site_folder(our_parent), theirs_is_site = is_site_folder(their_parent);
  if (ours_is_site != theirs_is_site) {
    const std::string& winner = ours_is_site ? ours : theirs;
    const std::string& loser_parent = ours_is_site ? their_parent : our_parent;
    out += "Without PYTHONPATH it imports /" + printable(winner) +
           ", which stands in a folder of sys.path itself";
    const std::string adder = who_adds(search, loser_parent);
    out += adder.empty()
               ? "; nothing adds /" + printable(loser_parent) + "."
               : "; /" + printable(adder) + " adds /" + printable(loser_parent) + " only behind it.";
    if (clean_path(search.working_dir).value_or("") == loser_parent && !loser_parent.empty()) {
      out += " But python -m and python -c, started in the image's working folder /" +
             printable(loser_parent) + ", take that folder first.";
    }
  }
  while (out.ends_with(' ')) out.pop_back();
  return out;
}

}  // namespace

std::vector<PackageCopy> find_copies(const CopySearch& search) {
  std::vector<PackageCopy> out;
  const auto files = static_cast<std::int64_t>(search.tree.entries.size());
  for (const auto& [folder, matches] : votes(search)) {
    const auto count = static_cast<std::int64_t>(matches.size());
    if (count < kLeastMatches || count * 100 < files * kLeastSharePercent) continue;
    const std::string part = shared_folder(matches);
    PackageCopy copy{.path = joined(folder, part), .of = part};
    // A folder that contains the tree votes for itself through the tree's other copies; what lies around us
    // is no copy.
    if (search.root == copy.path || search.root.starts_with(copy.path + '/')) continue;
    for (const Match& match : matches) {
      const bool in_part = part.empty() || match.relative.starts_with(part + '/');
      if (!in_part) continue;
      ++(match.same ? copy.same : copy.different);
      if (!match.same && copy.different_paths.size() < kPathsShown) {
        copy.different_paths.emplace_back(match.relative.substr(part.empty() ? 0 : part.size() + 1));
      }
    }
    if (copy.same * 100 < (copy.same + copy.different) * kLeastSamePercent) continue;
    copy.preference = preference(search, joined(search.root, part), copy.path);
    out.push_back(std::move(copy));
  }
  std::sort(out.begin(), out.end(),
            [](const PackageCopy& a, const PackageCopy& b) { return a.path < b.path; });
  return out;
}

}  // namespace tessera::stack
