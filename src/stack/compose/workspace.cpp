#include "stack/compose/workspace.h"

#include <filesystem>
#include <memory>

#include "stack/compose/composer.h"
#include "stack/compose/frozen_tree.h"
#include "stack/compose/word_index.h"
#include "stack/object/digest.h"
#include "stack/object/next_command.h"
#include "stack/object/printable.h"

namespace tessera::stack {

std::string Workspace::plan_name() const { return std::filesystem::path(file.path).filename().string(); }

std::string state_ref(const Plan& plan, std::string_view what) {
  return "refs/tessera-stack/" + plan.name + "/" + std::string(what);
}

Result<Workspace> make_workspace(PlanFile file, Repository repository, Tree raw_tree,
                                 StageProgress progress) {
  const Plan& plan = file.plan;
  TS_TRY(Commit base, repository.read_commit(*oid_from_hex(plan.base)));
  TS_TRY(Commit target, repository.read_commit(*oid_from_hex(plan.target)));
  TS_TRY(Tree base_tree, repository.read_tree(base.id));
  const std::string name = std::filesystem::path(file.path).filename().string();
  auto ruled = apply_rules(plan, base_tree, raw_tree);
  if (!ruled) {
    Error error = std::move(ruled).error();
    if (error.where.starts_with("plan:")) error.where = name + error.where.substr(4);
    return error;
  }
  TS_TRY(Listing listing, make_listing(base_tree, ruled->tree, repository,
                                       {.algorithm = plan.algorithm, .progress = progress}));
  ClaimResolution claims = resolve_claims(plan, listing, name);
  TS_TRY(std::vector<EditRegion> regions, read_regions(plan, listing, claims.ownership, file.folder(), name));
  const bool stale = !plan.listing.empty() && plan.listing != listing.fingerprint;
  return Workspace{.file = std::move(file),
                   .repository = std::move(repository),
                   .base = std::move(base),
                   .target = std::move(target),
                   .base_tree = std::move(base_tree),
                   .raw_tree = std::move(raw_tree),
                   .ruled = *std::move(ruled),
                   .listing = std::move(listing),
                   .claims = std::move(claims),
                   .regions = std::move(regions),
                   .listing_is_stale = stale,
                   .progress = std::move(progress)};
}

Result<Workspace> open_workspace(const std::string& plan_path, StageProgress progress) {
  TS_TRY(PlanFile file, load_plan(plan_path));
  TS_TRY(Repository repository, Repository::open(file.beside(file.plan.repository)));
  TS_TRY(Tree tree, read_frozen(repository, file.plan));
  if (!file.plan.digest.empty() && tree.digest != file.plan.digest) {
    return Error{ErrorKind::kMismatch, plan_path,
                 with_next("The plan was made for the tree " + file.plan.digest + ", and " + tree.digest +
                               " is frozen; absorb brings a plan to another tree",
                           "tessera-stack absorb")};
  }
  return make_workspace(std::move(file), std::move(repository), std::move(tree), std::move(progress));
}

Result<Oid> freeze_tree(Repository& repository, const Plan& plan, const Tree& tree) {
  TS_TRY(const auto refs, write_frozen(repository, plan, tree));
  std::vector<RefChange> changes;
  for (const auto& [ref, oid] : refs) changes.push_back({ref, repository.read_ref(ref), oid});
  TS_TRY(repository.change_refs(changes));
  return refs.front().second;
}

Graph graph_of(const Workspace& workspace) {
  // The index is made when the first new name is looked up: most plans with one bucket never ask.
  auto index = std::make_shared<std::optional<WordIndex>>();  // shared with the function that is copied into
                                                              // the inputs
  Graph graph =
      make_graph({.plan = workspace.plan(),
                  .listing = workspace.listing,
                  .ownership = workspace.claims.ownership,
                  .regions = workspace.regions,
                  .is_in_base = [&workspace, index](std::string_view word) {
                    if (!*index)
                      *index = WordIndex::of(workspace.base_tree, workspace.repository, workspace.progress);
                    return (*index)->contains(word);
                  }});
  for (Error& error : graph.errors) {
    if (error.where.starts_with("plan:")) error.where = workspace.plan_name() + error.where.substr(4);
  }
  return graph;
}

Result<void> check_identity(const Workspace& workspace, const Graph& graph) {
  const Ground ground = ground_on_base(workspace.listing);
  const Composer composer(workspace.listing, workspace.claims.ownership, workspace.regions, graph.rank,
                          ground);
  const BucketSet all{std::vector<bool>(workspace.plan().buckets.size(), true), true};
  Stage stage(workspace.progress, "proving the listing", workspace.listing.files.size());
  for (std::size_t i = 0; i < workspace.listing.files.size(); ++i) {
    stage.step();
    const FileChange& file = workspace.listing.files[i];
    const ComposedFile composed = composer.compose(i, all);
    const bool mode_fits = file.after ? composed.mode == file.after->mode : !composed.mode;
    const bool bytes_fit = !file.after || (composed.bytes ? *composed.bytes == *file.new_text.bytes
                                                          : composed.oid == file.after->oid);
    if (!mode_fits || !bytes_fit || !composed.conflicts.empty()) {
      return Error{ErrorKind::kInternal, printable(file.path),
                   "All atoms together do not give the tree's file. This is a bug of tessera-stack; nothing "
                   "was written. Please "
                   "report it with the plan and this path."};
    }
  }
  return {};
}

}  // namespace tessera::stack
