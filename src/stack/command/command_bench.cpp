// The round trip on a tree of 5,000 files with 700 atoms, as the command line does it, with git's own
// commands beside it where they do the same job. Sizes are those of a patched vLLM (4,969 files, 693 atoms).
#include <benchmark/benchmark.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "stack/command/typed.h"
#include "stack/git/repository.h"
#include "stack/git/scratch_folder.h"
#include "stack/object/digest.h"

namespace tessera::stack {
namespace {

constexpr int kFiles = 5000;
constexpr int kLines = 240;  // a file, about 12 kB
constexpr int kChangedFiles = 100;
constexpr int kAtomsEach = 7;
constexpr int kBuckets = 10;

std::string path_of(int i) {
  return "pkg/d" + std::to_string(i / 100) + "/s" + std::to_string(i / 10 % 10) + "/module_" +
         std::to_string(i) + ".py";
}

std::string content(int i, bool is_changed) {
  std::string out;
  for (int line = 0; line < kLines; ++line) {
    const bool here =
        is_changed && line % (kLines / kAtomsEach) == 5 && line / (kLines / kAtomsEach) < kAtomsEach;
    out += "    value_" + std::to_string(i % 7) + "_" + std::to_string(line) + " = compute(" +
           std::to_string(here ? line + 100000 : line) + ", flag=True)\n";
  }
  return out;
}

// A bare repository with the base, and a folder with the tree.
struct Site {
  ScratchFolder folder;
  std::string repository = folder / "base.git";
  std::string tree = folder / "tree";
  std::string plan = folder / "stack.toml";

  Site() {
    auto made = Repository::create_bare(repository);
    std::vector<TreeChange> changes;
    for (int i = 0; i < kFiles; ++i) {
      changes.push_back({path_of(i), FileMode::kFile, *made->write(content(i, false))});
      folder.write("tree/" + path_of(i), content(i, i % (kFiles / kChangedFiles) == 0));
    }
    const Oid root = *made->write_tree(std::nullopt, std::move(changes));
    const Signature who{.name = "Ada", .email = "ada@example.org", .seconds = 1'700'000'000};
    const Oid commit = *made->write_commit(
        {.id = {}, .tree = root, .parents = {}, .author = who, .committer = who, .message = "base\n"});
    (void)made->change_refs({{"refs/heads/main", std::nullopt, commit}}).ok();
    run_command("git -C '" + repository + "' repack -adq");  // as a clone is
  }

  int run(const std::vector<std::string>& arguments) const {
    const Answer answer = type(plan, arguments);
    if (answer.code > 1) std::cerr << answer.err;
    return answer.code;
  }
  int init() const {
    return run({"init", "--force", "--repo", repository, "--base", "main", "--tree", "dir:" + tree, "--name",
                "bench"});
  }
  void add_buckets() const {
    std::ofstream file(plan, std::ios::app);
    for (int b = 0; b < kBuckets; ++b) {
      file << "\n[[bucket]]\nname = \"topic-" << b << "\"\ntake = [";
      for (int d = 0; d < kFiles / 100; ++d) {
        if (d % kBuckets == b) file << "\"glob:pkg/d" << d << "/**\", ";
      }
      file << "]\n";
    }
  }
};

void round_trip(benchmark::State& state) {
  const Site site;
  for (auto _ : state) {
    if (site.init() != 0) state.SkipWithError("init failed");
    site.add_buckets();
    for (const char* verb : {"split", "integrate", "verify"}) {
      if (site.run({verb}) != 0) state.SkipWithError(verb);
    }
  }
  state.counters["atoms"] = kChangedFiles * kAtomsEach;
}
BENCHMARK(round_trip)
    ->Name("stack/round_trip/files:5000/atoms:700/buckets:10")
    ->Unit(benchmark::kMillisecond)
    ->Iterations(5);

void one_verb(benchmark::State& state, const std::vector<std::string>& arguments) {
  const Site site;
  if (site.init() != 0) state.SkipWithError("init failed");
  site.add_buckets();
  (void)site.run({"split"});
  (void)site.run({"integrate"});
  for (auto _ : state) {
    if (site.run(arguments) != 0) state.SkipWithError("failed");
  }
}
BENCHMARK_CAPTURE(one_verb, list, std::vector<std::string>{"list"})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(5);
BENCHMARK_CAPTURE(one_verb, split, std::vector<std::string>{"split"})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(5);
BENCHMARK_CAPTURE(one_verb, verify, std::vector<std::string>{"verify"})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(5);

void init_alone(benchmark::State& state) {
  const Site site;
  for (auto _ : state) {
    if (site.init() != 0) state.SkipWithError("init failed");
  }
}
BENCHMARK(init_alone)->Unit(benchmark::kMillisecond)->Iterations(5);

// git's nearest to init: put a folder into the object database, and show the difference.
void git_add_and_diff(benchmark::State& state) {
  const Site site;
  const std::string env = "GIT_DIR='" + site.repository + "' GIT_WORK_TREE='" + site.tree +
                          "' GIT_INDEX_FILE='" + site.folder.path().string() + "/index' git ";
  for (auto _ : state) {
    const CommandOutput out = run_command("rm -f '" + site.folder.path().string() + "/index'; " + env +
                                          "add -A && " + env + "diff --cached -U0 main | grep -c '^@@'");
    if (out.text != std::to_string(kChangedFiles * kAtomsEach)) state.SkipWithError(out.text.c_str());
  }
}
BENCHMARK(git_add_and_diff)->Unit(benchmark::kMillisecond)->Iterations(5);

// git's nearest to verify.
void git_diff_trees(benchmark::State& state) {
  const Site site;
  (void)site.init();
  site.add_buckets();
  (void)site.run({"split"});
  (void)site.run({"integrate"});
  for (auto _ : state) {
    const CommandOutput out =
        run_command("git -C '" + site.repository +
                    "' diff --exit-code refs/tessera-stack/bench/tree tessera/bench/integration");
    if (out.status != 0) state.SkipWithError("differs");
  }
}
BENCHMARK(git_diff_trees)->Unit(benchmark::kMillisecond)->Iterations(5);

}  // namespace
}  // namespace tessera::stack
