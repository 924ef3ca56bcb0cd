// The verbs from end to end, as somebody types them; git is the judge.
#include <gmock/gmock.h>

#include <fstream>
#include <map>

#include "stack/command/typed.h"
#include "stack/git/scratch_repository.h"

namespace tessera::stack {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Json = nlohmann::json;

class CommandLine : public testing::Test {
 protected:
  CommandLine() {
    repository_.write("app/a.py", "import os\n\n\n\ndef a():\n    return 1\n");
    repository_.write("app/b.py", "def b():\n    return 1\n\n\n\nx = 1\n");
    base_ = repository_.commit("base");
    tree_.write("app/a.py", "import os\n\n\n\ndef brand_new():\n    return 7\n\n\ndef a():\n    return 2\n");
    tree_.write("app/b.py", "def b():\n    return brand_new()\n\n\n\nx = 2\n");
    tree_.write("launch.sh", "go\n");
  }

  Answer run(const std::vector<std::string>& arguments) const { return type(plan(), arguments); }
  std::string plan() const { return work_ / "stack.toml"; }
  void init() const {
    const Answer answer = run({"init", "--repo", repository_.path(), "--base", base_, "--tree",
                               "dir:" + tree_.path().string(), "--name", "demo"});
    ASSERT_EQ(answer.code, 0) << answer.err;
  }
  void add_to_plan(const std::string& text) const { std::ofstream(plan(), std::ios::app) << text; }
  void buckets() const {
    add_to_plan(
        "\n[[bucket]]\nname = \"helper\"\ntake = [\"app/a.py\"]\n\n[[bucket]]\nname = \"user\"\ntake = "
        "[\"app/b.py\"]\n\n"
        "[[bucket]]\nname = \"scripts\"\nkind = \"local\"\nwhy = \"ours\"\ntake = [\"launch.sh\"]\n");
  }

  ScratchRepository repository_;
  ScratchFolder tree_;
  ScratchFolder work_;
  std::string base_;
};

TEST_F(CommandLine, FromATreeToAProvedIntegrationAndBack) {
  init();
  EXPECT_EQ(run({"plan", "check"}).code, 1);  // everything is unassigned
  buckets();
  EXPECT_EQ(run({"plan", "check"}).code, 0);
  EXPECT_EQ(run({"verify"}).code, 3);  // no integration yet
  const Answer split = run({"--json", "split"});
  ASSERT_EQ(split.code, 0) << split.err;
  EXPECT_EQ(split.json()["topics"][0]["outcome"], "new");
  EXPECT_EQ(split.json()["topics"][1]["needs"][0], "helper");
  ASSERT_EQ(run({"integrate"}).code, 0);
  const Answer verify = run({"verify", "--json"});
  EXPECT_EQ(verify.code, 0) << verify.err;
  EXPECT_TRUE(verify.json()["holds"].get<bool>());
  EXPECT_EQ(repository_.git("diff refs/tessera-stack/demo/tree tessera/demo/integration"), "");
  EXPECT_EQ(run({"verify", "--tree", "dir:" + tree_.path().string()}).code, 0);
  EXPECT_EQ(run({"split", "--json"}).json()["topics"][0]["outcome"], "unmodified");
  EXPECT_EQ(run({"log", "--json"}).json()["operations"].size(), 2u);
  EXPECT_EQ(run({"undo"}).code, 0);
  EXPECT_EQ(run({"undo"}).code, 0);
  EXPECT_EQ(run({"undo"}).code, 3);
  EXPECT_EQ(repository_.git("for-each-ref refs/heads"), repository_.git("for-each-ref refs/heads/main"));
}

TEST_F(CommandLine, VerifyFindsWhatIsNotTheTree) {
  init();
  buckets();
  ASSERT_EQ(run({"split"}).code, 0);
  ASSERT_EQ(run({"integrate"}).code, 0);
  tree_.write("app/b.py", "def b():\n    return brand_new()\n\n\n\nx = 3\n");
  const Answer answer = run({"verify", "--tree", "dir:" + tree_.path().string()});
  EXPECT_EQ(answer.code, 1);
  EXPECT_THAT(answer.out, HasSubstr("app/b.py"));
}

TEST_F(CommandLine, VerifyFindsAnIntegrationThatIsNotThePlans) {
  init();
  buckets();
  ASSERT_EQ(run({"split"}).code, 0);
  ASSERT_EQ(run({"integrate"}).code, 0);
  repository_.git("checkout -q tessera/demo/integration");
  repository_.write("app/b.py", "smuggled\n");
  repository_.commit("more");
  repository_.git("checkout -q --detach");
  const Answer answer = run({"verify"});
  EXPECT_EQ(answer.code, 1);
  EXPECT_THAT(answer.out, AllOf(HasSubstr("app/b.py"), Not(HasSubstr("1 dropped"))));
}

TEST_F(CommandLine, VerifyOnNoDifferenceHoldsWithoutAnIntegration) {
  ASSERT_EQ(run({"init", "--repo", repository_.path(), "--base", base_, "--tree",
                 "git:" + repository_.path() + "@" + base_, "--name", "demo"})
                .code,
            0);
  const Answer verify = run({"verify"});
  EXPECT_EQ(verify.code, 0) << verify.err;
  EXPECT_THAT(verify.out, AllOf(HasSubstr("no difference"), HasSubstr("2 exact")));
  EXPECT_TRUE(run({"verify", "--json"}).json()["holds"].get<bool>());
  // Another tree and the plan's expectations are compared all the same.
  const Answer other = run({"verify", "--tree", "dir:" + tree_.path().string()});
  EXPECT_EQ(other.code, 1);
  EXPECT_THAT(other.out, AllOf(HasSubstr("launch.sh"), Not(HasSubstr("no difference"))));
  add_to_plan("\n[[expect]]\npath = \"app/b.py\"\nhas = \"brand_new\"\n");
  EXPECT_EQ(run({"verify"}).code, 1);
}

TEST_F(CommandLine, ExpectationsDecide) {
  init();
  buckets();
  add_to_plan("\n[[expect]]\npath = \"app/b.py\"\nhas = \"brand_new\"\n");
  ASSERT_EQ(run({"split"}).code, 0);
  ASSERT_EQ(run({"integrate"}).code, 0);
  EXPECT_EQ(run({"verify"}).code, 0);
  add_to_plan("\n[[expect]]\npath = \"app/b.py\"\nlacks = \"brand_new\"\nwhy = \"must be gone\"\n");
  const Answer answer = run({"verify"});
  EXPECT_EQ(answer.code, 1);
  EXPECT_THAT(answer.err, HasSubstr("stack.toml"));
}

TEST_F(CommandLine, WrongUsageIsToldFromBadInput) {
  EXPECT_EQ(run({}).code, 2);
  EXPECT_EQ(run({"nonsense"}).code, 2);
  EXPECT_EQ(run({"init", "--repo", "x"}).code, 2);
  EXPECT_EQ(run({"verify", "--allow", "everything"}).code, 2);
  EXPECT_EQ(run({"list"}).code, 3);
}

TEST_F(CommandLine, BracesInAGlobAreRefusedWithWhatIsSupported) {
  init();
  const Answer list = run({"list", "app/{a,b}.py"});
  EXPECT_EQ(list.code, 3);
  EXPECT_THAT(list.err, AllOf(HasSubstr("app/{a,b}.py"), HasSubstr("[a-z]")));
  add_to_plan("\n[[bucket]]\nname = \"x\"\ntake = [\"glob:app/{a,b}.py\"]\n");
  const Answer check = run({"plan", "check"});
  EXPECT_EQ(check.code, 3);
  EXPECT_THAT(check.err, AllOf(HasSubstr("stack.toml:"), HasSubstr("app/{a,b}.py"), HasSubstr("[a-z]")));
}

TEST_F(CommandLine, AMovedBranchStopsTheRunAndForceOverwritesIt) {
  init();
  buckets();
  ASSERT_EQ(run({"split"}).code, 0);
  repository_.git("branch -f tessera/demo/user main");
  const Answer refused = run({"split"});
  EXPECT_EQ(refused.code, 4);
  EXPECT_THAT(refused.err, HasSubstr("tessera/demo/user"));
  EXPECT_EQ(run({"split", "--force"}).code, 0);
}

// Every verb, on a terminal and with a clock that runs over a second each time that somebody looks.
TEST_F(CommandLine, WhatTakesOverASecondShowsHowFarItIs) {
  init();
  repository_.git("checkout -q -b upstream");
  repository_.write("other.py", "y = 1\n");
  repository_.commit("upstream");
  repository_.git("checkout -q main");
  const auto typed = [&](const std::vector<std::string>& arguments, double tick, bool is_terminal) {
    std::ostringstream out;
    std::ostringstream err;
    double time = 0;
    std::vector<std::string> all = {"--plan", plan()};
    all.insert(all.end(), arguments.begin(), arguments.end());
    (void)run_command_line({.arguments = all,
                            .out = out,
                            .err = err,
                            .err_is_terminal = is_terminal,
                            .now = [] { return std::string("2026-01-01T00:00:00Z"); },
                            .seconds = [&] { return time += tick; }});
    return err.str();
  };
  const std::string tree = "dir:" + tree_.path().string();
  const std::vector<std::vector<std::string>> verbs = {
      {"init", "--force", "--repo", repository_.path(), "--base", base_, "--tree", tree, "--name", "demo"},
      {"init", "--refresh"},
      {"doctor"},
      {"list"},
      {"suggest"},
      {"plan", "check"},
      {"plan", "graph"},
      {"split"},
      {"integrate"},
      {"verify"},
      {"verify", "--tree", tree},
      {"upstream", "--at", "upstream"},
      {"absorb", "--tree", tree},
      {"report"},
      {"export", "--output", work_ / "mails"},
      {"pr"},
      {"suggest", "--from-commits", "main..upstream"},
      {"rebase", "--onto", "upstream"}};
  for (const std::vector<std::string>& verb : verbs) {
    const std::string slow = typed(verb, 1.1, true);
    EXPECT_THAT(slow, HasSubstr(verb[0] == "init" ? "\r\x1b[K" : " %")) << verb[0];
    // Whatever else is printed begins on an empty line, and nothing stays behind.
    const std::string erased = "\r\x1b[K";
    for (const char* word : {"warning: ", "error: "}) {
      for (std::size_t at = slow.find(word); at != std::string::npos; at = slow.find(word, at + 1)) {
        if (at > 0) {
          EXPECT_TRUE(slow[at - 1] == '\n' || slow.substr(0, at).ends_with(erased)) << slow;
        }
      }
    }
    EXPECT_TRUE(slow.ends_with(erased) || slow.ends_with('\n')) << verb[0] << ": " << slow;
    std::vector<std::string> quiet = verb;
    quiet.push_back("--quiet");
    for (const std::string& silent :
         {typed(verb, 1.1, false), typed(verb, 0.0, true), typed(quiet, 1.1, true)})
      EXPECT_THAT(silent, Not(HasSubstr("\x1b"))) << verb[0];
  }
}

TEST_F(CommandLine, DryRunsChangeNothing) {
  init();
  buckets();
  const std::string before = repository_.git("for-each-ref");
  EXPECT_EQ(run({"--dry-run", "split"}).code, 0);
  EXPECT_EQ(run({"--dry-run", "integrate"}).code, 0);
  EXPECT_EQ(run({"--dry-run", "plan", "pin"}).code, 0);
  EXPECT_EQ(repository_.git("for-each-ref"), before);
}

TEST_F(CommandLine, PinsSurviveAndLoosenRestoresThePlan) {
  init();
  buckets();
  const std::string before = work_.read("stack.toml");
  ASSERT_EQ(run({"plan", "pin"}).code, 0);
  EXPECT_EQ(run({"plan", "check"}).code, 0);
  ASSERT_EQ(run({"plan", "loosen"}).code, 0);
  EXPECT_EQ(work_.read("stack.toml"), before);
}

TEST_F(CommandLine, SuggestAssignsEverythingAndTheRoundTripHolds) {
  init();
  ASSERT_EQ(run({"suggest"}).code, 0);
  EXPECT_EQ(run({"plan", "check"}).code, 0);
  EXPECT_EQ(run({"split"}).code, 0);
  EXPECT_EQ(run({"integrate"}).code, 0);
  EXPECT_EQ(run({"verify"}).code, 0);
}

TEST_F(CommandLine, RebaseMovesTopicsKeepsConflictedOnesAndRemembersResolutions) {
  init();
  buckets();
  ASSERT_EQ(run({"split"}).code, 0);
  ASSERT_EQ(run({"integrate"}).code, 0);
  repository_.write("app/a.py", "import sys\n\n\n\nimport os\n\n\n\ndef a():\n    return 1\n");
  repository_.write("app/b.py", "def b():\n    return 100\n\n\n\nx = 1\n");
  const std::string upstream = repository_.commit("upstream");
  const std::string old_user = repository_.git("rev-parse tessera/demo/user");
  const Answer moved = run({"rebase", "--onto", "main", "--resolve"});
  EXPECT_EQ(moved.code, 4) << moved.err;
  EXPECT_THAT(moved.out, AllOf(HasSubstr("conflict"), HasSubstr(upstream.substr(0, 12))));
  EXPECT_EQ(repository_.git("rev-parse tessera/demo/helper^"), upstream);
  EXPECT_EQ(repository_.git("rev-parse tessera/demo/user"), old_user);
  ASSERT_EQ(run({"undo"}).code, 0);
  EXPECT_EQ(repository_.git("rev-parse tessera/demo/helper^"), base_);

  std::vector<std::filesystem::path> open;
  for (const auto& file : std::filesystem::directory_iterator(work_.path() / "conflicts"))
    open.push_back(file.path());
  ASSERT_EQ(open.size(), 1u);
  std::ofstream(open[0]) << "    return 100 + brand_new()\n";
  const Answer solved = run({"rebase", "--onto", "main", "--resolve"});
  EXPECT_EQ(solved.code, 0) << solved.out << solved.err;
  EXPECT_THAT(solved.out, HasSubstr("resolution used"));
  EXPECT_EQ(repository_.git("show tessera/demo/integration:app/b.py"),
            "def b():\n    return 100 + brand_new()\n\n\n\nx = 2");
  EXPECT_EQ(run({"verify"}).code, 0);
}

TEST_F(CommandLine, AbsorbBringsThePlanToADriftedTree) {
  init();
  buckets();
  ASSERT_EQ(run({"split"}).code, 0);
  ASSERT_EQ(run({"integrate"}).code, 0);
  tree_.write("app/a.py",
              "import os\n\n\n\ndef brand_new():\n    log(1)\n    return 7\n\n\ndef a():\n    return 2\n");
  const Answer absorbed = run({"absorb", "--tree", "dir:" + tree_.path().string()});
  EXPECT_EQ(absorbed.code, 0) << absorbed.out << absorbed.err;
  ASSERT_EQ(run({"split"}).code, 0);
  ASSERT_EQ(run({"integrate"}).code, 0);
  EXPECT_EQ(run({"verify", "--tree", "dir:" + tree_.path().string()}).code, 0);
  EXPECT_THAT(repository_.git("show tessera/demo/helper:app/a.py"), HasSubstr("log(1)"));
  for (int i = 0; i < 3; ++i) ASSERT_EQ(run({"undo"}).code, 0);
  EXPECT_EQ(run({"plan", "check"}).code, 0);  // plan and frozen tree are both as before
}

TEST_F(CommandLine, DoctorIsContentWithTheTrueBase) {
  init();
  const Answer answer = run({"doctor"});
  EXPECT_EQ(answer.code, 0) << answer.out << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("the plan's"));
}

TEST_F(CommandLine, ChecksRunInATemporaryCheckoutOfTheTopic) {
  init();
  add_to_plan(
      "\n[[bucket]]\nname = \"all\"\ntake = [\"glob:**\"]\ncheck = [\"grep -q brand_new app/a.py\", \"test "
      "-e nowhere\"]\n");
  const Answer answer = run({"--json", "split", "--check"});
  EXPECT_EQ(answer.code, 1) << answer.err;
  EXPECT_EQ(answer.json()["topics"][0]["checks"][0]["status"], 0);
  EXPECT_NE(answer.json()["topics"][0]["checks"][1]["status"], 0);
}

TEST_F(CommandLine, WhatGoesOutSaysAndRebuildsTheSame) {
  init();
  buckets();
  ASSERT_EQ(run({"split"}).code, 0);
  ASSERT_EQ(run({"integrate"}).code, 0);
  const Answer report = run({"report"});
  EXPECT_EQ(report.code, 0) << report.err;
  EXPECT_THAT(report.out, AllOf(HasSubstr("0 unassigned"), HasSubstr("brand\\_new"), HasSubstr("scripts")));
  EXPECT_THAT(run({"report", "--html"}).out, HasSubstr("<svg"));
  ASSERT_EQ(run({"pr"}).code, 0);
  EXPECT_TRUE(std::filesystem::exists(work_.path() / "pr/user.md"));
  EXPECT_FALSE(std::filesystem::exists(work_.path() / "pr/scripts.md"));  // local topics go nowhere
  ASSERT_EQ(run({"export", "--format", "mail", "--output", work_ / "mails"}).code, 0);
  repository_.git("checkout -q -b rebuilt " + base_);
  repository_.git("am -q '" + work_.path().string() + "'/mails/*.patch");
  EXPECT_EQ(repository_.git("diff rebuilt tessera/demo/integration"), "");
  ASSERT_EQ(run({"export", "--format", "bundle", "--output", work_ / "all.bundle"}).code, 0);
  EXPECT_EQ(repository_.try_git("bundle verify '" + (work_ / "all.bundle") + "'").status, 0);
  EXPECT_EQ(run({"show", "--patch", work_ / "mails/0001-helper.patch"}).code, 0);  // already there
  EXPECT_EQ(run({"pr", "--send", "--to", "a/b"}).code, 3);                         // no token
}

TEST_F(CommandLine, AConsolidatedPullRequestIsOneCommitATopic) {
  init();
  buckets();
  ASSERT_EQ(run({"split"}).code, 0);
  ASSERT_EQ(run({"integrate"}).code, 0);
  EXPECT_EQ(run({"pr", "--mode", "consolidated", "--bucket", "user"}).code, 3);
  const Answer answer = run({"pr", "--mode", "consolidated", "--title", "[App] All of it"});
  ASSERT_EQ(answer.code, 0) << answer.err;
  EXPECT_THAT(answer.out, HasSubstr("git push <your fork> tessera/demo/consolidated"));
  // Both upstream topics in line order, nothing local, one tree with the topic that stands on the other.
  EXPECT_EQ(repository_.git("log --format=%s --reverse main..tessera/demo/consolidated"), "helper\nuser");
  EXPECT_EQ(repository_.git("diff tessera/demo/user tessera/demo/consolidated"), "");
  EXPECT_THAT(work_.read("pr/consolidated.md"),
              AllOf(HasSubstr("# [App] All of it"), HasSubstr("One commit a topic"),
                    HasSubstr("Tessera-Topic: demo/consolidated"), Not(HasSubstr("scripts"))));
  EXPECT_EQ(run({"split", "--json"}).json()["stale"].size(), 0u);
  const std::string tip = repository_.git("rev-parse tessera/demo/consolidated");
  ASSERT_EQ(run({"pr", "--mode", "consolidated"}).code, 0);
  EXPECT_EQ(repository_.git("rev-parse tessera/demo/consolidated"), tip);  // twice, the same commit
  repository_.git("branch -f tessera/demo/consolidated main");
  EXPECT_EQ(run({"pr", "--mode", "consolidated"}).code, 4);
  EXPECT_EQ(run({"pr", "--mode", "consolidated", "--force"}).code, 0);
  add_to_plan("\n[[bucket]]\nname = \"consolidated\"\ntake = []\n");
  EXPECT_THAT(run({"plan", "check"}).err, HasSubstr("which are ours"));
}

TEST_F(CommandLine, ChecksStandInReportAndPullRequestWithOrWithoutTheirResult) {
  init();
  add_to_plan(
      "\n[[bucket]]\nname = \"all\"\ntake = [\"glob:**\"]\ncheck = [\"grep -q brand_new app/a.py\", "
      "\"false\"]\n");
  ASSERT_EQ(run({"split"}).code, 0);
  ASSERT_EQ(run({"integrate"}).code, 0);
  EXPECT_THAT(run({"report"}).out, HasSubstr("Check, not run: `false`"));
  EXPECT_THAT(run({"report", "--check"}).out,
              AllOf(HasSubstr("1 of 2"), HasSubstr("Check failed with status 1: `false`")));
  ASSERT_EQ(run({"pr", "--check"}).code, 0);
  EXPECT_THAT(work_.read("pr/all.md"),
              AllOf(HasSubstr("`grep -q brand_new app/a.py`: passes"), HasSubstr("`false`: fails")));
}

TEST_F(CommandLine, ARebaseShowsHowEachTopicChangedAndTheReportRemembersIt) {
  init();
  buckets();
  ASSERT_EQ(run({"split"}).code, 0);
  ASSERT_EQ(run({"integrate"}).code, 0);
  repository_.write("app/a.py",
                    "import sys\nimport os\n\n\n\ndef a():\n    return 1\n");    // moves, same context
  repository_.write("app/b.py", "def b():\n    return 1\n\n# here\n\nx = 1\n");  // in the context
  repository_.commit("upstream");
  const Answer moved = run({"rebase", "--onto", "main", "--json"});
  ASSERT_EQ(moved.code, 0) << moved.err;
  std::map<std::string, Json> by_name;
  const Json answer = moved.json();
  for (const Json& topic : answer["topics"]) by_name[topic["bucket"]] = topic["range_diff"];
  EXPECT_EQ(by_name["scripts"]["mark"], "=");
  EXPECT_EQ(by_name["user"]["mark"], "!");
  EXPECT_THAT(by_name["user"]["text"].get<std::string>(), HasSubstr("+ # here"));
  // git says the same of the same branches.
  const std::string refs = "refs/tessera-stack/demo/undo/000003/heads/tessera/demo/";
  for (const auto& [name, ours] : by_name) {
    if (name == "user") continue;  // its base moved along, so git shows more than the topic's own commit
    const std::string theirs =
        repository_.git("range-diff -s " + refs + name + "^! tessera/demo/" + name + "^!");
    EXPECT_THAT(theirs, HasSubstr(" " + ours["mark"].get<std::string>() + " ")) << name;
  }
  const Answer report = run({"report"});
  EXPECT_THAT(report.out, AllOf(HasSubstr("rebase of 2026-01-01T00:00:00Z changed it"), HasSubstr("+ # here"),
                                HasSubstr("left it saying the same")));
}

TEST_F(CommandLine, UpstreamFindsMergedBucketsAndCommitsAndNamesWhatCancelsOut) {
  init();
  buckets();
  repository_.git("checkout -q -b fork");
  repository_.write("launch.sh", "go\n");
  repository_.commit("Add a launch script");
  repository_.write("extra", "1\n2\n");
  repository_.commit("Try something out");
  repository_.remove("extra");
  const std::string taken_back = repository_.commit("Take it back again");
  repository_.git("checkout -q main");
  repository_.write("launch.sh", "go\n");
  const std::string merged = repository_.commit("Launch script (#12)");
  const Answer answer = run({"upstream", "--at", "main", "--from-commits", "main^..fork", "--json"});
  ASSERT_EQ(answer.code, 0) << answer.err;
  const Json json = answer.json();
  ASSERT_EQ(json["commits"].size(), 3u) << json.dump(1);  // the bucket, the commit, and all commits as one
  EXPECT_EQ(json["commits"][0]["name"], "bucket scripts");
  EXPECT_EQ(json["commits"][0]["evidence"]["patch-id"], merged);
  EXPECT_TRUE(json["commits"][1]["equal"].get<bool>());
  ASSERT_EQ(json["cancelled"].size(), 1u);
  EXPECT_THAT(json["cancelled"][0].get<std::string>(), HasSubstr(taken_back.substr(0, 12)));
  EXPECT_THAT(run({"upstream", "--at", "main", "--from-commits", "main^..fork"}).out,
              HasSubstr("1 of 3 commits are there (1 patch-id"));
}

TEST_F(CommandLine, DoctorReadsWhatTheTreeSaysOfItself) {
  repository_.git("tag v0.9");
  tree_.write("app.dist-info/METADATA", "Name: app\nVersion: 0.9.1.dev1+g" + base_.substr(0, 9) + "\n");
  init();
  const Answer answer = run({"doctor", "--json"});
  EXPECT_EQ(answer.json()["versions"][0]["names"][0], base_.substr(0, 9));
  EXPECT_EQ(answer.json()["bases"][0]["found_by"], "the tree says " + base_.substr(0, 9));
}

TEST_F(CommandLine, HelpCompletionAndManualAreMadeFromOneDefinition) {
  EXPECT_EQ(run({"--help"}).code, 0);
  EXPECT_THAT(run({"init", "--help"}).out, HasSubstr("Examples:"));
  EXPECT_THAT(run({"completion", "bash"}).out, HasSubstr("complete "));
  EXPECT_THAT(run({"man"}).out, AllOf(HasSubstr(".TH"), HasSubstr("rebase")));
}

}  // namespace
}  // namespace tessera::stack
