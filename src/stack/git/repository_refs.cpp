// Refs of a Repository: read, listed, and changed all or none.
#include <algorithm>

#include "stack/git/libgit2.h"
#include "stack/git/repository.h"
#include "stack/git/repository_state.h"
#include "stack/object/digest.h"

namespace tessera::stack {
namespace {

std::string shown(const std::optional<Oid>& oid) { return oid ? to_hex(*oid).substr(0, 12) : "absent"; }

}  // namespace

std::optional<Oid> Repository::read_ref(std::string_view name) const {
  git_oid id;
  const std::string text(name);
  if (git_reference_name_to_id(&id, state_->repository.get(), text.c_str()) != 0) return std::nullopt;
  return from_git(id);
}

std::vector<Ref> Repository::list_refs(std::string_view prefix) const {
  std::vector<Ref> found;
  git_strarray names{};
  if (git_reference_list(&names, state_->repository.get()) != 0) return found;
  for (std::size_t i = 0; i < names.count; ++i) {
    const std::string name = names.strings[i];
    if (!name.starts_with(prefix)) continue;
    if (const std::optional<Oid> id = read_ref(name)) found.push_back({name, *id});
  }
  git_strarray_dispose(&names);
  std::ranges::sort(found, {}, &Ref::name);
  return found;
}

std::optional<std::string> Repository::head_branch() const {
  git_reference* raw = nullptr;
  if (git_repository_is_bare(state_->repository.get()) == 1) return std::nullopt;
  if (git_reference_lookup(&raw, state_->repository.get(), "HEAD") != 0) return std::nullopt;
  const GitReference head(raw);
  const char* target = git_reference_symbolic_target(raw);
  if (target == nullptr) return std::nullopt;
  return std::string(target);
}

Result<void> Repository::change_refs(const std::vector<RefChange>& changes) {
  git_transaction* raw = nullptr;
  if (git_transaction_new(&raw, state_->repository.get()) != 0) return git_failure(ErrorKind::kIo, path());
  const GitTransaction transaction(raw);  // freeing without commit gives every lock back
  for (const RefChange& change : changes) {
    if (git_transaction_lock_ref(raw, change.name.c_str()) != 0) {
      Error error = git_failure(ErrorKind::kConflict, change.name);
      error.what += " No ref was changed.";
      return error;
    }
    const std::optional<Oid> found = read_ref(change.name);
    if (found != change.expected) {
      return Error{ErrorKind::kConflict, change.name,
                   "Somebody moved this ref: found " + shown(found) + ", expected " + shown(change.expected) +
                       ". No ref was changed."};
    }
  }
  git_signature* signature = nullptr;
  if (git_signature_new(&signature, "tessera-stack", "tessera-stack@localhost", 0, 0) != 0) {
    return git_failure(ErrorKind::kInternal, path());
  }
  const GitSignature owned(signature);
  for (const RefChange& change : changes) {
    if (change.expected == change.wanted) continue;
    int status = 0;
    if (change.wanted) {
      const git_oid id = to_git(*change.wanted);
      status = git_transaction_set_target(raw, change.name.c_str(), &id, signature, "tessera-stack");
    } else {
      status = git_transaction_remove(raw, change.name.c_str());
    }
    if (status != 0) return git_failure(ErrorKind::kIo, change.name);
  }
  if (git_transaction_commit(raw) != 0) return git_failure(ErrorKind::kIo, path());
  return {};
}

}  // namespace tessera::stack
