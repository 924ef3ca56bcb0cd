// Situations from beginning to end, each with git as the judge: the strange repository, the cycle, the drift.
#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "stack/command/scene.h"

namespace tessera::stack {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// What diff tools lose: empty files, modes, links, types, names, ends of lines. All of it goes out as mails
// and comes back through `git am`.
TEST(Scenario, TheTortureCommitSurvivesTheMail) {
  Scene s;
  const auto link = [&](const char* target, const char* name) {
    std::filesystem::create_symlink(target, s.git / name);
  };
  s.git.write("empty-gone", "");
  s.git.write("emptied", "a\n");
  s.git.write("lost-newline", "a\nb\n");
  s.git.write("gained-newline", "a\nb");
  s.git.write("mixed", "a\r\nb\nc\r\n");
  s.git.write("mode", "x\n");
  s.git.write("to-folder", "x\n");
  s.git.write("from-folder/in", "x\n");
  s.git.write("pic", std::string("\0one", 4));
  s.git.write("a b\t\"q\".txt", "s\n");
  s.git.write("E=257,[128,128].json", "{}\n");
  s.git.write("dashes", "1\n-- \n2\n");
  s.git.write("cr", "a\rb\nc\n");
  s.git.write("Case", "c\n");
  s.git.write("lib/old_name.py", numbered(1, 20));
  link("one", "link");
  link("one", "link-to-file");
  std::filesystem::create_directory(s.git / "module");
  s.git.git("update-index --add --cacheinfo 160000,1234567890123456789012345678901234567890,module");
  s.commit_base();
  ASSERT_EQ(s.git.git("ls-tree HEAD module").substr(0, 6), "160000");
  s.git.remove("empty-gone");
  s.git.write("empty-new", "");
  s.git.write("emptied", "");
  s.git.write("lost-newline", "a\nb");
  s.git.write("gained-newline", "a\nb\n");
  s.git.write("mixed", "a\nb\nc\r\nd\n");
  std::filesystem::permissions(s.git / "mode", std::filesystem::perms(0755));
  s.git.remove("to-folder");
  s.git.write("to-folder/in", "y\n");
  s.git.remove("from-folder");
  s.git.write("from-folder", "y\n");
  s.git.write("pic", std::string("\0two", 4));
  s.git.write("a b\t\"q\".txt", "t\n");
  s.git.write("E=257,[128,128].json", "{1}\n");
  s.git.write("dashes", "1\n2\n");
  s.git.write("cr", "a\rc\nc\n");
  s.git.remove("Case");
  s.git.write("case", "c\n");
  s.git.remove("link");
  link("two", "link");
  s.git.remove("link-to-file");
  s.git.write("link-to-file", "now text\n");
  s.git.remove("lib/old_name.py");
  s.git.write("lib/new_name.py", numbered(1, 6) + "inserted\n" + numbered(7, 14) + numbered(16, 20));
  s.git.git("rm -q --cached module");
  s.git.remove("module");
  s.git.write("module/in", "m\n");
  s.commit_tree();
  s.init();
  EXPECT_NE(s.id_of("module", "delete"), "none");
  EXPECT_NE(s.id_of("module/in", "create"), "none");
  EXPECT_NE(s.id_of("lib/old_name.py", "delete"), "none");
  EXPECT_NE(s.id_of("lib/new_name.py", "create"), "none");
  s.round_trip();
  EXPECT_THAT(s.run({"report"}).out, HasSubstr("lib/old\\_name.py -> lib/new\\_name.py, 95 percent"));
  ASSERT_EQ(s.run({"export", "--format", "mail", "--output", s.work / "mails"}).code, 0);
  s.git.git("checkout -q -f -b rebuilt main");
  s.git.git("clean -qfd");
  const CommandOutput am = s.git.try_git("am --keep-cr '" + s.work.path().string() + "'/mails/*.patch");
  ASSERT_EQ(am.status, 0) << am.text;
  EXPECT_EQ(s.git.git("rev-parse HEAD^{tree}"), s.git.git("rev-parse running^{tree}"));
}

TEST(Scenario, ACycleIsRefusedAndAnEditOpensIt) {
  Scene s;
  s.git.write("a.py", "def alpha():\n    return 1\n\n\n\nx = 0\n");
  s.git.write("b.py", "def beta():\n    return 2\n\n\n\ny = 0\n");
  s.commit_base();
  s.git.write("a.py", "def alpha():\n    return made_in_b\n\n\n\nmade_in_a = 0\n");
  s.git.write("b.py", "def beta():\n    return made_in_a\n\n\n\nmade_in_b = 0\n");
  s.commit_tree();
  s.init();
  s.add(
      "\n[[bucket]]\nname = \"one\"\ntake = [\"a.py#L6\"]\n\n[[bucket]]\nname = \"two\"\ntake = [\"b.py\", "
      "\"a.py#L2\"]\nneeds = [\"one\"]\n\n[[bucket]]\nname = \"host\"\nkind = \"local\"\nwhy = \"ours\"\n");
  // "one" with everything of a.py, "two" with everything of b.py: each uses what the other makes.
  const std::string open = s.work.read("stack.toml");
  std::string cycle = open;
  cycle.replace(cycle.find("\"a.py#L6\""), 9, "\"a.py\"");
  cycle.replace(cycle.find(", \"a.py#L2\""), 11, "");
  cycle.replace(cycle.find("needs = [\"one\"]\n"), 16, "");
  std::ofstream(s.plan()) << cycle;
  const Answer refused = s.run({"split"});
  EXPECT_EQ(refused.code, 3);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("made_in_a"), HasSubstr("made_in_b"), HasSubstr("Three ways out"),
                                 HasSubstr("stack.toml:")));
  // The edit: after "one" alpha returns a number still; "two", which owns the atom, brings the tree's text.
  std::ofstream(s.plan()) << open;
  s.work.write("edits/a.txt", "    return 1  # until two\n");
  s.add("\n[[edit]]\nbucket = \"one\"\npath = \"a.py\"\ncovers = [\"" + s.id_of("a.py") +
        "\"]\nfile = \"edits/a.txt\"\nwhy = \"stands alone\"\n");
  ASSERT_EQ(s.run({"split"}).code, 0) << s.run({"split"}).err;
  ASSERT_EQ(s.run({"integrate"}).code, 0);
  ASSERT_EQ(s.run({"verify"}).code, 0);
  EXPECT_EQ(s.git.git("show tessera/demo/one:a.py"),
            "def alpha():\n    return 1  # until two\n\n\n\nmade_in_a = 0");
  EXPECT_EQ(s.git.git("diff running tessera/demo/integration"), "");
  const Answer report = s.run({"report"});
  EXPECT_THAT(report.out,
              AllOf(HasSubstr("Edits, text that is in nobody's tree:** 1"), HasSubstr("edits/a.txt")));
  // An upstream topic that needs a local one could never be merged.
  s.add("\n[[bucket]]\nname = \"late\"\nneeds = [\"host\"]\n");
  const Answer local = s.run({"plan", "check"});
  EXPECT_EQ(local.code, 3);
  EXPECT_THAT(local.err, AllOf(HasSubstr("late"), HasSubstr("host")));
}

// The tree moves on, a reviewer commits on a branch: drift goes to whom it touches, the commit stays.
TEST(Scenario, DriftIsAbsorbedAndAReviewersCommitStaysAhead) {
  Scene s;
  std::string text;
  for (int i = 1; i <= 40; ++i) text += "line " + std::to_string(i) + "\n";
  const auto with = [&](const std::vector<std::pair<int, std::string>>& added) {
    std::string out;
    for (int i = 1; i <= 40; ++i) {
      out += "line " + std::to_string(i) + "\n";
      for (const auto& [after, what] : added) {
        if (after == i) out += what;
      }
    }
    return out;
  };
  s.git.write("pkg/f.py", text);
  s.git.write("tool/x.py", "x = 1\n");
  s.commit_base();
  s.git.write("tool/x.py", "x = 2\n");
  s.git.write("pkg/f.py", with({{5, "a1\na2\na3\n"}, {20, "b1\nb2\nb3\n"}, {30, "a4\nb4\n"}}));
  s.commit_tree();
  s.init();
  const std::string mixed = [&] {
    const nlohmann::json listed = s.run({"list", "--json"}).json();
    for (const auto& atom : listed["atoms"]) {
      if (atom["first_line"].get<std::string>().find("a4") != std::string::npos)
        return "h:" + atom["id"].get<std::string>();
    }
    return std::string("none");
  }();
  s.add("\n[[bucket]]\nname = \"a\"\ntake = [\"tool/x.py\", \"pkg/f.py#L6-L8\", \"" + mixed +
        "[+1]\"]\n\n[[bucket]]\nname = \"b\"\ntake = [\"pkg/f.py#L24-L26\", \"" + mixed + "[+2]\"]\n");
  ASSERT_EQ(s.run({"split"}).code, 0) << s.run({"split"}).err;
  ASSERT_EQ(s.run({"integrate"}).code, 0);
  // A reviewer's commit on a, which the tree does not get.
  s.git.git("checkout -q -f tessera/demo/a");
  std::string reviewed = s.git.git("show HEAD:pkg/f.py") + "\n";
  reviewed.replace(reviewed.find("a1\n"), 3, "a1  # clearer\n");
  s.git.write("pkg/f.py", reviewed);
  const std::string suggestion = s.git.commit("Say it clearer");
  s.git.git("checkout -q -f running");
  // One line inside a's block, one between a's and b's, a new file.
  s.git.write("pkg/f.py", with({{5, "a1\na2\nhot\na3\n"}, {20, "b1\nb2\nb3\n"}, {30, "a4\nbetween\nb4\n"}}));
  s.git.write("tool/new.py", "fresh = 1\n");
  s.git.commit("drift");
  s.git.git("checkout -q --detach");

  const Answer absorbed = s.run({"absorb", "--tree", "git:" + s.git.path() + "@running"});
  EXPECT_EQ(absorbed.code, 1) << absorbed.err;  // one line is ambiguous
  EXPECT_THAT(absorbed.out, AllOf(HasSubstr("ambiguous"), HasSubstr("weak"),
                                  HasSubstr("ahead of tree: " + suggestion.substr(0, 12) + " on a")));
  EXPECT_THAT(s.work.read("stack.toml"), AllOf(HasSubstr("[[ahead]]"), HasSubstr(suggestion)));
  // The user decides: what is left, the line between, is c's.
  s.add("\n[[bucket]]\nname = \"c\"\nneeds = [\"a\"]\ntake = [\"glob:**\"]\n");
  const Answer split = s.run({"split"});
  ASSERT_EQ(split.code, 0) << split.err << split.out;
  ASSERT_EQ(s.run({"integrate"}).code, 0) << s.run({"integrate"}).err;
  // The branch holds our commit and theirs; the integration has both, and verify says where it is ahead.
  EXPECT_EQ(s.git.git("log -1 --format=%s tessera/demo/a"), "Say it clearer");
  EXPECT_THAT(s.git.git("show tessera/demo/a:pkg/f.py"),
              AllOf(HasSubstr("a1  # clearer\na2\nhot\n"), Not(HasSubstr("b1"))));
  EXPECT_THAT(s.git.git("show tessera/demo/integration:pkg/f.py"),
              AllOf(HasSubstr("a1  # clearer\na2\nhot\n"), HasSubstr("between")));
  const Answer verify = s.run({"verify"});
  EXPECT_EQ(verify.code, 0) << verify.out;
  EXPECT_THAT(verify.out, HasSubstr("1 ahead of the tree"));
  // Anything else in that file is no longer excused.
  s.git.git("checkout -q -f -B tampered tessera/demo/integration");
  s.git.write("pkg/f.py", s.git.git("show HEAD:pkg/f.py") + "\nsmuggled\n");
  const std::string tampered = s.git.commit("more");
  s.git.git("checkout -q --detach");
  s.git.git("update-ref refs/heads/tessera/demo/integration " + tampered);
  EXPECT_EQ(s.run({"verify"}).code, 1);
}

TEST(Scenario, AReviewersCommitThatTheTreeHasIsNotAhead) {
  Scene s;
  s.git.write("f", "1\n2\n3\n");
  s.commit_base();
  s.git.write("f", "1\nours\n2\n3\n");
  s.commit_tree();
  s.init();
  s.add("\n[[bucket]]\nname = \"a\"\ntake = [\"f\"]\n");
  ASSERT_EQ(s.run({"split"}).code, 0);
  s.git.git("checkout -q -f tessera/demo/a");
  s.git.write("f", "1\nours, reviewed\n2\n3\n");
  s.git.commit("suggestion");
  s.git.git("checkout -q -f running");
  s.git.write("f", "1\nours, reviewed\n2\n3\n");
  s.git.commit("taken over");
  s.git.git("checkout -q --detach");
  const Answer absorbed = s.run({"absorb", "--tree", "git:" + s.git.path() + "@running", "--json"});
  EXPECT_EQ(absorbed.code, 0) << absorbed.err;
  EXPECT_TRUE(absorbed.json()["ahead"][0]["in_tree"].get<bool>());
  ASSERT_EQ(s.run({"split"}).code, 0) << s.run({"split"}).err;  // the branch is ours again
  ASSERT_EQ(s.run({"integrate"}).code, 0);
  EXPECT_THAT(s.run({"verify"}).out, Not(HasSubstr("ahead")));
}

TEST(Scenario, StrangeRepositoriesAreOneSentenceEachWithTheCommandThatHelps) {
  const ScratchFolder tree;
  tree.write("f", "1\n");
  const auto init = [&](const ScratchFolder& work, const std::string& repository, const std::string& base) {
    return type(work / "stack.toml", {"init", "--force", "--repo", repository, "--base", base, "--tree",
                                      "dir:" + tree.path().string(), "--name", "demo"});
  };
  ScratchRepository origin, reftable;
  origin.write("f", "0\n");
  origin.commit("base");
  origin.git("config uploadpack.allowFilter true");
  reftable.commit("base");
  reftable.git("config core.repositoryformatversion 1");
  reftable.git("config extensions.refstorage reftable");
  const ScratchFolder folder;
  const std::string sha256 = folder / "sha256", partial = folder / "partial";
  const CommandOutput made =
      run_command("git clone -q --filter=blob:none 'file://" + origin.path() + "' '" + partial +
                  "' && git init -q -b main --object-format=sha256 '" + sha256 + "' && cd '" + sha256 +
                  "' && git -c user.name=A -c user.email=a@b commit -q --allow-empty -m base && git -C '" +
                  partial + "' config extensions.partialclone origin");  // as older versions of git write it
  ASSERT_EQ(made.status, 0) << made.text;
  for (const std::string& path : {sha256, partial, reftable.path()}) {
    const ScratchFolder work;
    const Libgit2ForgetsMatches allowed;
    const Answer answer = init(work, path, "HEAD");
    EXPECT_EQ(answer.code, 3) << path;
    EXPECT_EQ(std::ranges::count(answer.err, '\n'), 1) << answer.err;
    EXPECT_THAT(answer.err, HasSubstr("; next: git "));
    if (path == reftable.path()) continue;  // git itself has to know that format
    const CommandOutput helped = run_next(answer, work.path().string());
    EXPECT_EQ(helped.status, 0) << helped.text;
    EXPECT_EQ(init(work, work / "plain.git", "main").code, 0) << answer.err;
  }
  // A shallow clone without the base, and the same after the command that it names.
  ScratchRepository deep;
  deep.write("f", "0\n");
  const std::string old = deep.commit("old");
  deep.write("f", "1\n");
  deep.commit("new");
  const ScratchFolder work;
  const std::string shallow = folder / "shallow";
  ASSERT_EQ(run_command("git clone -q --depth 1 'file://" + deep.path() + "' '" + shallow + "'").status, 0);
  const Answer answer = init(work, shallow, old);
  EXPECT_EQ(answer.code, 3);
  EXPECT_THAT(answer.err, AllOf(HasSubstr(old.substr(0, 12)), HasSubstr("git "))) << answer.err;
  ASSERT_EQ(run_next(answer, work.path().string()).status, 0);
  EXPECT_EQ(init(work, shallow, old).code, 0);
}

// Larger than what is held in memory and than what counts as text: one atom, moved whole. The file is sparse.
TEST(Scenario, AFileOf600MebibytesIsOneAtom) {
  Scene s;
  s.git.write("f", "1\n");
  s.commit_base();
  const ScratchFolder tree;
  tree.write("f", "1\n");
  tree.write("large.bin", "");
  std::filesystem::resize_file(tree / "large.bin", std::uint64_t{600} << 20);
  const Answer init = s.run({"init", "--repo", s.git.path(), "--base", s.base, "--tree",
                             "dir:" + tree.path().string(), "--name", "demo"});
  ASSERT_EQ(init.code, 0) << init.err;
  const nlohmann::json listed = s.run({"list", "--json"}).json();
  ASSERT_EQ(listed["atoms"].size(), 1u);
  EXPECT_EQ(listed["atoms"][0]["kind"], "create");
  ASSERT_EQ(s.run({"suggest"}).code, 0);
  ASSERT_EQ(s.run({"split"}).code, 0);
  ASSERT_EQ(s.run({"integrate"}).code, 0);
  EXPECT_EQ(s.run({"verify"}).code, 0);
  EXPECT_EQ(s.git.git("cat-file -s tessera/demo/integration:large.bin"), "629145600");
}

// git itself refuses such a repository; here it is read, and nothing of its config runs.
TEST(Scenario, ARepositoryOfAnotherOwnerIsRead) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can give a folder away";
  Scene s;
  s.git.write("f", "1\n");
  s.commit_base();
  s.git.write("f", "2\n");
  s.commit_tree();
  s.git.git("config core.fsmonitor 'touch " + (s.work / "ran") + "'");
  ASSERT_EQ(run_command("chown -R 12345:12345 '" + s.git.path() + "'").status, 0);
  s.init();
  ASSERT_EQ(s.run({"suggest"}).code, 0);
  EXPECT_EQ(s.run({"split"}).code, 0);
  EXPECT_EQ(s.run({"integrate"}).code, 0);
  EXPECT_EQ(s.run({"verify"}).code, 0);
  EXPECT_FALSE(std::filesystem::exists(s.work / "ran"));
}

}  // namespace
}  // namespace tessera::stack
