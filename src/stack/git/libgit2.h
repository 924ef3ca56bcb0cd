// libgit2's handles as owned values, and its errors as ours. For .cpp files of this folder only.
#pragma once

#include <git2.h>

#include <algorithm>
#include <memory>
#include <string>
#include <type_traits>

#include "base/error.h"
#include "stack/tree.h"

namespace tessera::stack {

template <auto Free>
struct GitFree {
  template <class H>
  void operator()(H* handle) const noexcept {
    Free(handle);
  }
};
template <class Handle, auto Free>
using GitOwned = std::unique_ptr<Handle, GitFree<Free>>;

using GitRepository = GitOwned<git_repository, git_repository_free>;
using GitOdb = GitOwned<git_odb, git_odb_free>;
using GitOdbStream = GitOwned<git_odb_stream, git_odb_stream_free>;
using GitOdbObject = GitOwned<git_odb_object, git_odb_object_free>;
using GitObject = GitOwned<git_object, git_object_free>;
using GitCommit = GitOwned<git_commit, git_commit_free>;
using GitTree = GitOwned<git_tree, git_tree_free>;
using GitTreeBuilder = GitOwned<git_treebuilder, git_treebuilder_free>;
using GitSignature = GitOwned<git_signature, git_signature_free>;
using GitReference = GitOwned<git_reference, git_reference_free>;
using GitTransaction = GitOwned<git_transaction, git_transaction_free>;
using GitWalk = GitOwned<git_revwalk, git_revwalk_free>;
using GitConfig = GitOwned<git_config, git_config_free>;

// libgit2 counts its users; one of these lives as long as anything of libgit2 does.
class GitLibrary {
 public:
  GitLibrary() { git_libgit2_init(); }
  ~GitLibrary() { git_libgit2_shutdown(); }
  GitLibrary(const GitLibrary&) = delete;
  GitLibrary& operator=(const GitLibrary&) = delete;
};

inline git_oid to_git(const Oid& oid) {
  git_oid out;
  std::ranges::copy(oid.bytes, out.id);
  return out;
}

inline Oid from_git(const git_oid& oid) {
  Oid out;
  std::copy(oid.id, oid.id + out.bytes.size(), out.bytes.begin());
  return out;
}

// The error that libgit2 just reported, as one sentence.
inline Error git_failure(ErrorKind kind, std::string where) {
  const git_error* last = git_error_last();
  std::string what = last != nullptr && last->message != nullptr ? last->message : "git gave no reason";
  if (what.back() != '.') what += '.';
  return Error{kind, std::move(where), std::move(what)};
}

}  // namespace tessera::stack
