// Exports against git: `git am`, `git apply` and `git fetch` give the integration's tree back.
#include "stack/publish/series.h"

#include <gtest/gtest.h>

#include "stack/git/scratch_repository.h"
#include "stack/object/digest.h"
#include "stack/publish/bundle.h"

namespace tessera::stack {
namespace {

// A target, two topics, and an integration that merges them; the shape that the composer makes.
struct Stack {
  ScratchRepository scratch;
  Oid target, integration;

  explicit Stack(bool binary = false) {
    scratch.write("a.py", "one\ntwo\nthree\n");
    scratch.write("gone.txt", "x\n");
    scratch.commit("target");
    scratch.git("checkout -q -b t/first");
    scratch.write("a.py", "ONE\ntwo\nthree\n");
    scratch.write("caf\xc3\xa9 menu.txt", "new");
    if (binary) scratch.write("bin", std::string("\0\1", 2));
    message(
        "Fix the first line, with a subject that holds a \xc3\xa9 and goes on for longer than any mail "
        "program wants a line to be, really\n\n"
        "Body.\n---\nnot a diff\n\nTessera-Topic: demo/first\n");
    scratch.git("checkout -q -b t/second main");
    scratch.write("a.py", "one\ntwo\nTHREE\n");
    scratch.remove("gone.txt");
    message("Second\n\nTessera-Topic: demo/second\n");
    scratch.git("checkout -q -b t/integration main");
    scratch.git("merge -q --no-ff -m 'Merge first' t/first");
    scratch.git("merge -q --no-ff -m 'Merge second' t/second");
    scratch.git("checkout -q main");
    target = *oid_from_hex(scratch.git("rev-parse main"));
    integration = *oid_from_hex(scratch.git("rev-parse t/integration"));
  }
  void message(const std::string& text) {
    const ScratchFolder folder;
    folder.write("m", text);
    scratch.git("add -A");
    scratch.git("commit -q --cleanup=verbatim -F " + (folder / "m"));
  }
  std::vector<SeriesPatch> series(const Repository& repository) const {
    auto out = read_series(repository, target, integration);
    EXPECT_TRUE(out) << out.error().message();
    return out ? *out : std::vector<SeriesPatch>{};
  }
};

TEST(Series, IsOnePatchATopicInOrder) {
  const Stack stack;
  const auto repository = Repository::open(stack.scratch.path());
  const auto series = stack.series(*repository);
  ASSERT_EQ(series.size(), 2U);
  EXPECT_EQ(series[0].name, "first");
  EXPECT_EQ(series[1].name, "second");
  EXPECT_EQ(series[1].message.substr(0, 6), "Second");
}

TEST(Series, GitAmGivesTheIntegrationsTree) {
  for (const bool binary : {false, true}) {
    const Stack stack(binary);
    const auto repository = Repository::open(stack.scratch.path());
    const auto mails = mail_series(*repository, stack.series(*repository));
    ASSERT_TRUE(mails);
    const ScratchFolder folder;
    std::string names;
    for (const auto& [name, text] : *mails) {
      folder.write(name, text);
      names += ' ' + (folder / name);
    }
    stack.scratch.git("checkout -q -b am main");
    const CommandOutput am = stack.scratch.try_git("am" + names);
    ASSERT_EQ(am.status, 0) << am.text;
    EXPECT_EQ(stack.scratch.git("rev-parse HEAD^{tree}"),
              stack.scratch.git("rev-parse t/integration^{tree}"));
    EXPECT_EQ(stack.scratch.git("log -1 --format=%s HEAD~1"),
              "Fix the first line, with a subject that holds a \xc3\xa9 and goes on for longer than any mail "
              "program wants a line to be, really");
    EXPECT_EQ(stack.scratch.git("log -1 --format=%an%ae%at HEAD"),
              stack.scratch.git("log -1 --format=%an%ae%at t/second"));
    EXPECT_NE(stack.scratch.git("log -1 --format=%B HEAD~1").find("Tessera-Topic: demo/first"),
              std::string::npos);
    EXPECT_NE(stack.scratch.git("log -1 --format=%B HEAD~1").find("not a diff"), std::string::npos);
  }
}

TEST(Series, QuiltPatchesApplyInTheOrderOfTheirSeriesFile) {
  const Stack stack;
  const auto repository = Repository::open(stack.scratch.path());
  const auto files = quilt_series(*repository, stack.series(*repository),
                                  {{"first", {.forwarded = "https://example.org/1"}}});
  ASSERT_TRUE(files) << files.error().message();
  EXPECT_EQ(files->at("series"), "first.patch\nsecond.patch\n");
  EXPECT_NE(files->at("first.patch").find("\nForwarded: https://example.org/1\n"), std::string::npos);
  EXPECT_NE(files->at("second.patch").find("Description: Second\n"), std::string::npos);
  const ScratchFolder folder;
  for (const auto& [name, text] : *files) folder.write(name, text);
  for (const char* name : {"first.patch", "second.patch"}) {
    const CommandOutput out = stack.scratch.try_git("apply --index " + (folder / name));
    EXPECT_EQ(out.status, 0) << out.text;
  }
  EXPECT_EQ(stack.scratch.git("write-tree"), stack.scratch.git("rev-parse t/integration^{tree}"));
}

TEST(Series, QuiltRefusesBinaryChangesByName) {
  const Stack stack(true);
  const auto repository = Repository::open(stack.scratch.path());
  const auto files = quilt_series(*repository, stack.series(*repository), {});
  ASSERT_FALSE(files);
  EXPECT_EQ(files.error().where, "bin");
}

TEST(Series, IntegrationThatStandsElsewhereIsRefused) {
  const Stack stack;
  const auto repository = Repository::open(stack.scratch.path());
  EXPECT_EQ(read_series(*repository, Oid{}, stack.integration).error().kind, ErrorKind::kMismatch);
}

TEST(Bundle, GitVerifiesAndFetchesItAndItIsTheSameTwice) {
  const Stack stack;
  const auto repository = Repository::open(stack.scratch.path());
  const std::vector<Ref> refs = repository->list_refs("refs/heads/t/");
  ASSERT_EQ(refs.size(), 3U);
  const auto bundle = make_bundle(*repository, refs, {stack.target});
  ASSERT_TRUE(bundle) << bundle.error().message();
  EXPECT_EQ(*make_bundle(*repository, refs, {stack.target}), *bundle);
  const ScratchFolder folder;
  folder.write("s.bundle", *bundle);
  // Somebody who has the target only.
  const CommandOutput clone = run_command("git clone -q --single-branch --branch main " +
                                          stack.scratch.path() + " " + (folder / "clone"));
  ASSERT_EQ(clone.status, 0) << clone.text;
  const CommandOutput fetch = run_command("cd " + (folder / "clone") +
                                          " && git bundle verify -q ../s.bundle && git fetch -q ../s.bundle "
                                          "'refs/heads/t/*:refs/heads/t/*' && git rev-parse t/integration");
  EXPECT_EQ(fetch.status, 0) << fetch.text;
  EXPECT_EQ(fetch.text.substr(fetch.text.size() - 40), to_hex(stack.integration));
}

}  // namespace
}  // namespace tessera::stack
