#include "stack/command/read_tree.h"

#include <filesystem>

#include "stack/object/digest.h"
#include "stack/object/next_command.h"
#include "stack/object/printable.h"
#include "stack/object/tree_digest.h"
#include "stack/source/source.h"

namespace tessera::stack {
namespace {

Result<SourceTree> read_git(Repository& repository, const SourceSpec& spec, const StageProgress& progress) {
  TS_TRY(const Repository source, Repository::open(spec.location));
  TS_TRY(const Oid commit, source.resolve_commit(spec.ref.empty() ? "HEAD" : spec.ref));
  TS_TRY(Tree tree, source.read_tree(commit, spec.path));
  Stage stage(progress, "objects", tree.entries.size());
  for (TreeEntry& entry : tree.entries) {
    stage.step();
    if (entry.mode == FileMode::kGitlink || entry.unreadable || repository.contains(entry.oid)) continue;
    TS_TRY(const std::string bytes, source.read(entry.oid));
    TS_TRY(repository.write(bytes));
  }
  return SourceTree{.tree = std::move(tree), .root = spec.path};
}

// What writes such a source anew.
std::string written_by(const SourceSpec& spec) {
  const std::string location = shell_quoted(spec.location);
  std::error_code ignored;
  switch (spec.kind) {
    case SourceKind::kTar:
      return "docker export -o " + location + " CONTAINER";
    case SourceKind::kDockerSave:
      return "docker save -o " + location + " IMAGE";
    case SourceKind::kOci:
      return "skopeo copy docker-daemon:IMAGE oci" +
             std::string(std::filesystem::is_directory(spec.location, ignored) ? ":" : "-archive:") +
             location;
    default:
      return "ls -ld " + location;
  }
}

// Damaged or lying bytes have to be written again; all else is put right in the command that was typed.
Error with_way_on(Error error, const SourceSpec& spec, const Session& session) {
  switch (error.kind) {
    case ErrorKind::kCorrupt:
    case ErrorKind::kMismatch:
    case ErrorKind::kTooLarge:
    case ErrorKind::kUnsupported:
      return with_next(std::move(error), written_by(spec) + " && " + session.typed);
    default:
      return with_next(std::move(error), session.typed);
  }
}

}  // namespace

Result<SourceTree> read_tree_into(Repository& repository, const SourceSpec& spec, const Session& session) {
  if (spec.kind == SourceKind::kGit) return read_git(repository, spec, session.progress());
  ReadOptions options;
  options.blobs = &repository;
  options.want = [&](std::string_view, const Oid& oid) { return !repository.contains(oid); };
  options.progress = session.progress();
  Result<SourceTree> found = read_source(spec, options);
  if (!found) return with_way_on(std::move(found).error(), spec, session);
  SourceTree read = *std::move(found);
  if (session.progress_line) session.progress_line->clear();
  std::vector<TreeEntry> kept;
  for (TreeEntry& entry : read.tree.entries) {
    if (entry.oid == Oid{}) {
      read.tree.notes.push_back("The path " + printable(entry.path) + " is left out: " +
                                entry.unreadable.value_or("its bytes cannot be had") + ".");
    } else {
      kept.push_back(std::move(entry));
    }
  }
  if (kept.size() != read.tree.entries.size()) {
    read.tree.entries = std::move(kept);
    read.tree.digest = tree_digest(read.tree.entries);
  } else {
    read.tree.entries = std::move(kept);
  }
  return read;
}

Result<SourceSpec> source_of_plan(const PlanFile& file) {
  TS_TRY(SourceSpec spec, parse_source(file.plan.source));
  spec.location = file.beside(spec.location);
  return spec;
}

std::string path_relative_to(const std::string& path, const std::string& plan_path) {
  if (std::filesystem::path(path).is_absolute()) return path;
  const std::filesystem::path folder = std::filesystem::absolute(plan_path).parent_path();
  return std::filesystem::absolute(path)
      .lexically_normal()
      .lexically_relative(folder.lexically_normal())
      .string();
}

SourceSpec relative_to(const SourceSpec& spec, const std::string& plan_path) {
  SourceSpec out = spec;
  out.location = path_relative_to(spec.location, plan_path);
  return out;
}

}  // namespace tessera::stack
