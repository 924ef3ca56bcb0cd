// Trees compared, with git as the judge.
#include <gmock/gmock.h>

#include <random>
#include <sstream>

#include "base/test_seed.h"
#include "stack/git/repository.h"
#include "stack/git/scratch_repository.h"
#include "stack/object/digest.h"

namespace tessera::stack {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

// A few files of few different lines, so that blocks repeat, slide, meet and cancel; sometimes a mode,
// sometimes a file less.
void scramble(const ScratchRepository& git, std::mt19937& random) {
  for (int n = 0; n < 3; ++n) {
    const std::string name = "d" + std::to_string(random() % 2) + "/f" + std::to_string(random() % 4);
    std::string text;
    for (auto line = random() % 30; line > 0; --line) text += "word " + std::to_string(random() % 9) + "\n";
    if (random() % 4 == 0) text += "no end";
    git.write(name, text);
    if (random() % 5 == 0) run_command("chmod +x '" + (git / name) + "'");
  }
  if (random() % 3 == 0) git.remove("d0/f" + std::to_string(random() % 4));
}

TEST(RepositoryDiffProperty, PathsLinesAndPatchIdsAreGits) {
  const unsigned seed = test_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const ScratchRepository git;
  git.write("keep", "1\n");
  std::vector<std::string> commits = {git.commit("first")};
  for (int i = 0; i < 25; ++i) {
    scramble(git, random);
    commits.push_back(git.commit("c" + std::to_string(i)));
  }
  const auto repository = Repository::open(git.path());
  int compared = 0;
  for (std::size_t i = 0; i + 1 < commits.size(); ++i) {
    const std::string both = commits[i] + " " + commits[i + 1];
    const Oid a = repository->read_commit(*oid_from_hex(commits[i]))->tree;
    const Oid b = repository->read_commit(*oid_from_hex(commits[i + 1]))->tree;
    const auto paths = lines_of(git.git("diff --no-renames --name-only " + both));
    EXPECT_EQ(*repository->changed_paths(a, b), paths) << both;
    std::int64_t added_and_removed = 0;
    for (const std::string& row : lines_of(git.git("diff --no-renames --numstat " + both))) {
      std::istringstream in(row);
      std::int64_t added = 0, removed = 0;
      in >> added >> removed;
      added_and_removed += added + removed;
    }
    const auto distance = repository->distance(a, b, true);
    EXPECT_EQ(distance->lines, added_and_removed) << both;
    EXPECT_EQ(distance->files, static_cast<std::int64_t>(paths.size())) << both;
    const std::string id = git.git("diff --no-renames " + both + " | git patch-id --stable");
    const auto ours = repository->patch_id(a, b);
    EXPECT_EQ(ours ? to_hex(*ours) : "", id.substr(0, std::min<std::size_t>(40, id.size()))) << both;
    compared += ours.has_value();
  }
  EXPECT_GT(compared, 15);
}

TEST(RepositoryDiff, APatchIdSeesNeitherPlacesNorBlanks) {
  const ScratchRepository git;
  const auto tree = [&](const std::string& text) {
    git.write("f", text);
    return *oid_from_hex(git.git("rev-parse " + git.commit("x") + "^{tree}"));
  };
  const Oid a = tree("1\n2\n3\nold\n5\n6\n7\n"), b = tree("1\n2\n3\nnew\n5\n6\n7\n");
  const Oid c = tree("top\n\n\n1\n2\n3\nold\n5\n6\n7\n"), d = tree("top\n\n\n1\n2\n3\nn e w\n5\n6\n7\n");
  const auto repository = Repository::open(git.path());
  EXPECT_EQ(repository->patch_id(a, b), repository->patch_id(c, d));
  EXPECT_NE(repository->patch_id(a, b), repository->patch_id(b, a));
  EXPECT_EQ(repository->patch_id(a, a), std::nullopt);
  EXPECT_THAT(*repository->changed_paths(a, a), IsEmpty());
  EXPECT_THAT(*repository->changed_paths(a, d), ElementsAre("f"));
}

TEST(RepositoryDiff, AMissingBlobHasNoPatchId) {
  const ScratchRepository git;
  git.write("f", "before\n");
  const std::string a = git.commit("a");
  git.write("f", "after\n");
  const std::string b = git.commit("b");
  const std::string blob = to_hex(blob_oid("after\n"));
  std::filesystem::remove(git.folder().path() / ".git/objects" / blob.substr(0, 2) / blob.substr(2));
  const auto repository = Repository::open(git.path());
  const Oid before = repository->read_commit(*oid_from_hex(a))->tree;
  const Oid after = repository->read_commit(*oid_from_hex(b))->tree;
  EXPECT_EQ(repository->patch_id(before, after), std::nullopt);
  EXPECT_THAT(*repository->changed_paths(before, after), ElementsAre("f"));
}

}  // namespace
}  // namespace tessera::stack
