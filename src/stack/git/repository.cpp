#include "stack/git/repository.h"

#include <filesystem>

#include "base/check.h"
#include "stack/git/libgit2.h"
#include "stack/git/repository_state.h"
#include "stack/object/digest.h"
#include "stack/object/next_command.h"

namespace tessera::stack {
namespace {

Signature from_git(const git_signature& s) {
  return {.name = s.name, .email = s.email, .seconds = s.when.time, .offset_minutes = s.when.offset};
}

// What libgit2 says about formats that it does not know, with the command that helps.
Error cannot_open(const std::string& path) {
  Error error = git_failure(ErrorKind::kNotFound, path);
  const std::string quoted = shell_quoted(path);
  const bool extension = error.what.find("extension") != std::string::npos;
  if (extension && error.what.find("partialclone") != std::string::npos) {
    return {ErrorKind::kUnsupported, path,
            with_next("This is a partial clone, whose missing objects would be fetched from the network; a "
                      "plain one is needed",
                      "git clone --bare \"$(git -C " + quoted + " remote get-url origin)\" plain.git")};
  }
  if (extension || error.what.find("repository version") != std::string::npos) {
    error.kind = ErrorKind::kUnsupported;
    // What git exports has no ids, so it goes from one kind of id to the other; a clone keeps the kind.
    const bool has_other_ids = error.what.find("objectformat") != std::string::npos;
    return with_next(std::move(error), has_other_ids
                                           ? "git init --bare plain.git && git -C " + quoted +
                                                 " fast-export --all | git -C plain.git fast-import"
                                           : "git clone --no-local --bare " + quoted + " plain.git");
  }
  // A folder inside a working tree, or one that is not there.
  std::error_code ignored;
  return with_next(std::move(error), std::filesystem::is_directory(path, ignored)
                                         ? "git -C " + quoted + " rev-parse --show-toplevel"
                                         : "git clone --bare URL " + quoted);
}

}  // namespace

Repository::Repository(std::unique_ptr<State> state) : state_(std::move(state)) {}
Repository::Repository(Repository&&) noexcept = default;
Repository& Repository::operator=(Repository&&) noexcept = default;
Repository::~Repository() = default;

Result<Repository> Repository::open(const std::string& path) {
  auto state = std::make_unique<State>();
  // Our inputs are only read as objects and refs, so a repository of another owner is no danger to us.
  git_libgit2_opts(GIT_OPT_SET_OWNER_VALIDATION, 0);
  // A tree may name blobs that a partial mirror lacks; parity reports them, writing must not fail on them.
  git_libgit2_opts(GIT_OPT_ENABLE_STRICT_OBJECT_CREATION, 0);
  git_repository* repository = nullptr;
  if (git_repository_open_ext(&repository, path.c_str(), GIT_REPOSITORY_OPEN_NO_SEARCH, nullptr) != 0) {
    return cannot_open(path);
  }
  state->repository.reset(repository);
  git_odb* odb = nullptr;
  if (git_repository_odb(&odb, repository) != 0) return git_failure(ErrorKind::kIo, path);
  state->odb.reset(odb);
  state->path = git_repository_path(repository);
  return Repository(std::move(state));
}

Result<Repository> Repository::create_bare(const std::string& path) {
  const GitLibrary library;
  git_repository* repository = nullptr;
  if (git_repository_init(&repository, path.c_str(), 1) != 0) return git_failure(ErrorKind::kIo, path);
  GitRepository(repository).reset();
  return open(path);
}

const std::string& Repository::path() const { return state_->path; }

std::string Repository::git() const {
  const char* folder = git_repository_workdir(state_->repository.get());
  return "git -C " + shell_quoted(folder != nullptr ? folder : state_->path);
}

std::string Repository::refetch_command() const { return git() + " fetch --refetch --no-filter"; }

bool Repository::contains(const Oid& oid) const {
  const git_oid id = to_git(oid);
  return git_odb_exists(state_->odb.get(), &id) == 1;
}

Result<std::string> Repository::read(const Oid& oid) const {
  const git_oid id = to_git(oid);
  git_odb_object* raw = nullptr;
  if (git_odb_read(&raw, state_->odb.get(), &id) != 0) {
    return Error{
        ErrorKind::kNotFound, path(),
        with_next("Blob " + to_hex(oid) +
                      " is not in this repository; a mirror may lack it, and git fsck names all such",
                  refetch_command())};
  }
  const GitOdbObject object(raw);
  return std::string(static_cast<const char*>(git_odb_object_data(raw)), git_odb_object_size(raw));
}

Result<Oid> Repository::write(std::string_view bytes) {
  git_oid id;
  if (git_odb_write(&id, state_->odb.get(), bytes.data(), bytes.size(), GIT_OBJECT_BLOB) != 0) {
    return git_failure(ErrorKind::kIo, path());
  }
  return stack::from_git(id);
}

Result<Oid> Repository::write_pieces(std::uint64_t size, const NextPiece& next) {
  git_odb_stream* raw = nullptr;
  if (git_odb_open_wstream(&raw, state_->odb.get(), static_cast<git_object_size_t>(size), GIT_OBJECT_BLOB) !=
      0) {
    return git_failure(ErrorKind::kIo, path());
  }
  const GitOdbStream stream(raw);
  while (true) {
    TS_TRY(const std::string_view piece, next());
    if (piece.empty()) break;
    if (git_odb_stream_write(stream.get(), piece.data(), piece.size()) != 0) {
      return git_failure(ErrorKind::kIo, path());
    }
  }
  git_oid id;
  if (git_odb_stream_finalize_write(&id, stream.get()) != 0) return git_failure(ErrorKind::kIo, path());
  return stack::from_git(id);
}

Result<Oid> Repository::resolve_commit(std::string_view name) const {
  const std::string text(name);
  git_object* raw = nullptr;
  if (const int failed = git_revparse_single(&raw, state_->repository.get(), text.c_str()); failed != 0) {
    if (failed == GIT_EAMBIGUOUS) {
      return Error{ErrorKind::kInvalidArgument, path(),
                   with_next("'" + text + "' is the beginning of several ids here; give more of it",
                             git() + " rev-parse --disambiguate=" + shell_quoted(text))};
    }
    if (git_repository_is_shallow(state_->repository.get()) == 1) {
      return Error{ErrorKind::kNotFound, path(),
                   with_next("No commit is called '" + text + "' here, and this clone is shallow",
                             git() + " fetch --unshallow")};
    }
    // A server gives out a full id by itself, when it has it; anything else must come with a branch or tag.
    return Error{ErrorKind::kNotFound, path(),
                 with_next("No commit is called '" + text + "' here",
                           git() + (oid_from_hex(text) ? " fetch origin " + text : " fetch --all --tags"))};
  }
  const GitObject object(raw);
  git_object* peeled = nullptr;
  if (git_object_peel(&peeled, raw, GIT_OBJECT_COMMIT) != 0) {
    return Error{ErrorKind::kInvalidArgument, path(),
                 with_next("'" + text + "' names an object that is not a commit",
                           git() + " log -1 --format=%H COMMIT")};
  }
  const GitObject commit(peeled);
  return stack::from_git(*git_object_id(peeled));
}

Result<Commit> Repository::read_commit(const Oid& oid) const {
  const git_oid id = to_git(oid);
  git_commit* raw = nullptr;
  if (git_commit_lookup(&raw, state_->repository.get(), &id) != 0) {
    return Error{ErrorKind::kNotFound, path(),
                 with_next("Commit " + to_hex(oid) + " is not in this repository",
                           git() + " fetch origin " + to_hex(oid))};
  }
  const GitCommit owned(raw);
  Commit commit{.id = oid,
                .tree = stack::from_git(*git_commit_tree_id(raw)),
                .parents = {},
                .author = from_git(*git_commit_author(raw)),
                .committer = from_git(*git_commit_committer(raw)),
                .message = git_commit_message(raw)};
  for (unsigned i = 0; i < git_commit_parentcount(raw); ++i) {
    commit.parents.push_back(stack::from_git(*git_commit_parent_id(raw, i)));
  }
  return commit;
}

Result<Oid> Repository::write_commit(const Commit& commit) {
  // Written as bytes: libgit2's own writer wants parsed parents, and git's format for commits is four lines.
  const auto person = [](std::string_view role, const Signature& s) {
    const int minutes = s.offset_minutes < 0 ? -s.offset_minutes : s.offset_minutes;
    char zone[16];
    std::snprintf(zone, sizeof zone, "%c%02d%02d", s.offset_minutes < 0 ? '-' : '+', minutes / 60 % 100,
                  minutes % 60);
    return std::string(role) + ' ' + s.name + " <" + s.email + "> " + std::to_string(s.seconds) + ' ' + zone +
           '\n';
  };
  std::string bytes = "tree " + to_hex(commit.tree) + '\n';
  for (const Oid& parent : commit.parents) bytes += "parent " + to_hex(parent) + '\n';
  for (const Signature* s : {&commit.author, &commit.committer}) {
    if ((s->name + s->email).find_first_of("<>\n") != std::string::npos || s->name.empty()) {
      return Error{ErrorKind::kInvalidArgument, "author",
                   "'" + s->name + " <" + s->email +
                       ">' cannot stand in a commit: a name is needed, without line ends or angle brackets."};
    }
  }
  bytes += person("author", commit.author) + person("committer", commit.committer) + '\n' + commit.message;
  git_oid id;
  if (git_odb_write(&id, state_->odb.get(), bytes.data(), bytes.size(), GIT_OBJECT_COMMIT) != 0) {
    return git_failure(ErrorKind::kIo, path());
  }
  return stack::from_git(id);
}

Result<std::optional<Oid>> Repository::merge_base(const Oid& a, const Oid& b) const {
  const git_oid one = to_git(a);
  const git_oid two = to_git(b);
  git_oid out;
  const int status = git_merge_base(&out, state_->repository.get(), &one, &two);
  if (status == GIT_ENOTFOUND) return std::optional<Oid>();
  if (status != 0) return git_failure(ErrorKind::kNotFound, path());
  return std::optional<Oid>(stack::from_git(out));
}

Result<bool> Repository::is_ancestor(const Oid& ancestor, const Oid& descendant) const {
  if (ancestor == descendant) return true;
  const git_oid one = to_git(ancestor);
  const git_oid two = to_git(descendant);
  const int status = git_graph_descendant_of(state_->repository.get(), &two, &one);
  if (status < 0) return git_failure(ErrorKind::kNotFound, path());
  return status == 1;
}

Result<std::vector<Oid>> Repository::walk(const Oid& tip, const std::vector<Oid>& hidden, std::size_t limit,
                                          bool first_parent) const {
  git_revwalk* raw = nullptr;
  if (git_revwalk_new(&raw, state_->repository.get()) != 0) return git_failure(ErrorKind::kIo, path());
  const GitWalk walk(raw);
  git_revwalk_sorting(raw, GIT_SORT_TOPOLOGICAL | GIT_SORT_TIME);
  if (first_parent) git_revwalk_simplify_first_parent(raw);
  const git_oid start = to_git(tip);
  if (git_revwalk_push(raw, &start) != 0) return git_failure(ErrorKind::kNotFound, path());
  for (const Oid& oid : hidden) {
    const git_oid id = to_git(oid);
    if (git_revwalk_hide(raw, &id) != 0) return git_failure(ErrorKind::kNotFound, path());
  }
  std::vector<Oid> found;
  git_oid next;
  int status = 0;
  while (found.size() < limit && (status = git_revwalk_next(&next, raw)) == 0)
    found.push_back(stack::from_git(next));
  if (status != 0 && status != GIT_ITEROVER) {
    Error error = git_failure(ErrorKind::kNotFound, path());
    error.what += " A shallow clone ends too early; git fetch --unshallow brings the rest.";
    return error;
  }
  return found;
}

std::optional<Signature> Repository::configured_user() const {
  git_config* raw = nullptr;
  if (git_repository_config_snapshot(&raw, state_->repository.get()) != 0) return std::nullopt;
  const GitConfig config(raw);
  const char* name = nullptr;
  const char* email = nullptr;
  if (git_config_get_string(&name, raw, "user.name") != 0) return std::nullopt;
  if (git_config_get_string(&email, raw, "user.email") != 0) return std::nullopt;
  return Signature{.name = name, .email = email};
}

}  // namespace tessera::stack
