#include <gmock/gmock.h>

#include "stack/plan/claim.h"
#include "stack/plan/plan_editor.h"
#include "stack/plan/plan_reader.h"

namespace tessera::stack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

const std::string kHead =
    "format = 1\nname = \"kimi\"\n[base]\nrepo = \"../vllm.git\"\ncommit = "
    "\"9aaf83ef502fc37bc647f6e474314d48ba36cd1c\"\n"
    "[tree]\nsource = \"dir:x\"\n";

std::string refusal(const std::string& text) {
  const auto plan = read_plan(text, "stack.toml");
  return plan ? "accepted" : plan.error().message();
}

TEST(Claim, EachShortFormHasItsKind) {
  EXPECT_EQ(parse_claim("a/b.py")->kind, ClaimKind::kPath);
  EXPECT_EQ(parse_claim("E=257,N=256,block_shape=[128,128].json")->kind, ClaimKind::kPath);
  EXPECT_EQ(parse_claim("glob:a/**")->path, "a/**");
  const auto section = parse_claim("a.py#fn:_prepare");
  EXPECT_EQ(section->section_kind + "/" + section->section, "fn/_prepare");
  const auto lines = parse_claim("a.py#L10-L20");
  EXPECT_EQ(lines->first_line * 100 + lines->last_line, 1020);
  EXPECT_EQ(parse_claim("a.py#L7")->last_line, 7);
  const auto text = parse_claim("text:src/**:/a:\\/b/");
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(text->path, "src/**");
  EXPECT_TRUE(text->pattern->found_in("xa:/bx"));
  EXPECT_EQ(parse_claim("h:3fa9c1")->kind, ClaimKind::kAtom);
  const auto piece = parse_claim("h:77e0b2[+2..5,-1]");
  EXPECT_EQ(piece->id + "|" + piece->pick, "77e0b2|+2..5,-1");
}

TEST(Claim, MistakesAreNotTakenForPaths) {
  for (const char* text : {"", "h:12", "h:xyzw", "h:12345[+1", "glob:", "text:a", "text:a:/(/", "a#b", "a#L0",
                           "a#L5-L2", "foo:bar", "dir/", "/abs"}) {
    EXPECT_FALSE(parse_claim(text).ok()) << text;
  }
}

TEST(Plan, GlobsWithBracesAreRefusedWhereverAGlobStands) {
  const std::string bucket = "[[bucket]]\nname = \"a\"\ntake = [";
  for (const std::string& text : std::vector<std::string>{
           "[[ignore]]\nglob = \"*.{a,b}\"\nreason = \"x\"\n", "[[subset]]\nkeep = \"*.{a,b}\"\n",
           "[style]\nmax_lines = { limit = 5, exclude = [\"*.{a,b}\"] }\n", bucket + "\"glob:*.{a,b}\"]\n",
           bucket + "\"text:*.{a,b}:/x/\"]\n", bucket + "{ glob = \"*.{a,b}\" }]\n"}) {
    const auto plan = read_plan(kHead + text, "p.toml");
    ASSERT_FALSE(plan.ok()) << text;
    EXPECT_EQ(plan.error().where.substr(0, 7), "p.toml:") << plan.error().message();
    EXPECT_NE(plan.error().message().find("glob '*.{a,b}'"), std::string::npos) << plan.error().message();
  }
  // A claim on a path is literal.
  EXPECT_TRUE(parse_claim("docs/{a,b}.md").ok());
}

TEST(Plan, ReadsEveryTable) {
  const auto plan = read_plan(kHead + R"(
digest = "sha256:1"
diff = { algorithm = "patience", rename_view = 50 }
[[ignore]]
glob = "**/*.pyc"
reason = "byte code"
[[subset]]
keep = "vllm/**"
[branches]
prefix = "t/k"
shape = "linear"
date = 2026-05-12T02:00:00+02:00
author = "A <a@b>"
[style]
title_tags = ["Core"]
max_lines = { limit = 500, exclude = ["tests/**"] }
sign_off = true
[[bucket]]
name = "one"
kind = "local"
status = "pending"
needs = ["two"]
refute = [{ use = "x", reason = "upstream has it" }]
take = ["a.py", { path = "a#b" }, { path_bytes = "d/%E9.txt", optional = true }, { path = "c.py", lines = [1, 2] }]
leave = ["h:90ab12"]
[[bucket]]
name = "two"
take = ["glob:b/**"]
[[edit]]
bucket = "one"
path = "a.py"
covers = ["h:0d11"]
file = "edits/a.txt"
[[expect]]
path = "a.py"
absent = true
[[decision]]
ask = "Which?"
)",
                              "stack.toml");
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  EXPECT_EQ(plan->date, 1778544000);
  EXPECT_EQ(plan->algorithm, DiffAlgorithm::kPatience);
  EXPECT_EQ(plan->target, plan->base);
  ASSERT_EQ(plan->buckets.size(), 2u);
  EXPECT_EQ(plan->buckets[0].take[1].path, "a#b");
  EXPECT_EQ(plan->buckets[0].take[2].path, "d/\xE9.txt");
  EXPECT_TRUE(plan->buckets[0].take[2].is_optional);
  EXPECT_EQ(plan->buckets[0].take[3].kind, ClaimKind::kLines);
  EXPECT_EQ(plan->expects[0].exists, false);
  EXPECT_EQ(plan->max_lines, 500);
}

TEST(Plan, ARenameIsAPairOfPaths) {
  const std::string head = "format = 1\nname = \"x\"\n[base]\nrepo = \"r\"\ncommit = \"" +
                           std::string(40, 'a') +
                           "\"\n[tree]\nsource = \"dir:x\"\n[[bucket]]\nname = \"b\"\n";
  const auto plan = read_plan(head + "take = [{ rename = [\"a.py\", \"b.py\"] }]\n", "p");
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  EXPECT_EQ(plan->buckets[0].take[0].path, "a.py");
  EXPECT_EQ(plan->buckets[0].take[0].renamed_to, "b.py");
  EXPECT_FALSE(read_plan(head + "take = [{ rename = [\"a.py\"] }]\n", "p").ok());
  EXPECT_FALSE(read_plan(head + "take = [{ rename = [\"a\", \"b\"], lines = [1, 2] }]\n", "p").ok());
}

TEST(Plan, AReviewersCommitNamesABucketThatIsThere) {
  const std::string head =
      "format = 1\nname = \"x\"\n[base]\nrepo = \"r\"\ncommit = \"" + std::string(40, 'a') +
      "\"\n[tree]\nsource = \"dir:x\"\n[[bucket]]\nname = \"b\"\n[[ahead]]\ncommit = \"" +
      std::string(40, 'c') + "\"\n";
  EXPECT_EQ(read_plan(head + "bucket = \"b\"\n", "p")->ahead.at(0).commit, std::string(40, 'c'));
  EXPECT_FALSE(read_plan(head + "bucket = \"nobody\"\n", "p").ok());
  EXPECT_FALSE(read_plan(head, "p").ok());
}

TEST(Plan, RefusalsNameTheLineAndTheWayOut) {
  EXPECT_THAT(refusal("name = 3"), HasSubstr("format = 1"));
  EXPECT_THAT(refusal("format = 1\nname = \n"), HasSubstr("stack.toml:2"));
  EXPECT_THAT(refusal("format = 1\nname = \"x\"\n"), HasSubstr("[base]"));
  EXPECT_THAT(refusal(kHead + "sorce = \"x\"\n"),
              AllOf(HasSubstr("stack.toml:8"), HasSubstr("did you mean 'source'")));
  EXPECT_THAT(refusal(kHead + "[[bucket]]\nname = \"a\"\ntake = [\"h:12\"]\n"), HasSubstr("stack.toml:10"));
  EXPECT_THAT(refusal(kHead + "[[bucket]]\nname = \"a\"\n[[bucket]]\nname = \"a\"\n"),
              HasSubstr("second bucket"));
  EXPECT_THAT(refusal(kHead + "[[bucket]]\nname = \"ab\"\nneeds = [\"ba\"]\n"),
              HasSubstr("No bucket is called 'ba'"));
  EXPECT_THAT(refusal(kHead + "[[bucket]]\nname = \"../x\"\n"), HasSubstr("becomes a branch"));
  EXPECT_THAT(refusal(kHead + "[[bucket]]\nname = \"a\"\nstatus = \"done\"\n"),
              HasSubstr("'status' is pending"));
  EXPECT_THAT(refusal("format = 1\nname = \"x\"\n[base]\nrepo = \"r\"\ncommit = \"9aaf\"\n"),
              HasSubstr("full commit id"));
}

TEST(PlanEditor, ChangesOneValueAndLeavesEveryOtherByte) {
  const std::string before =
      "# top\n[base]\nrepo = 'r' # where\ntarget   =  \"old\"   # é why\n\n[tree]\nsource = \"x\"\n";
  PlanEditor editor(before);
  ASSERT_TRUE(editor.set("base", "target", "new").ok());
  EXPECT_EQ(editor.text(),
            "# top\n[base]\nrepo = 'r' # where\ntarget   =  \"new\"   # é why\n\n[tree]\nsource = \"x\"\n");
  ASSERT_TRUE(editor.set("tree", "digest", "d").ok());
  EXPECT_THAT(editor.text(), HasSubstr("[tree]\ndigest = \"d\"\nsource = \"x\"\n"));
  EXPECT_FALSE(editor.set("nothing", "a", "b").ok());
}

TEST(PlanEditor, AddsToListsOfEveryLayout) {
  const auto add = [](const std::string& list) {
    PlanEditor editor("[[bucket]]\nname = \"é\"\n[[bucket]]\nname = \"b\"\ntake = " + list +
                      "\nwhy = \"w\"\n");
    EXPECT_TRUE(editor.add_to_list("b", "take", {"n1", "n2"}).ok());
    return editor.text().substr(editor.text().find("take"));
  };
  EXPECT_EQ(add("[]"), "take = [\n  \"n1\",\n  \"n2\",\n]\nwhy = \"w\"\n");
  EXPECT_EQ(add("[\"a\"]"), "take = [\"a\",\n  \"n1\",\n  \"n2\",\n]\nwhy = \"w\"\n");
  EXPECT_EQ(add("[\"a\", ]"), "take = [\"a\", \n  \"n1\",\n  \"n2\",\n]\nwhy = \"w\"\n");
  EXPECT_EQ(add("[\n  \"a]\", # ] ,\n]"),
            "take = [\n  \"a]\", # ] ,\n  \"n1\",\n  \"n2\",\n]\nwhy = \"w\"\n");
  EXPECT_EQ(add("[\n  \"a\" # no comma,\n]"),
            "take = [\n  \"a\", # no comma,\n  \"n1\",\n  \"n2\",\n]\nwhy = \"w\"\n");
}

TEST(PlanEditor, MakesAndRemovesLists) {
  const std::string before = "[[bucket]]\nname = \"b\"\ntake = [\n  \"a\",\n]\nwhy = \"w\"\n";
  PlanEditor editor(before);
  ASSERT_TRUE(editor.add_to_list("b", "pins", {"h:1234"}).ok());
  EXPECT_EQ(editor.text(),
            "[[bucket]]\nname = \"b\"\ntake = [\n  \"a\",\n]\npins = [\n  \"h:1234\",\n]\nwhy = \"w\"\n");
  ASSERT_TRUE(editor.remove_key("b", "pins").ok());
  EXPECT_EQ(editor.text(), before);
  ASSERT_TRUE(editor.remove_from_list("b", "take", {"a", "zz"}).ok());
  EXPECT_EQ(editor.text(), "[[bucket]]\nname = \"b\"\ntake = [\n]\nwhy = \"w\"\n");
}

TEST(PlanEditor, ALayoutThatItCannotEditIsRefusedAndStays) {
  for (const std::string& text :
       {std::string("bucket = [{ name = \"a\", take = [\"b\"] }]\nbase = { repo = \"r\" }\n"),
        std::string("base.repo = \"r\"\n[[bucket]]\nname = \"a\"\n")}) {
    PlanEditor editor(text);
    const auto refused = editor.set("base", "target", "x");
    ASSERT_FALSE(refused.ok()) << editor.text();
    EXPECT_EQ(refused.error().kind, ErrorKind::kUnsupported);
    EXPECT_EQ(editor.text(), text);
  }
  PlanEditor inlined("bucket = [{ name = \"a\", take = [\"b\"] }]\n");
  EXPECT_EQ(inlined.add_to_list("a", "pins", {"h:1234"}).error().kind, ErrorKind::kUnsupported);
  ASSERT_TRUE(inlined.add_to_list("a", "take", {"c", "{ path = \"d#e\" }"}).ok());
  EXPECT_EQ(inlined.text(),
            "bucket = [{ name = \"a\", take = [\"b\",\n  \"c\",\n  { path = \"d#e\" },\n] }]\n");
}

TEST(PlanEditor, QuotesWhatTomlCannotHoldPlain) {
  EXPECT_EQ(toml_quoted("a\"b\\c\n\x01"), "\"a\\\"b\\\\c\\n\\u0001\"");
}

}  // namespace
}  // namespace tessera::stack
