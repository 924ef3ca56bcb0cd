#include "stack/publish/bundle.h"

#include "stack/git/libgit2.h"
#include "stack/object/digest.h"

namespace tessera::stack {
namespace {

using GitPackBuilder = GitOwned<git_packbuilder, git_packbuilder_free>;

int append(void* bytes, std::size_t size, void* out) {
  static_cast<std::string*>(out)->append(static_cast<const char*>(bytes), size);
  return 0;
}

}  // namespace

Result<std::string> make_bundle(const Repository& repository, const std::vector<Ref>& refs,
                                const std::vector<Oid>& without) {
  const GitLibrary library;
  git_repository* raw_repository = nullptr;
  if (git_repository_open_bare(&raw_repository, repository.path().c_str()) != 0) {
    return git_failure(ErrorKind::kIo, repository.path());
  }
  const GitRepository opened(raw_repository);
  git_packbuilder* raw_builder = nullptr;
  git_revwalk* raw_walk = nullptr;
  if (git_packbuilder_new(&raw_builder, opened.get()) != 0)
    return git_failure(ErrorKind::kInternal, "bundle");
  const GitPackBuilder builder(raw_builder);
  if (git_revwalk_new(&raw_walk, opened.get()) != 0) return git_failure(ErrorKind::kInternal, "bundle");
  const GitWalk walk(raw_walk);
  std::string out = "# v2 git bundle\n";
  for (const Oid& known : without) {
    const git_oid id = to_git(known);
    if (git_revwalk_hide(walk.get(), &id) != 0) return git_failure(ErrorKind::kNotFound, to_hex(known));
    out += "-" + to_hex(known) + " \n";
  }
  for (const Ref& ref : refs) {
    const git_oid id = to_git(ref.id);
    if (git_revwalk_push(walk.get(), &id) != 0) return git_failure(ErrorKind::kNotFound, ref.name);
    out += to_hex(ref.id) + " " + ref.name + "\n";
  }
  out += "\n";
  if (git_packbuilder_insert_walk(builder.get(), walk.get()) != 0)
    return git_failure(ErrorKind::kInternal, "bundle");
  git_packbuilder_set_threads(builder.get(), 1);  // the same bytes for the same input
  if (git_packbuilder_foreach(builder.get(), &append, &out) != 0)
    return git_failure(ErrorKind::kInternal, "bundle");
  return out;
}

}  // namespace tessera::stack
