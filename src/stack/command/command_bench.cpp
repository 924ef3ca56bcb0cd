// The round trip on a tree of 5,000 files, as the command line does it, from 100 to 20,000 atoms, with git's
// own commands beside it where they do the same job. 5,000 files and 700 atoms are the size of a patched vLLM
// (4,969 files, 693 atoms); time per atom shows what grows faster than they do, on top of what 5,000 files
// cost by themselves.
#include <benchmark/benchmark.h>

#include <chrono>
#include <fstream>
#include <iostream>

#include "base/scratch_folder.h"
#include "stack/command/typed.h"
#include "stack/git/repository.h"
#include "stack/git/run_command.h"
#include "stack/object/digest.h"

namespace tessera::stack {
namespace {

constexpr int kFiles = 5000;
constexpr int kLines = 240;  // a file, about 12 kB
constexpr std::size_t kBuckets = 10;

// Where the atoms lie: four in a file, so that their number is that of changed files; or all in ten files of
// 8,000 lines, so that it is that of atoms in one file.
enum class Shape { kWide, kDense };
constexpr int kAtomsOfAWideFile = 4;
constexpr int kDenseFiles = 10;
constexpr int kDenseLines = 8000;

std::string path_of(int i) {
  return "pkg/d" + std::to_string(i / 100) + "/s" + std::to_string(i / 10 % 10) + "/module_" +
         std::to_string(i) + ".py";
}

// `atoms` of the lines are changed, evenly.
std::string content(int i, int lines, int atoms) {
  std::string out;
  const int step = atoms == 0 ? lines : lines / atoms;
  for (int line = 0; line < lines; ++line) {
    const bool here = atoms > 0 && line % step == step / 2 && line / step < atoms;
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
  std::vector<std::string> changed_folders;

  Site(Shape shape, int atoms) {
    auto made = Repository::create_bare(repository);
    std::vector<TreeChange> changes;
    const int changed = shape == Shape::kWide ? atoms / kAtomsOfAWideFile : kDenseFiles;
    for (int i = 0; i < kFiles; ++i) {
      const bool is_dense = shape == Shape::kDense && i % (kFiles / kDenseFiles) == 0;
      const int lines = is_dense ? kDenseLines : kLines;
      // Spread evenly: file i is changed when i * changed passes a multiple of kFiles.
      const bool is_changed = static_cast<std::int64_t>(i) * changed % kFiles < changed;
      const std::string top = "pkg/d" + std::to_string(i / 100);
      if (is_changed && (changed_folders.empty() || changed_folders.back() != top))
        changed_folders.push_back(top);
      changes.push_back({path_of(i), FileMode::kFile, *made->write(content(i, lines, 0))});
      folder.write("tree/" + path_of(i), content(i, lines, is_changed ? atoms / changed : 0));
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
    for (std::size_t b = 0; b < kBuckets; ++b) {
      file << "\n[[bucket]]\nname = \"topic-" << b << "\"\ntake = [";
      for (std::size_t d = b; d < changed_folders.size(); d += kBuckets)
        file << "\"glob:" << changed_folders[d] << "/**\", ";
      file << "]\n";
    }
  }
  void compose() const {
    (void)init();
    add_buckets();
    (void)run({"split"});
    (void)run({"integrate"});
  }
  std::string git(const std::string& arguments) const {
    return "GIT_DIR='" + repository + "' GIT_WORK_TREE='" + tree + "' GIT_INDEX_FILE='" +
           folder.path().string() + "/index' git " + arguments;
  }
};

// The most memory since the last call, in MiB.
double peak_memory() {
  std::ifstream status("/proc/self/status");
  double peak = 0;
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) peak = std::stod(line.substr(6)) / 1024;
  }
  std::ofstream("/proc/self/clear_refs") << 5;  // begin anew
  return peak;
}

// Iterations are fixed: a run leaves objects behind, and later ones would find them.
constexpr int kRuns = 3;

void each_size(benchmark::internal::Benchmark* bench) {
  bench->ArgName("atoms")->Arg(100)->Arg(700)->Arg(5000)->Arg(20000);
  bench->Unit(benchmark::kMillisecond)->Iterations(kRuns);
}

void per_atom(benchmark::State& state, const char* name, double seconds) {
  state.counters[name] = seconds / kRuns * 1e6 / static_cast<double>(state.range(0));
}

// All four verbs; each one's share in microseconds an atom.
template <Shape shape>
void round_trip(benchmark::State& state) {
  const Site site(shape, static_cast<int>(state.range(0)));
  const std::vector<const char*> verbs = {"init", "split", "integrate", "verify"};
  std::vector<double> seconds(verbs.size());
  (void)peak_memory();
  for (auto _ : state) {
    for (std::size_t v = 0; v < verbs.size(); ++v) {
      const auto begin = std::chrono::steady_clock::now();
      if ((v == 0 ? site.init() : site.run({verbs[v]})) != 0) state.SkipWithError(verbs[v]);
      seconds[v] += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      if (v == 0) site.add_buckets();
    }
  }
  state.counters["peak_MiB"] = peak_memory();
  double all = 0;
  for (std::size_t v = 0; v < verbs.size(); ++v) {
    per_atom(state, ("us_" + std::string(verbs[v])).c_str(), seconds[v]);
    all += seconds[v];
  }
  per_atom(state, "us_per_atom", all);
}
BENCHMARK(round_trip<Shape::kWide>)->Name("stack/round_trip/files:5000/wide")->Apply(each_size);
BENCHMARK(round_trip<Shape::kDense>)->Name("stack/round_trip/files:5000/dense")->Apply(each_size);

// What programs of git's take for the same job; what they print must be `expected`.
struct GitsWay {
  std::string (*command)(const Site&);
  std::string (*expected)(const Site&, std::int64_t atoms);
};

void git_beside(benchmark::State& state, Shape shape, GitsWay way) {
  const Site site(shape, static_cast<int>(state.range(0)));
  site.compose();
  const std::string typed = way.command(site);
  const std::string wanted = way.expected(site, state.range(0));
  double seconds = 0;
  for (auto _ : state) {
    const auto begin = std::chrono::steady_clock::now();
    const CommandOutput out = run_command(typed);
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (out.status != 0 || out.text != wanted) state.SkipWithError(out.text.substr(0, 200).c_str());
  }
  per_atom(state, "us_per_atom", seconds);
}

// git's nearest to init: put a folder into the object database, and show the difference.
std::string add_and_diff(const Site& site) {
  return "rm -f '" + site.folder.path().string() + "/index'; " + site.git("add -A && ") +
         site.git("diff --cached -U0 main | grep -c '^@@'");
}
std::string count_of(const Site&, std::int64_t atoms) { return std::to_string(atoms); }

// To split and integrate: the same blocks of text put onto the base, once.
std::string apply_and_write(const Site& site) {
  const std::string patch = "'" + (site.folder / "all.patch") + "'";
  run_command(site.git("diff -U0 main refs/tessera-stack/bench/tree > " + patch));
  return site.git("read-tree main && ") + site.git("apply --cached --unidiff-zero " + patch + " && ") +
         site.git("write-tree");
}
std::string tree_of(const Site& site, std::int64_t) {
  return run_command(site.git("rev-parse refs/tessera-stack/bench/tree")).text;
}

// To verify.
std::string diff_trees(const Site& site) {
  return site.git("diff --exit-code refs/tessera-stack/bench/tree tessera/bench/integration");
}
std::string nothing(const Site&, std::int64_t) { return ""; }

BENCHMARK_CAPTURE(git_beside, add, Shape::kWide, {add_and_diff, count_of})
    ->Name("git/add_and_diff/files:5000/wide")
    ->Apply(each_size);
BENCHMARK_CAPTURE(git_beside, apply, Shape::kWide, {apply_and_write, tree_of})
    ->Name("git/apply_and_write_tree/files:5000/wide")
    ->Apply(each_size);
BENCHMARK_CAPTURE(git_beside, apply_dense, Shape::kDense, {apply_and_write, tree_of})
    ->Name("git/apply_and_write_tree/files:5000/dense")
    ->Apply(each_size);
BENCHMARK_CAPTURE(git_beside, diff, Shape::kWide, {diff_trees, nothing})
    ->Name("git/diff_trees/files:5000/wide")
    ->Apply(each_size);

}  // namespace
}  // namespace tessera::stack
