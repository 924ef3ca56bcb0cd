// A git repository as an object database with refs: reads, writes objects, changes refs all or none. libgit2
// stays behind this header.
//
// Opening runs nothing: no hooks, no filters, no program named in a config, no network, no working tree is
// touched.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stack/tree.h"

namespace tessera::stack {

struct Signature {
  std::string name;
  std::string email;
  std::int64_t seconds = 0;         // since 1970, UTC
  std::int32_t offset_minutes = 0;  // east of UTC
  friend bool operator==(const Signature&, const Signature&) = default;
};

struct Commit {
  Oid id;
  Oid tree;
  std::vector<Oid> parents;
  Signature author;
  Signature committer;
  std::string message;
};

// One path to set or remove when a tree is written.
struct TreeChange {
  std::string path;
  std::optional<FileMode> mode;  // absent: the path is removed
  Oid oid;
};

// What one ref shall be: `expected` is what it must be now (absent: must not exist); `wanted` absent:
// deleted.
struct RefChange {
  std::string name;  // full name, "refs/heads/…"
  std::optional<Oid> expected;
  std::optional<Oid> wanted;
};

// How far two trees are apart.
struct TreeDistance {
  std::int64_t files = 0;
  std::int64_t lines = 0;  // added and removed; 0 unless asked for
};

struct Ref {
  std::string name;
  Oid id;
};

class Repository : public BlobStore {
 public:
  // A folder with a repository, its .git, or a bare one. Never searches parent folders.
  static Result<Repository> open(const std::string& path);
  static Result<Repository> create_bare(const std::string& path);
  Repository(Repository&&) noexcept;
  Repository& operator=(Repository&&) noexcept;
  ~Repository() override;

  const std::string& path() const;      // the git directory, with a trailing slash
  std::string git() const;              // "git -C FOLDER", to be followed by a command and pasted
  std::string refetch_command() const;  // brings lost objects back, of a partial clone too

  // Blobs.
  bool contains(const Oid& oid) const override;
  Result<std::string> read(const Oid& oid) const override;
  Result<Oid> write(std::string_view bytes) override;
  Result<Oid> write_pieces(std::uint64_t size, const NextPiece& next) override;

  // Names, full or short: branch, tag, id, HEAD~2. Tags are peeled to the commit.
  Result<Oid> resolve_commit(std::string_view name) const;
  Result<Commit> read_commit(const Oid& id) const;
  // The files of a commit or tree, below `subpath` when it is not empty (paths are then relative to it). A
  // blob that is missing from the database is marked unreadable, not an error.
  Result<Tree> read_tree(const Oid& commit_or_tree, std::string_view subpath = {}) const;
  // Equal sub-folders are not entered. With `with_lines` the blobs that differ are read; missing ones count
  // as no lines.
  Result<TreeDistance> distance(const Oid& tree_a, const Oid& tree_b, bool with_lines) const;
  // Paths that differ, sorted, each once.
  Result<std::vector<std::string>> changed_paths(const Oid& tree_a, const Oid& tree_b) const;
  // What `git patch-id --stable` says of the difference: equal for changes that differ in line numbers and
  // white space only, context included. A filter, no proof. Nothing for an empty difference and where a blob
  // is missing.
  std::optional<Oid> patch_id(const Oid& tree_a, const Oid& tree_b) const;
  // One path of a commit or tree; nothing when it is absent, or a folder. Size is not filled.
  std::optional<TreeEntry> find_entry(const Oid& commit_or_tree, std::string_view path) const;
  // `base` with the changes applied; only touched folders are written. Folders that become empty vanish.
  Result<Oid> write_tree(const std::optional<Oid>& base_tree, std::vector<TreeChange> changes);
  Result<Oid> write_commit(const Commit& commit);  // commit.id is ignored; returns the id

  Result<std::optional<Oid>> merge_base(const Oid& a, const Oid& b) const;
  Result<bool> is_ancestor(const Oid& ancestor, const Oid& descendant) const;
  // Commits reachable from `tip` and not from `hidden`, newest first (topological), at most `limit`.
  Result<std::vector<Oid>> walk(const Oid& tip, const std::vector<Oid>& hidden, std::size_t limit = SIZE_MAX,
                                bool first_parent = false) const;

  std::optional<Oid> read_ref(std::string_view name) const;   // peels symbolic refs, not tags
  std::vector<Ref> list_refs(std::string_view prefix) const;  // sorted by name
  // All or none: every ref is locked and compared with `expected` before the first one changes.
  Result<void> change_refs(const std::vector<RefChange>& changes);
  std::optional<std::string> head_branch() const;  // full name of the branch that is checked out

  std::optional<Signature> configured_user() const;  // user.name and user.email; time is zero

 private:
  struct State;
  explicit Repository(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tessera::stack
