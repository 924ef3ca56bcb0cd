// init: reads both sides, says what the base is, freezes the tree, writes a plan with everything unassigned.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "stack/command/read_tree.h"
#include "stack/command/verbs.h"
#include "stack/compose/word_index.h"
#include "stack/compose/workspace.h"
#include "stack/object/digest.h"
#include "stack/object/next_command.h"
#include "stack/object/printable.h"
#include "stack/plan/plan_editor.h"
#include "stack/plan/plan_reader.h"

namespace tessera::stack {
namespace {

std::string day_of(std::int64_t seconds, bool with_time) {
  const std::time_t when = static_cast<std::time_t>(seconds);
  std::tm utc{};
  gmtime_r(&when, &utc);
  char text[32];
  std::strftime(text, sizeof text, with_time ? "%Y-%m-%dT%H:%M:%SZ" : "%Y-%m-%d", &utc);
  return text;
}

// A name that can be part of a branch.
std::string default_name() {
  std::string name = std::filesystem::current_path().filename().string();
  for (char& c : name) {
    const bool fits =
        (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
    if (!fits) c = '-';
  }
  while (name.starts_with('-')) name.erase(0, 1);
  return name.empty() ? "stack" : name;
}

struct Draft {
  std::string repository;
  Commit base;
  SourceSpec source;
  const Tree& tree;
  std::string name;
  std::string prefix;
  std::string author;
};

std::string plan_text(const Draft& d) {
  std::string out =
      "# Which tree, against which base, cut into which topics. Written by tessera-stack init; edit it, "
      "review it, keep it.\n";
  out += "format = 1\nname   = " + toml_quoted(d.name) + "\n\n[base]\n";
  out += "repo   = " + toml_quoted(d.repository) + "\n";
  out += "commit = \"" + to_hex(d.base.id) + "\"  # " + day_of(d.base.committer.seconds, false) + "\n";
  out += "target = \"" + to_hex(d.base.id) +
         "\"  # where topics stand; moved by tessera-stack rebase\n\n[tree]\n";
  out += "source  = " + toml_quoted(to_string(d.source)) + "\n";
  out += "digest  = \"" + d.tree.digest + "\"\n";
  if (!d.tree.image.empty()) out += "image   = \"" + d.tree.image + "\"\n";
  out += "listing = \"\"\n";
  out += "diff    = { algorithm = \"myers\", rename_view = 60 }\n\n[branches]\n";
  out += "prefix = " + toml_quoted(d.prefix) + "  # topic = <prefix>/<bucket>\nshape  = \"merges\"\n";
  out += "author = " + toml_quoted(d.author) + "\n";
  out += "date   = " + day_of(d.base.committer.seconds, true) +
         "  # of every commit, so that a second run gives the same ids\n";
  return out;
}

Result<Exit> refresh(const Session& session) {
  TS_TRY(const std::string path, session.plan_path());
  TS_TRY(PlanFile file, load_plan(path));
  TS_TRY(Repository repository, Repository::open(file.beside(file.plan.repository)));
  TS_TRY(const SourceSpec spec, source_of_plan(file));
  TS_TRY(const SourceTree read, read_tree_into(repository, spec, session));
  if (read.tree.digest != file.plan.digest) {
    return Error{ErrorKind::kMismatch, file.plan.source,
                 with_next("This tree has the digest " + read.tree.digest + ", and the plan was made for " +
                               file.plan.digest + "; absorb brings the plan to it",
                           "tessera-stack absorb")};
  }
  TS_TRY(freeze_tree(repository, file.plan, read.tree));
  session.say("tree: " + read.tree.digest + ", as the plan says; frozen again");
  session.answer("init", {{"digest", read.tree.digest}, {"refreshed", true}});
  return Exit::kTrue;
}

}  // namespace

Result<Exit> run_init(const InitOptions& options, const Session& session) {
  if (options.refresh) return refresh(session);
  const std::string path = session.plan.empty() ? "stack.toml" : session.plan;
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) && !options.force) {
    return Error{ErrorKind::kInvalidArgument, path,
                 with_next("There is a plan already; --force overwrites it, --plan names another",
                           "tessera-stack plan check")};
  }
  TS_TRY(Repository repository, Repository::open(options.repository));
  TS_TRY(const Oid base_id, repository.resolve_commit(options.base));
  TS_TRY(const Commit base, repository.read_commit(base_id));
  TS_TRY(const SourceSpec spec, parse_source(options.tree));
  if (!spec.note.empty()) session.warn(spec.note);
  TS_TRY(const SourceTree read, read_tree_into(repository, spec, session));
  for (const std::string& note : read.tree.notes) session.warn(note);

  const Signature user = repository.configured_user().value_or(
      Signature{.name = "tessera-stack", .email = "tessera-stack@localhost"});
  const std::string name = options.name.empty() ? default_name() : options.name;
  Draft draft{.repository = path_relative_to(options.repository, path),
              .base = base,
              .source = relative_to(spec, path),
              .tree = read.tree,
              .name = name,
              .prefix = options.prefix.empty() ? "tessera/" + name : options.prefix,
              .author = user.name + " <" + user.email + ">"};
  std::string text = plan_text(draft);
  TS_TRY(Plan plan, read_plan(text, path));
  TS_TRY(Workspace workspace, make_workspace(PlanFile{path, text, std::move(plan)}, std::move(repository),
                                             read.tree, session.progress()));
  PlanEditor editor(text);
  TS_TRY(editor.set("tree", "listing", workspace.listing.fingerprint));
  if (!session.dry_run) {
    TS_TRY(freeze_tree(workspace.repository, workspace.plan(), read.tree));
    (void)WordIndex::of(workspace.base_tree, workspace.repository,
                        session.progress());  // so that later runs find it
    TS_TRY(save_text(path, editor.text()));
  }

  std::int64_t created = 0, deleted = 0, added = 0, removed = 0, texts = 0;
  for (const FileChange& file : workspace.listing.files) {
    created += !file.before;
    deleted += !file.after;
  }
  for (const Atom& atom : workspace.listing.atoms) {
    texts += atom.kind == AtomKind::kText;
    added += atom.at.new_count;
    removed += atom.at.old_count;
  }
  const std::size_t files = workspace.listing.files.size();
  const std::string subject = base.message.substr(0, base.message.find('\n'));
  session.say("base: " + to_hex(base_id) + "  " + day_of(base.committer.seconds, false) + "  " +
              printable(subject));
  session.say("tree: " + read.tree.digest + ", " + std::to_string(read.tree.entries.size()) + " files");
  session.say("difference: " + std::to_string(files) + " files (" + std::to_string(created) + " created, " +
              std::to_string(deleted) + " deleted), " + std::to_string(workspace.listing.atoms.size()) +
              " atoms, " + std::to_string(texts) + " of them blocks of text, +" + std::to_string(added) +
              " -" + std::to_string(removed) + " lines");
  for (const Unreadable& gone : workspace.listing.unreadable)
    session.warn(
        with_next("unreadable: " + gone.path + ": " + gone.why, workspace.repository.refetch_command()));
  for (const PackageCopy& copy : read.copies) {
    session.warn("The package is there twice, also in " + copy.path + " (" + std::to_string(copy.same) +
                 " files equal, " + std::to_string(copy.different) + " different). " + copy.preference);
  }
  if (files * 3 > workspace.base_tree.entries.size() && files > 50) {
    session.warn(with_next("A third of all files differs; the base is probably another commit",
                           "tessera-stack doctor"));
  }
  session.say("plan: " + path + (session.dry_run ? " (not written: --dry-run)" : "") +
              "; next: tessera-stack suggest, or edit it and run tessera-stack plan check");
  session.answer("init", {{"plan", path},
                          {"base", to_hex(base_id)},
                          {"digest", read.tree.digest},
                          {"listing", workspace.listing.fingerprint},
                          {"files", files},
                          {"created", created},
                          {"deleted", deleted},
                          {"atoms", workspace.listing.atoms.size()},
                          {"text_atoms", texts},
                          {"added", added},
                          {"removed", removed},
                          {"unreadable", workspace.listing.unreadable.size()}});
  return workspace.listing.unreadable.empty() ? Exit::kTrue : Exit::kFalse;
}

}  // namespace tessera::stack
