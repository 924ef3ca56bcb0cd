// Forks as people run them, rebuilt small: made of commits, of patch files, of equal texts, on a wrong base.
// git is the judge.
#include <gmock/gmock.h>

#include <set>

#include "stack/command/scene.h"
#include "stack/object/digest.h"
#include "stack/source/test_archive.h"

namespace tessera::stack {
namespace {

using testing::AllOf;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::Not;

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

// A fork of six commits: topics in files of their own, one line of one commit changed by another, a commit
// that puts back what an earlier one removed and so owns nothing.
TEST(ForkScenario, AForkOfCommitsGoesRoundAndBack) {
  Scene s;
  s.git.write("pkg/a.py", numbered(1, 40));
  s.git.write("pkg/b.py", numbered(1, 30, "row"));
  s.commit_base();
  std::string a = numbered(1, 40);
  s.git.write("pkg/a.py", a = replaced(a, "line 5\n", "line 5\nfirst 1\nfirst 2\nfirst 3\n"));
  s.commit_on("First topic");
  s.git.write("pkg/b.py", numbered(1, 9, "row") + numbered(20, 30, "row"));
  s.commit_on("Take ten rows out");
  s.git.write("pkg/b.py", numbered(1, 30, "row"));
  s.commit_on("Put the ten rows back");
  s.git.write("pkg/a.py", a = replaced(a, "first 2\n", "second\n"));
  s.commit_on("Second topic, in lines of the first");
  s.git.write("pkg/a.py", a = replaced(a, "line 30\nline 31\n", ""));
  s.commit_on("Third topic only removes");
  s.git.write("tools/run.sh", "go\n");
  s.commit_on("Fourth topic creates");
  s.git.git("checkout -q --detach");
  s.init();
  const std::string before = s.git.git("for-each-ref");

  const Answer suggested =
      s.run({"--json", "--dry-run", "suggest", "--from-commits", s.base + ".." + s.tree});
  ASSERT_EQ(suggested.code, 0) << suggested.err;
  EXPECT_EQ(suggested.json()["buckets"].size(), 4U) << suggested.out;
  EXPECT_EQ(suggested.json()["mixed_atoms"], 1);
  EXPECT_THAT(suggested.json()["notes"].dump(), HasSubstr("Put the ten rows back"));

  s.round_trip({"suggest", "--from-commits", s.base + ".." + s.tree});
  EXPECT_EQ(s.run({"verify", "--json"}).json()["unassigned"], 0);
  EXPECT_EQ(s.git.git("rev-parse tessera/demo/integration^{tree}"), s.git.git("rev-parse running^{tree}"));
  EXPECT_EQ(s.git.git("fsck --full --strict --no-dangling"), "");
  const std::string heads = s.git.git("for-each-ref refs/heads");
  ASSERT_EQ(s.run({"undo"}).code, 0);  // integrate
  ASSERT_EQ(s.run({"undo"}).code, 0);  // split
  EXPECT_EQ(s.git.git("for-each-ref refs/heads"),
            s.git.git("for-each-ref refs/heads/main refs/heads/running"));
  ASSERT_EQ(s.run({"split"}).code, 0);
  ASSERT_EQ(s.run({"integrate"}).code, 0);
  EXPECT_EQ(s.git.git("for-each-ref refs/heads"), heads);  // the same commits
  for (int i = 0; i < 3; ++i) ASSERT_EQ(s.run({"undo"}).code, 0);
  EXPECT_EQ(s.git.git("for-each-ref"), before);
  EXPECT_EQ(s.git.git("fsck --full --strict --no-dangling"), "");
}

// The folder of patches from which somebody's image was built.
TEST(ForkScenario, EachPatchOfAFolderIsToldWhatItIsToTheTree) {
  Scene s;
  const std::string snapshot = numbered(1, 60);
  const std::string synced = replaced(snapshot, "line 10\n", "line ten\n");
  const std::string final_text = replaced(synced, "line 40\n", "line 40\ntimer\n");
  s.git.write("mla.py", snapshot);
  s.commit_base();
  s.git.write("mla.py", final_text);
  s.git.write("eagle.py", numbered(1, 30, "moved") + "x = 1\nold = 2\nz = 3\n");
  s.commit_tree();
  s.init();
  // Two patches that lead to one text: the whole way from the snapshot, and the last step.
  const auto diff = [&](const std::string& name, const std::string& from, const std::string& to) {
    ScratchRepository git;
    git.write("mla.py", from);
    const std::string old = git.commit("old");
    git.write("mla.py", to);
    s.work.write(name, git.git("diff " + old + " --abbrev=9 -- mla.py") + "\n");
  };
  diff("whole.patch", snapshot, final_text);
  diff("last.patch", synced, final_text);
  // Made where the file was 30 lines shorter.
  s.work.write("final_diff.patch",
               "--- a/eagle.py\n+++ b/eagle.py\n@@ -1,3 +1,3 @@\n x = 1\n-y = 2\n+old = 2\n z = 3\n");
  s.work.write("win.patch",
               "--- a/mla.py\n+++ b/mla.py\n@@ -20,3 +20,3 @@\n line 20\n-line 21\n+LINE\n line 22\n"
               "@@ -50,3 +50,3 @@\n alpha\n-beta\n+BETA\n gamma\n");
  s.work.write("PROPOSED.patch", "--- Change the kernel so that it is faster.\nWords, and more words.\n");
  const Answer shown = s.run({"show", "--patch", s.work / "whole.patch", s.work / "last.patch",
                              s.work / "final_diff.patch", s.work / "win.patch", s.work / "PROPOSED.patch"});
  EXPECT_EQ(shown.code, 1) << shown.err;  // not all of them are there
  EXPECT_THAT(shown.out, AllOf(HasSubstr("mla.py: already there"),
                               HasSubstr("gives without it " + to_hex(blob_oid(snapshot)).substr(0, 12)),
                               HasSubstr("gives without it " + to_hex(blob_oid(synced)).substr(0, 12)),
                               ContainsRegex("whole.patch.*last.patch.*lead to one text of mla.py")));
  EXPECT_THAT(shown.out, AllOf(HasSubstr("eagle.py: already there"), HasSubstr("offset 30")));
  EXPECT_THAT(shown.out,
              AllOf(HasSubstr("mla.py: fits in part"), HasSubstr("hunk at patch line 8: fits nowhere")));
  EXPECT_THAT(shown.out, HasSubstr("prose, no diff"));
}

// A branch that merged a newer main than the one that it is compared with.
TEST(ForkScenario, DriftOfUpstreamIsToldFromTheForksOwnChanges) {
  Scene s;
  for (int i = 0; i < 12; ++i) s.git.write("up/" + std::to_string(i) + ".py", numbered(1, 20));
  s.git.write("own.py", numbered(1, 20));
  s.commit_base();
  for (int i = 0; i < 8; ++i)
    s.git.write("up/" + std::to_string(i) + ".py", numbered(1, 20) + "upstream went on\n");
  const std::string newer = s.git.commit("upstream went on");
  s.git.write("own.py", replaced(numbered(1, 20), "line 7\n", "ours\n"));
  s.commit_tree();
  s.git.git("branch newer " + newer);
  s.init();
  const Answer doctor = s.run({"doctor"});
  EXPECT_EQ(doctor.code, 1) << doctor.out << doctor.err;
  EXPECT_THAT(doctor.out, AllOf(HasSubstr("The stated base is 9 files and "),
                                HasSubstr("8 files look like upstream drift")));
  // What the sentence names starts from there, with the fork's own file only.
  const std::size_t at = doctor.out.find("; next: ") + 8;
  const std::string next = doctor.out.substr(at, doctor.out.find('\n', at) - at);
  EXPECT_THAT(
      next, AllOf(HasSubstr("--base " + newer.substr(0, 12)), HasSubstr("git:" + s.git.path() + "@running")));
  std::istringstream words(next);
  std::vector<std::string> typed;
  for (std::string word; words >> word;) typed.push_back(word);
  ASSERT_EQ(typed[2], "NEW.toml");
  typed.erase(typed.begin(), typed.begin() + 3);
  typed.insert(typed.end(), {"--name", "again", "--json"});
  const Answer again = type(s.work / "new.toml", typed);
  ASSERT_EQ(again.code, 0) << again.err;
  EXPECT_EQ(again.json()["files"], 1);
  EXPECT_EQ(type(s.work / "new.toml", {"doctor"}).code, 0);
}

TEST(ForkScenario, TheBaseOfABareFolderIsFoundInTheHistory) {
  Scene s;
  std::vector<std::string> commits;
  for (int i = 0; i < 30; ++i) {
    s.git.write("up/" + std::to_string(i % 10) + ".py", numbered(1, 20) + numbered(0, i, "change"));
    commits.push_back(s.git.commit("change " + std::to_string(i)));
  }
  const ScratchFolder tree;
  for (int i = 0; i < 10; ++i)
    tree.write("up/" + std::to_string(i) + ".py",
               s.git.git("show " + commits[17] + ":up/" + std::to_string(i) + ".py") + "\n");
  tree.write("up/3.py", "patched\n");
  tree.write("more.py", "ours\n");
  const Answer doctor =
      s.run({"doctor", "--repo", s.git.path(), "--tree", "dir:" + tree.path().string(), "--json"});
  EXPECT_EQ(doctor.json()["bases"][0]["commit"], commits[17]) << doctor.out;
  EXPECT_EQ(doctor.json()["bases"][0]["files"], 2);
}

// A revert that brings a deleted file's text back into another one, in files full of equal blocks.
TEST(ForkScenario, EqualTextsHaveIdsOfTheirOwnThatStay) {
  Scene s;
  const auto block = [](int i) { return "def f" + std::to_string(i) + "():\n    setup()\n    pass\n\n\n"; };
  std::string layer, changed;
  for (int i = 0; i < 7; ++i) {
    layer += block(i);
    changed += replaced(block(i), "    pass\n", "    return run()\n");
  }
  std::string runner;
  for (int i = 0; i < 30; ++i) runner += "run_step(" + std::to_string(i) + ")\n";
  s.git.write("layer.py", layer);
  s.git.write("runner.py", runner);
  s.git.write("other.py", numbered(1, 9));
  s.commit_base();
  s.git.remove("runner.py");
  s.git.write("layer.py", changed + runner);
  s.commit_tree();
  s.init();
  const auto ids = [](const Answer& listed) {
    std::vector<std::string> out;
    const nlohmann::json json = listed.json();
    for (const auto& atom : json["atoms"]) out.push_back(atom["id"]);
    return out;
  };
  const std::vector<std::string> first = ids(s.run({"list", "--json"}));
  EXPECT_EQ(first.size(), 9U);  // seven equal blocks, the returned text, the deletion
  EXPECT_EQ(std::set(first.begin(), first.end()).size(), first.size());
  const nlohmann::json listed = s.run({"list", "--json"}).json();
  int twins = 0;
  for (const auto& atom : listed["atoms"]) twins += atom["ordinal"] > 0;
  EXPECT_EQ(twins, 6);
  ASSERT_EQ(s.run({"init", "--force", "--repo", s.git.path(), "--base", s.base, "--tree",
                   "git:" + s.git.path() + "@running", "--name", "demo"})
                .code,
            0);
  EXPECT_EQ(ids(s.run({"list", "--json"})), first);
  // Lines above, in the tree: one atom more, all others as they were.
  s.git.git("checkout -q -f running");
  s.git.write("layer.py", "import sys\n" + changed + runner);
  s.git.commit("more above");
  s.git.git("checkout -q --detach");
  ASSERT_EQ(s.run({"init", "--force", "--repo", s.git.path(), "--base", s.base, "--tree",
                   "git:" + s.git.path() + "@running", "--name", "demo"})
                .code,
            0);
  std::vector<std::string> second = ids(s.run({"list", "--json"}));
  EXPECT_EQ(second.size(), first.size() + 1);
  for (const std::string& id : first) EXPECT_EQ(std::erase(second, id), 1) << id;
  s.round_trip();
  EXPECT_THAT(s.run({"report"}).out, HasSubstr("runner.py -> layer.py, 100 percent of its lines"));
  // Moved to where upstream changed other lines, and the deleted file: that one conflicts, as it does for
  // git.
  s.git.git("checkout -q -f main");
  s.git.write("layer.py", "# header\n" + layer);
  s.git.write("runner.py", runner + "finish()\n");
  s.git.write("other.py", numbered(2, 9));
  s.git.commit("upstream");
  s.git.git("checkout -q --detach");
  const Answer moved = s.run({"rebase", "--onto", "main", "--json"});
  EXPECT_EQ(moved.code, 4) << moved.out << moved.err;
  const nlohmann::json conflicts = moved.json()["conflicts"];
  const CommandOutput merged =
      s.git.try_git("merge-tree --write-tree --name-only --no-messages main running");
  EXPECT_EQ(merged.status, 1);
  std::set<std::string> ours, theirs;
  for (const auto& conflict : conflicts) ours.insert(conflict["path"]);
  std::istringstream lines(merged.text.substr(merged.text.find('\n') + 1));
  for (std::string line; std::getline(lines, line);) theirs.insert(line);
  EXPECT_EQ(ours, theirs);
  EXPECT_EQ(ids(s.run({"list", "--json"})).size(), first.size() + 1);
}

// The new file is one block; what was added inside is a piece of it and a topic that stands on the move.
TEST(ForkScenario, AnEditInsideARenamedFileIsATopicOfItsOwn) {
  Scene s;
  s.git.write("pkg/old.py", numbered(1, 30));
  s.commit_base();
  s.git.remove("pkg/old.py");
  s.git.write("pkg/new.py", numbered(1, 12) + "guard one\nguard two\n" + numbered(13, 30));
  s.commit_tree();
  s.init();
  const std::string block = s.id_of("pkg/new.py");
  s.add(
      "\n[[bucket]]\nname = \"move\"\ntake = [{ rename = [\"pkg/old.py\", \"pkg/new.py\"] "
      "}]\n\n[[bucket]]\nname = "
      "\"guard\"\ntake = [\"" +
      block + "[+/^guard/]\"]\n");
  const Answer split = s.run({"split", "--json"});
  ASSERT_EQ(split.code, 0) << split.err;
  ASSERT_EQ(s.run({"integrate"}).code, 0);
  EXPECT_EQ(s.run({"verify"}).code, 0);
  EXPECT_EQ(s.git.git("show tessera/demo/move:pkg/new.py") + "\n", numbered(1, 30));
  EXPECT_EQ(s.git.git("diff --name-status -M main tessera/demo/move"), "R100\tpkg/old.py\tpkg/new.py");
  EXPECT_EQ(s.git.git("diff --numstat tessera/demo/move tessera/demo/guard"), "2\t0\tpkg/new.py");
  EXPECT_EQ(s.git.git("diff running tessera/demo/integration"), "");
}

// An image with an editable checkout beside the installed package, patched by a build step.
TEST(ForkScenario, AnImageSaysWhichCopyWinsAndWhoWroteEachFile) {
  Scene s;
  const std::vector<std::string> names = {"__init__.py", "a.py", "b.py", "c.py", "d.py"};
  const std::string site = "usr/lib/python3.12/site-packages/";
  std::vector<TarItem> items = {file(site + "vllm.pth", "/opt/vllm\n")};
  for (const std::string& name : names) {
    s.git.write("vllm/" + name, name + "\n");
    items.push_back(file("opt/vllm/vllm/" + name, name + "\n"));
    items.push_back(file(site + "vllm/" + name, name + "\n"));
  }
  s.commit_base();
  const TestImage image{.layers = {make_tar(items), make_tar({file("opt/vllm/vllm/c.py", "c.py patched\n")})},
                        .created_by = {"RUN pip install -e .", "RUN sed -i s/py/patched/ c.py"},
                        .env = "\"PYTHONPATH=/opt/vllm\""};
  std::map<std::string, std::string> files;
  const auto as_is = [](const std::string& layer) { return layer; };
  finish_oci(files, descriptor(kManifestType, add_oci_manifest(files, image, as_is, kLayerType)));
  s.work.write("image.tar", tar_of(files));
  const Answer init = s.run({"init", "--repo", s.git.path(), "--base", s.base, "--tree",
                             "oci:" + (s.work / "image.tar") + ":/opt/vllm", "--name", "demo"});
  ASSERT_EQ(init.code, 0) << init.err;
  EXPECT_THAT(init.err, AllOf(HasSubstr("The package is there twice, also in " + site +
                                        "vllm (4 files equal, 1 different)"),
                              HasSubstr("PYTHONPATH"), HasSubstr("Without PYTHONPATH it imports")));
  const Answer shown = s.run({"show", s.id_of("vllm/c.py")});
  EXPECT_THAT(shown.out,
              AllOf(HasSubstr(sha256_digest(image.layers[1])), HasSubstr("RUN sed -i s/py/patched/ c.py")));
  s.round_trip();
  EXPECT_THAT(s.run({"report"}).out, ContainsRegex("vllm/c.py.*RUN sed"));
  // A rule that would hide the very change is refused.
  s.add("\n[[ignore]]\nglob = \"vllm/c.py\"\nreason = \"noise\"\n");
  const Answer hidden = s.run({"plan", "check"});
  EXPECT_EQ(hidden.code, 3);
  EXPECT_THAT(hidden.err, AllOf(HasSubstr("vllm/c.py"), HasSubstr("even_if_changed"), HasSubstr("; next: ")));
}

}  // namespace
}  // namespace tessera::stack
