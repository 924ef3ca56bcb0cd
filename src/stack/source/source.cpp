#include "stack/source/source.h"

#include "stack/git/repository.h"
#include "stack/object/digest.h"
#include "stack/object/printable.h"
#include "stack/source/folder.h"
#include "stack/source/image.h"

namespace tessera::stack {
namespace {

Result<SourceTree> read_git(const SourceSpec& spec, const ReadOptions& options) {
  TS_TRY(const Repository repository, Repository::open(spec.location));
  TS_TRY(const Oid commit, repository.resolve_commit(spec.ref));
  SourceTree out;
  TS_TRY(out.tree, repository.read_tree(commit, spec.path));
  out.root = spec.path;
  if (options.blobs == nullptr) return out;
  Stage stage(options.progress, "objects", out.tree.entries.size());
  for (const TreeEntry& entry : out.tree.entries) {
    stage.step();
    if (entry.mode == FileMode::kGitlink || entry.unreadable) continue;
    if (options.want && !options.want(entry.path, entry.oid)) continue;
    if (options.blobs->contains(entry.oid)) continue;  // often it is the same database
    TS_TRY(const std::string bytes, repository.read(entry.oid));
    TS_TRY(options.blobs->write(bytes));
  }
  return out;
}

}  // namespace

Result<SourceTree> read_source(const SourceSpec& spec, const ReadOptions& options) {
  switch (spec.kind) {
    case SourceKind::kFolder:
      return read_folder(spec.location, options);
    case SourceKind::kTar:
      return read_tar(spec.location, spec.path, options);
    case SourceKind::kDockerSave:
    case SourceKind::kOci:
      return read_image(spec.location, spec.ref, spec.path, options);
    case SourceKind::kGit:
      return read_git(spec, options);
  }
  return Error{ErrorKind::kInternal, printable(to_string(spec)), "This kind of source is not known."};
}

}  // namespace tessera::stack
