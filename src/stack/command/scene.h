// For tests: a base on main, a tree on the branch "running", a plan beside them, and what somebody types
// there.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "stack/command/typed.h"
#include "stack/git/scratch_repository.h"

namespace tessera::stack {

struct Scene {
  ScratchRepository git;
  ScratchFolder work;
  std::string base;
  std::string tree;

  std::string plan() const { return work / "stack.toml"; }
  Answer run(const std::vector<std::string>& arguments) const { return type(plan(), arguments); }
  void commit_base() { base = git.commit("base"); }
  void commit_tree() {
    git.git("checkout -q -b running");
    tree = git.commit("tree");
    git.git("checkout -q --detach");
  }
  // Onto "running", on from what is in the working folder.
  void commit_on(const std::string& message) {
    if (tree.empty()) git.git("checkout -q -b running");
    tree = git.commit(message);
  }
  void init() const {
    const Answer answer = run({"init", "--repo", git.path(), "--base", base, "--tree",
                               "git:" + git.path() + "@running", "--name", "demo"});
    ASSERT_EQ(answer.code, 0) << answer.err;
  }
  // suggest, split, integrate, verify: all of them must hold.
  void round_trip(const std::vector<std::string>& suggest = {"suggest"}) const {
    for (const std::vector<std::string>& verb :
         {suggest, {"plan", "check"}, {"split"}, {"integrate"}, {"verify"}}) {
      const Answer answer = run(verb);
      ASSERT_EQ(answer.code, 0) << verb[0] << ": " << answer.out << answer.err;
    }
  }
  void add(const std::string& text) const { std::ofstream(plan(), std::ios::app) << text; }
  std::string id_of(const std::string& path, const std::string& kind = "text") const {
    const nlohmann::json listed = run({"list", "--json"}).json();
    for (const auto& atom : listed["atoms"]) {
      if (atom["path"] == path && atom["kind"] == kind) return "h:" + atom["id"].get<std::string>();
    }
    return "none";
  }
};

// The command behind "; next: ", typed in `folder`.
inline CommandOutput run_next(const Answer& answer, const std::string& folder) {
  const std::size_t at = answer.err.rfind("; next: ") + 8;
  return run_command("cd '" + folder + "' && (" + answer.err.substr(at, answer.err.size() - at - 1) + ")");
}

}  // namespace tessera::stack
