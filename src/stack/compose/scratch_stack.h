// For tests: a repository with a base and a tree commit, a plan beside it, and both opened as a workspace.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "stack/compose/operation.h"
#include "stack/compose/topics.h"
#include "stack/compose/workspace.h"
#include "stack/git/scratch_repository.h"
#include "stack/object/digest.h"

namespace tessera::stack {

class ScratchStack {
 public:
  const ScratchRepository& repository() const { return repository_; }
  void write(std::string_view name, std::string_view bytes) const { repository_.write(name, bytes); }
  void remove(std::string_view name) const { repository_.remove(name); }
  void commit_base() {
    base_ = repository_.commit("base");
    repository_.git("branch base");
  }
  void commit_tree() { tree_ = repository_.commit("tree"); }
  const std::string& base() const { return base_; }
  const std::string& tree() const { return tree_; }
  std::string plan_path() const { return folder_ / "stack.toml"; }

  // The head of a plan for this repository; `more` follows it.
  std::string plan_text(const std::string& more, const std::string& target = "",
                        const std::string& branches = "") const {
    return "format = 1\nname = \"demo\"\n[base]\nrepo = \"" + repository_.path() + "\"\ncommit = \"" + base_ +
           "\"\ntarget = \"" + (target.empty() ? base_ : target) +
           "\"\n[tree]\nsource = \"git:x\"\n[branches]\nprefix = \"t\"\nauthor = \"Ada "
           "<ada@example.org>\"\n" +
           "date = 2026-01-02T03:04:05Z\n" + branches + more;
  }
  // Writes the plan, freezes the tree commit, opens all. Fails the test when that fails.
  Workspace open(const std::string& more, const std::string& target = "",
                 const std::string& branches = "") const {
    folder_.write("stack.toml", plan_text(more, target, branches));
    auto repository = Repository::open(repository_.path());
    EXPECT_TRUE(repository.ok());
    auto file = load_plan(plan_path());
    EXPECT_TRUE(file.ok()) << file.error().message();
    const auto tree = repository->read_tree(*oid_from_hex(tree_));
    EXPECT_TRUE(freeze_tree(*repository, file->plan, *tree).ok());
    auto workspace = open_workspace(plan_path());
    EXPECT_TRUE(workspace.ok()) << workspace.error().message();
    return *std::move(workspace);
  }
  const ScratchFolder& folder() const { return folder_; }

 private:
  ScratchRepository repository_;
  ScratchFolder folder_;
  std::string base_;
  std::string tree_;
};

// Composes everything on the base and moves the branches.
inline Composition split_and_integrate(Workspace& workspace, const Graph& graph) {
  EXPECT_TRUE(graph.errors.empty()) << (graph.errors.empty() ? "" : graph.errors[0].message());
  const auto identity = check_identity(workspace, graph);
  EXPECT_TRUE(identity.ok()) << identity.error().message();
  auto composition = compose_topics(workspace, graph, ground_on_base(workspace.listing));
  EXPECT_TRUE(composition.ok()) << composition.error().message();
  std::vector<std::pair<std::string, std::optional<Oid>>> wanted;
  for (const Topic& topic : composition->topics) {
    if (!topic.is_empty) wanted.emplace_back(topic.ref, topic.commit);
  }
  wanted.emplace_back(composition->integration_ref, composition->integration);
  const auto done = run_operation(workspace.repository, workspace.file, wanted,
                                  {.verb = "split", .when = "now", .plan_text = {}});
  EXPECT_TRUE(done.ok()) << done.error().message();
  return *std::move(composition);
}

}  // namespace tessera::stack
