// Trees of a Repository: reading them flat, writing them by changes.
#include <map>
#include <ranges>

#include "base/check.h"
#include "stack/git/libgit2.h"
#include "stack/git/repository.h"
#include "stack/git/repository_state.h"
#include "stack/object/digest.h"
#include "stack/object/next_command.h"
#include "stack/object/tree_digest.h"

namespace tessera::stack {
namespace {

constexpr int kDeepest = 256;  // folders in folders; a tree object that nests deeper is hostile

struct Reader {
  git_repository* repository;
  git_odb* odb;
  std::vector<TreeEntry>& entries;
  std::string refetch_command;

  Result<void> add(const git_oid& id, const std::string& prefix, int depth) {
    if (depth > kDeepest) return Error{ErrorKind::kTooLarge, prefix, "Folders nest deeper than 256."};
    git_tree* raw = nullptr;
    if (git_tree_lookup(&raw, repository, &id) != 0) {
      return Error{
          ErrorKind::kNotFound, prefix.empty() ? "/" : prefix,
          with_next("This folder's tree object " + to_hex(from_git(id)) + " is not in the repository",
                    refetch_command)};
    }
    const GitTree tree(raw);
    for (std::size_t i = 0; i < git_tree_entrycount(raw); ++i) {
      const git_tree_entry* entry = git_tree_entry_byindex(raw, i);
      const std::string path = prefix + git_tree_entry_name(entry);
      const git_filemode_t mode = git_tree_entry_filemode(entry);
      const git_oid* oid = git_tree_entry_id(entry);
      if (mode == GIT_FILEMODE_TREE) {
        TS_TRY(add(*oid, path + '/', depth + 1));
        continue;
      }
      TreeEntry out{.path = path, .mode = static_cast<FileMode>(mode), .oid = from_git(*oid)};
      if (mode != GIT_FILEMODE_COMMIT) {
        git_object_t type = GIT_OBJECT_INVALID;
        std::size_t size = 0;
        if (git_odb_read_header(&size, &type, odb, oid) != 0 || type != GIT_OBJECT_BLOB) {
          out.unreadable = "blob " + to_hex(out.oid) + " is not in the repository";
        }
        out.size = size;
      }
      entries.push_back(std::move(out));
    }
    return {};
  }
};

// The changes below one folder, by the first part of their remaining path.
struct Node {
  std::optional<TreeChange> change;      // of this very path
  std::map<std::string, Node> children;  // below it
};

struct Writer {
  git_repository* repository;

  // The id of the changed tree, or nothing when it is empty.
  Result<std::optional<Oid>> write(const git_tree* base, const Node& node) {
    git_treebuilder* raw = nullptr;
    if (git_treebuilder_new(&raw, repository, base) != 0) return git_failure(ErrorKind::kIo, "tree");
    const GitTreeBuilder builder(raw);
    for (const auto& [name, child] : node.children) {
      TS_TRY(set(raw, base, name, child));
    }
    if (git_treebuilder_entrycount(raw) == 0) return std::optional<Oid>();
    git_oid id;
    if (git_treebuilder_write(&id, raw) != 0) return git_failure(ErrorKind::kIo, "tree");
    return std::optional<Oid>(from_git(id));
  }

  Result<void> set(git_treebuilder* builder, const git_tree* base, const std::string& name,
                   const Node& child) {
    const git_tree_entry* old = base == nullptr ? nullptr : git_tree_entry_byname(base, name.c_str());
    const bool was_folder = old != nullptr && git_tree_entry_filemode(old) == GIT_FILEMODE_TREE;
    std::optional<std::pair<git_oid, git_filemode_t>> entry;
    if (old != nullptr) entry = {*git_tree_entry_id(old), git_tree_entry_filemode(old)};
    // A path that was a file and now has children loses the file first; one that was a folder and now is a
    // file loses the children that are not removed one by one: both happen by replacing the entry.
    if (child.change) {
      if (child.change->mode) {
        entry = {to_git(child.change->oid), static_cast<git_filemode_t>(*child.change->mode)};
      } else if (!was_folder) {
        entry.reset();
      }
    }
    if (!child.children.empty()) {
      GitTree below;
      if (was_folder) {
        git_tree* raw = nullptr;
        if (git_tree_lookup(&raw, repository, git_tree_entry_id(old)) != 0)
          return git_failure(ErrorKind::kNotFound, name);
        below.reset(raw);
      }
      TS_TRY(const std::optional<Oid> written, write(below.get(), child));
      const bool is_file = child.change && child.change->mode;
      if (written && is_file) {
        return Error{ErrorKind::kConflict, child.change->path, "One path would be both a file and a folder."};
      }
      if (!is_file) {
        if (written) {
          entry = {to_git(*written), GIT_FILEMODE_TREE};
        } else if (was_folder) {
          entry.reset();
        }
      }
    }
    int status = 0;
    if (entry) {
      status = git_treebuilder_insert(nullptr, builder, name.c_str(), &entry->first, entry->second);
    } else if (old != nullptr) {
      status = git_treebuilder_remove(builder, name.c_str());
    }
    if (status != 0) return git_failure(ErrorKind::kInvalidArgument, name);
    return {};
  }
};

}  // namespace

Result<Tree> Repository::read_tree(const Oid& commit_or_tree, std::string_view subpath) const {
  const git_oid id = to_git(commit_or_tree);
  git_object* raw = nullptr;
  if (git_object_lookup(&raw, state_->repository.get(), &id, GIT_OBJECT_ANY) != 0) {
    return Error{
        ErrorKind::kNotFound, path(),
        with_next("Object " + to_hex(commit_or_tree) + " is not in this repository", refetch_command())};
  }
  const GitObject object(raw);
  git_object* peeled = nullptr;
  if (git_object_peel(&peeled, raw, GIT_OBJECT_TREE) != 0) {
    return Error{
        ErrorKind::kNotFound, path(),
        with_next("The tree of " + to_hex(commit_or_tree) + " is not in this repository", refetch_command())};
  }
  GitObject root(peeled);
  git_oid start = *git_object_id(peeled);
  if (!subpath.empty()) {
    git_tree_entry* entry = nullptr;
    const std::string below(subpath);
    if (git_tree_entry_bypath(&entry, reinterpret_cast<git_tree*>(peeled), below.c_str()) != 0) {
      return Error{ErrorKind::kNotFound, to_hex(commit_or_tree),
                   with_next("There is no folder '" + below + "' in this tree",
                             git() + " ls-tree -d -r --name-only " + to_hex(commit_or_tree))};
    }
    const git_filemode_t mode = git_tree_entry_filemode(entry);
    start = *git_tree_entry_id(entry);
    git_tree_entry_free(entry);
    if (mode != GIT_FILEMODE_TREE) {
      return Error{ErrorKind::kInvalidArgument, to_hex(commit_or_tree),
                   with_next("'" + below + "' is a file, not a folder",
                             git() + " ls-tree -d -r --name-only " + to_hex(commit_or_tree))};
    }
  }
  Tree tree;
  Reader reader{state_->repository.get(), state_->odb.get(), tree.entries, refetch_command()};
  TS_TRY(reader.add(start, "", 0));
  sort_entries(tree.entries);
  tree.digest = tree_digest(tree.entries);
  return tree;
}

std::optional<TreeEntry> Repository::find_entry(const Oid& commit_or_tree, std::string_view path) const {
  const git_oid id = to_git(commit_or_tree);
  git_object* raw = nullptr;
  if (git_object_lookup(&raw, state_->repository.get(), &id, GIT_OBJECT_ANY) != 0) return std::nullopt;
  const GitObject object(raw);
  git_object* peeled = nullptr;
  if (git_object_peel(&peeled, raw, GIT_OBJECT_TREE) != 0) return std::nullopt;
  const GitObject root(peeled);
  git_tree_entry* entry = nullptr;
  const std::string below(path);
  if (git_tree_entry_bypath(&entry, reinterpret_cast<git_tree*>(peeled), below.c_str()) != 0)
    return std::nullopt;
  std::optional<TreeEntry> found;
  if (git_tree_entry_filemode(entry) != GIT_FILEMODE_TREE) {
    found = TreeEntry{.path = below,
                      .mode = static_cast<FileMode>(git_tree_entry_filemode(entry)),
                      .oid = from_git(*git_tree_entry_id(entry))};
  }
  git_tree_entry_free(entry);
  return found;
}

Result<Oid> Repository::write_tree(const std::optional<Oid>& base_tree, std::vector<TreeChange> changes) {
  GitTree base;
  if (base_tree) {
    const git_oid id = to_git(*base_tree);
    git_tree* raw = nullptr;
    if (git_tree_lookup(&raw, state_->repository.get(), &id) != 0)
      return git_failure(ErrorKind::kNotFound, path());
    base.reset(raw);
  }
  Node root;
  for (TreeChange& change : changes) {
    Node* node = &root;
    int depth = 0;
    for (std::size_t at = 0;
         at <= change.path.size();) {  // clang 14 cannot compile views::split of libstdc++ 12
      const std::size_t end = std::min(change.path.find('/', at), change.path.size());
      const std::string name = change.path.substr(at, end - at);
      at = end + 1;
      if (name.empty() || ++depth > kDeepest)
        return Error{ErrorKind::kInvalidArgument, change.path, "This is no path of a tree."};
      node = &node->children[name];
    }
    node->change = std::move(change);
  }
  Writer writer{state_->repository.get()};
  TS_TRY(const std::optional<Oid> written, writer.write(base.get(), root));
  if (written) return *written;
  git_oid empty;
  git_oid_fromstr(&empty, "4b825dc642cb6eb9a060e54bf8d69288fbee4904");
  if (git_odb_exists(state_->odb.get(), &empty) == 0) {
    git_odb_write(&empty, state_->odb.get(), "", 0, GIT_OBJECT_TREE);
  }
  return from_git(empty);
}

}  // namespace tessera::stack
