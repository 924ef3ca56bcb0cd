// The search of a fork's base, and what an installed tree says of its own.
#include "stack/move/base_search.h"

#include <gmock/gmock.h>

#include <random>

#include "base/test_seed.h"
#include "stack/compose/scratch_stack.h"
#include "stack/move/version_hint.h"
#include "stack/object/memory_store.h"

namespace tessera::stack {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

TEST(BaseSearch, DescendsToTheTrueBase) {
  ScratchStack scratch;
  const ScratchRepository& git = scratch.repository();
  std::string fork_point;
  for (int i = 0; i < 30; ++i) {
    scratch.write("f" + std::to_string(i % 10), numbered(i, i + 10));
    const std::string commit = git.commit("main " + std::to_string(i));
    if (i == 17) fork_point = commit;
  }
  git.git("checkout -q -b fork " + fork_point);
  scratch.write("f3", "fork\n");
  const std::string fork = git.commit("fork");
  const auto repository = Repository::open(git.path());
  const auto commit = repository->read_commit(*oid_from_hex(fork));
  const auto found = find_bases(*repository, commit->tree, {.branches = {"main"}});
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(to_hex(found->at(0).commit), fork_point);
  EXPECT_EQ(found->at(0).files, 1);
}

// Upstream reformatted everything and took it back a few commits later; the fork stands in between.
TEST(BaseSearch, AValleyBetweenTwoSamplesIsFoundWhenEveryCommitIsCompared) {
  ScratchRepository git;
  // As `git fast-import` reads it: two hundred commits in one go.
  std::string stream;
  const auto commit_all = [&](const std::string& message, const std::string& text) {
    stream += "commit refs/heads/main\ncommitter A <a@b> 1700000000 +0000\ndata " +
              std::to_string(message.size()) + "\n" + message + "\n";
    for (int f = 0; f < 20; ++f) {
      const std::string bytes = text + std::to_string(f) + "\n";
      stream += "M 644 inline f" + std::to_string(f) + "\ndata " + std::to_string(bytes.size()) + "\n" +
                bytes + "\n";
    }
  };
  const auto commit_one = [&](int i) {
    const std::string bytes = std::to_string(i) + "\n";
    stream +=
        "commit refs/heads/main\ncommitter A <a@b> 1700000000 +0000\ndata 1\nx\nM 644 inline log\ndata " +
        std::to_string(bytes.size()) + "\n" + bytes + "\n";
  };
  commit_all("plain", "plain ");
  for (int i = 0; i < 100; ++i) commit_one(i);
  commit_all("reformat", "formatted ");
  for (int i = 100; i < 105; ++i) commit_one(i);
  commit_all("take it back", "plain ");
  for (int i = 105; i < 190; ++i) commit_one(i);
  git.folder().write("stream", stream);
  git.git("fast-import --quiet < stream");
  const std::string base = git.git("log -1 --format=%H --skip=88 --first-parent main");
  ASSERT_EQ(git.git("show " + base + ":f0"), "formatted 0");
  git.git("checkout -q -f -b fork " + base);
  std::filesystem::remove(git / "stream");
  git.write("f3", "ours\n");
  const std::string tip = git.commit("fork");
  const auto repository = Repository::open(git.path());
  const Oid tree = repository->read_commit(*oid_from_hex(tip))->tree;
  const auto sampled = find_bases(*repository, tree, {.branches = {"main"}});
  ASSERT_TRUE(sampled.ok());
  EXPECT_GT(sampled->at(0).files, 1);
  const auto every = find_bases(*repository, tree, {.branches = {"main"}, .every_commit = true});
  ASSERT_TRUE(every.ok());
  EXPECT_EQ(to_hex(every->at(0).commit), base);
  EXPECT_EQ(every->at(0).files, 1);
}

// Counting from one commit to the next is right only when nothing is forgotten: git counts all of them.
TEST(BaseSearchProperty, TheNearestOfAHistoryIsTheOneThatGitCounts) {
  const unsigned seed = test_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  ScratchRepository git;
  std::vector<std::string> history;
  for (int i = 0; i < 40; ++i) {
    for (int n = 0; n < 3; ++n)
      git.write("f" + std::to_string(random() % 12), std::to_string(random() % 3) + "\n");
    if (random() % 4 == 0) git.remove("f" + std::to_string(random() % 12));
    history.push_back(git.commit("c" + std::to_string(i)));
  }
  git.git("checkout -q -b fork " + history[random() % history.size()]);
  git.write("f0", "ours\n");
  const std::string tip = git.commit("fork");
  auto repository = Repository::open(git.path());
  const auto commit = repository->read_commit(*oid_from_hex(tip));
  const auto found = find_bases(*repository, commit->tree, {.branches = {"main"}, .most = 1});
  ASSERT_TRUE(found.ok());
  std::int64_t least = 1'000;
  for (const std::string& id : history) {
    const std::string names = git.git("diff --no-renames --name-only " + id + " " + tip);
    least = std::min<std::int64_t>(least, names.empty() ? 0 : std::ranges::count(names, '\n') + 1);
  }
  EXPECT_EQ(found->at(0).files, least);
}

TEST(VersionHint, IdsComeBeforeTags) {
  EXPECT_THAT(names_of_version("0.15.1.dev3+g9aaf83ef5.d20260101"),
              ElementsAre("9aaf83ef5", "v0.15.1", "0.15.1"));
  EXPECT_THAT(names_of_version("v0.16.0rc2"), ElementsAre("v0.16.0rc2", "0.16.0rc2"));
  EXPECT_THAT(names_of_version("gdeadbeef1"), ElementsAre("deadbeef1"));
  EXPECT_THAT(names_of_version("unknown"), IsEmpty());
  EXPECT_THAT(names_of_version("7"), IsEmpty());
}

TEST(VersionHint, FilesAndLabelsAreRead) {
  MemoryStore blobs;
  Tree tree;
  tree.labels["org.opencontainers.image.revision"] = "0123456789abcdef0123456789abcdef01234567";
  const auto add = [&](const std::string& path, const std::string& text) {
    tree.entries.push_back({.path = path, .oid = *blobs.write(text), .size = text.size()});
  };
  add("pkg-1.2.dist-info/METADATA", "Metadata-Version: 2.1\nName: pkg\nVersion: 1.2.3+gabcdef0\n");
  add("pkg/_version.py", "# made\n__version__ = version = '1.2.4'\n__commit_id__ = commit_id = None\n");
  add("pkg/direct_url.json", R"({"vcs_info": {"commit_id": "fedcba9876543210fedcba9876543210fedcba98"}})");
  add("readme", "Version: 9.9\n");
  std::vector<std::string> said;
  for (const VersionHint& hint : find_version_hints(tree, blobs)) said.push_back(hint.names.front());
  EXPECT_THAT(said, ElementsAre("0123456789abcdef0123456789abcdef01234567", "abcdef0", "v1.2.4",
                                "fedcba9876543210fedcba9876543210fedcba98"));
}

}  // namespace
}  // namespace tessera::stack
