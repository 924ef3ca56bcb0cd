#include "stack/source/layer_stack.h"

#include <algorithm>
#include <deque>

#include "stack/object/printable.h"

namespace tessera::stack {
namespace {

constexpr int kMaxHops = 40;  // as the kernel's own limit
constexpr std::size_t kNotesPerKind = 5;

class Merge {
 public:
  void add(const LayerListing& layer, std::int32_t index) {
    layer_ = index;
    // Marks first: they speak of lower layers, whatever their position among this layer's entries.
    for (const std::string& folder : layer.opaque) clear_below(folder);
    for (const std::string& path : layer.whiteouts) remove(path);
    for (std::size_t i = 0; i < layer.entries.size(); ++i) put(layer.entries[i], i);
  }

  MergedTree finish() {
    if (replaced_links_ > kNotesPerKind) {
      tree_.notes.push_back(std::to_string(replaced_links_ - kNotesPerKind) +
                            " more symlinks were replaced by folders.");
    }
    return std::move(tree_);
  }

 private:
  void clear_below(const std::string& folder) {
    if (folder.empty()) {
      tree_.paths.clear();
      return;
    }
    // Children of "a" are the keys that start with "a/"; '0' is the character after '/'.
    tree_.paths.erase(tree_.paths.lower_bound(folder + '/'), tree_.paths.lower_bound(folder + '0'));
    checked_parent_.clear();
  }

  void remove(const std::string& path) {
    clear_below(path);
    tree_.paths.erase(path);
  }

  // Every proper ancestor becomes a folder, if it is something else.
  void make_parents(const std::string& path) {
    const std::size_t slash = path.rfind('/');
    if (slash == std::string::npos) return;
    std::string parent = path.substr(0, slash);
    if (parent == checked_parent_) return;
    for (std::size_t end = parent.find('/');; end = parent.find('/', end + 1)) {
      const auto found = tree_.paths.find(end == std::string::npos ? parent : parent.substr(0, end));
      if (found != tree_.paths.end() && found->second.kind != TarKind::kFolder) {
        if (found->second.kind == TarKind::kSymlink && ++replaced_links_ <= kNotesPerKind) {
          tree_.notes.push_back("Layer " + std::to_string(layer_ + 1) + " writes below " +
                                printable(found->first) + ", which was a symlink to " +
                                printable(found->second.target) +
                                "; it was replaced by a folder, other runtimes may follow the link.");
        }
        found->second = MergedEntry{.kind = TarKind::kFolder, .layer = layer_};
      }
      if (end == std::string::npos) break;
    }
    checked_parent_ = std::move(parent);
  }

  void put(const LayerEntry& entry, std::size_t index) {
    make_parents(entry.path);
    MergedEntry merged{.kind = entry.kind, .executable = entry.executable, .layer = layer_};
    switch (entry.kind) {
      case TarKind::kFile:
        merged.place = {.layer = layer_, .entry = index};
        break;
      case TarKind::kSymlink:
        merged.target = entry.target;
        break;
      case TarKind::kHardlink:
        link(entry, merged);
        break;
      case TarKind::kFolder: {
        const auto found = tree_.paths.find(entry.path);
        if (found != tree_.paths.end() && found->second.kind == TarKind::kFolder) return;
        break;
      }
      case TarKind::kOther:
        return;
    }
    if (merged.kind != TarKind::kFolder) clear_below(entry.path);
    tree_.paths.insert_or_assign(entry.path, std::move(merged));
  }

  void link(const LayerEntry& entry, MergedEntry& merged) const {
    const auto found = tree_.paths.find(entry.target);
    merged.kind = TarKind::kFile;
    if (found == tree_.paths.end() || found->second.kind == TarKind::kFolder) {
      merged.unreadable = "It is a hard link to " + printable(entry.target) +
                          (found == tree_.paths.end() ? ", which does not exist." : ", which is a folder.");
      return;
    }
    const std::int32_t layer = merged.layer;
    merged = found->second;
    merged.layer = layer;
  }

  MergedTree tree_;
  std::int32_t layer_ = 0;
  std::string checked_parent_;  // known to be a folder all the way up; saves most of the look-ups, since
                                // archives go folder by folder
  std::size_t replaced_links_ = 0;
};

}  // namespace

MergedTree merge_layers(const std::vector<const LayerListing*>& layers) {
  Merge merge;
  for (std::size_t i = 0; i < layers.size(); ++i) merge.add(*layers[i], static_cast<std::int32_t>(i));
  return merge.finish();
}

Result<std::string> resolve_inside(const MergedTree& tree, std::string_view path) {
  std::deque<std::string> todo;
  const auto push_front = [&](std::string_view text) {
    std::vector<std::string> parts;
    while (!text.empty()) {
      const std::size_t slash = text.find('/');
      const std::string_view part = text.substr(0, slash);
      if (!part.empty() && part != ".") parts.emplace_back(part);
      text.remove_prefix(slash == std::string_view::npos ? text.size() : slash + 1);
    }
    todo.insert(todo.begin(), parts.begin(), parts.end());
  };
  push_front(path);
  std::string at;
  int hops = 0;
  while (!todo.empty()) {
    const std::string part = todo.front();
    todo.pop_front();
    if (part == "..") {
      const std::size_t slash = at.rfind('/');
      at.erase(slash == std::string::npos ? 0 : slash);
      continue;
    }
    const std::string next = at.empty() ? part : at + '/' + part;
    const auto found = tree.paths.find(next);
    if (found != tree.paths.end() && found->second.kind == TarKind::kSymlink) {
      if (++hops > kMaxHops) {
        return Error{
            ErrorKind::kInvalidArgument, printable(path),
            "More than 40 symlinks were followed; they probably form a loop at " + printable(next) + "."};
      }
      if (found->second.target.starts_with('/')) at.clear();
      push_front(found->second.target);
      continue;
    }
    at = next;
  }
  if (at.empty() || tree.paths.contains(at)) return at;
  // A folder may exist only through its children.
  const auto child = tree.paths.lower_bound(at + '/');
  if (child != tree.paths.end() && child->first.starts_with(at + '/')) return at;
  return Error{ErrorKind::kNotFound, printable(path),
               "No such path is inside the archive" +
                   (at == path ? std::string() : " (looked for " + printable(at) + ")") + "."};
}

}  // namespace tessera::stack
