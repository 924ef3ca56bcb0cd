#include "stack/plan/ownership.h"

#include <gmock/gmock.h>

#include <map>

#include "stack/object/memory_store.h"
#include "stack/object/tree_digest.h"
#include "stack/plan/claim.h"
#include "stack/plan/path_rules.h"

namespace tessera::stack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using Files = std::map<std::string, std::string>;

Tree tree_of(const Files& files, BlobStore& blobs) {
  Tree tree;
  for (const auto& [path, bytes] : files)
    tree.entries.push_back({.path = path, .oid = *blobs.write(bytes), .size = bytes.size()});
  sort_entries(tree.entries);
  return tree;
}

struct Case {
  Listing listing;
  Plan plan;

  Case(const Files& before, const Files& after) {
    MemoryStore blobs;
    const Tree base = tree_of(before, blobs);
    listing = *make_listing(base, tree_of(after, blobs), blobs);
  }
  void add(const std::string& name, const std::vector<std::string>& take,
           const std::vector<std::string>& leave = {}) {
    Bucket bucket;
    bucket.name = name;
    for (const std::string& text : take) bucket.take.push_back(*parse_claim(text));
    for (const std::string& text : leave) bucket.leave.push_back(*parse_claim(text));
    std::int32_t line = static_cast<std::int32_t>(plan.buckets.size()) * 10;
    for (Claim& claim : bucket.take) claim.line = ++line;
    plan.buckets.push_back(bucket);
  }
  ClaimResolution resolve() const { return resolve_claims(plan, listing, "stack.toml"); }
  std::vector<std::int32_t> wholes() const {
    std::vector<std::int32_t> out;
    for (const AtomOwner& owner : resolve().ownership.atoms) out.push_back(owner.whole);
    return out;
  }
};

const Files kBase = {{"d/a.py", "def f():\n    1\n    2\n\ndef g():\n    3\n"}, {"d/b.py", "x\n"}};
const Files kTree = {{"d/a.py", "def f():\n    ONE\n    2\n\ndef g():\n    THREE\n"}, {"d/b.py", "y\n"}};

TEST(Ownership, TheMoreExactClaimWins) {
  Case c(kBase, kTree);  // atoms: f's line, g's line, b.py
  c.add("all", {"glob:d/**"});
  c.add("file", {"d/a.py"});
  EXPECT_THAT(c.wholes(), ElementsAre(1, 1, 0));
  c.add("section", {"d/a.py#fn:g"});
  EXPECT_THAT(c.wholes(), ElementsAre(1, 2, 0));
  c.add("text", {"text:**:/THREE/"});
  EXPECT_THAT(c.wholes(), ElementsAre(1, 3, 0));
  c.add("lines", {"d/a.py#L6"});
  EXPECT_THAT(c.wholes(), ElementsAre(1, 4, 0));
  c.add("id", {"h:" + c.listing.atoms[1].id});
  EXPECT_THAT(c.wholes(), ElementsAre(1, 5, 0));
  EXPECT_THAT(c.resolve().errors, IsEmpty());
}

TEST(Ownership, TheLongerGlobWins) {
  Case c(kBase, kTree);
  c.add("long", {"glob:d/b*"});
  c.add("short", {"glob:d/*"});
  EXPECT_THAT(c.wholes(), ElementsAre(1, 1, 0));
}

TEST(Ownership, EqualClaimsAreAnErrorThatNamesBothLines) {
  Case c(kBase, kTree);
  c.add("one", {"d/b.py"});
  c.add("two", {"d/b.py"});
  const auto errors = c.resolve().errors;
  ASSERT_EQ(errors.size(), 1u);
  EXPECT_THAT(errors[0].message(), AllOf(HasSubstr("one on line 1"), HasSubstr("two on line 11")));
}

TEST(Ownership, LeaveGivesAnAtomBack) {
  Case c(kBase, kTree);
  c.add("one", {"d/a.py"}, {"d/a.py#fn:g"});
  EXPECT_THAT(c.wholes(), ElementsAre(0, kUnassigned, kUnassigned));
  EXPECT_EQ(c.resolve().ownership.unassigned(), 2);
}

TEST(Ownership, AClaimThatMatchesNothingIsAnErrorUnlessOptional) {
  Case c(kBase, kTree);
  c.add("one", {"d/c.py"});
  EXPECT_THAT(c.resolve().errors.at(0).message(), HasSubstr("this path does not differ"));
  c.plan.buckets[0].take[0].is_optional = true;
  EXPECT_THAT(c.resolve().errors, IsEmpty());
}

TEST(Ownership, PiecesCutAnAtomAndTheRestFollowsTheWholeClaim) {
  Case c({{"f", "a\nold\nz\n"}}, {{"f", "a\nt1\nnew\nt2\nz\n"}});
  const std::string id = "h:" + c.listing.atoms[0].id;
  c.add("timers", {id + "[+/^t/]"});
  auto resolved = c.resolve();
  EXPECT_THAT(resolved.ownership.atoms[0].added, ElementsAre(0, kUnassigned, 0));
  EXPECT_THAT(resolved.ownership.atoms[0].removed, ElementsAre(kUnassigned));
  c.add("fix", {"f"});
  resolved = c.resolve();
  EXPECT_THAT(resolved.ownership.atoms[0].added, ElementsAre(0, 1, 0));
  EXPECT_THAT(resolved.ownership.atoms[0].removed, ElementsAre(1));
  EXPECT_THAT(resolved.errors, IsEmpty());
  c.add("greedy", {id + "[+1..2]"});
  EXPECT_THAT(c.resolve().errors.at(0).message(), HasSubstr("Line +1"));
}

TEST(Ownership, AnAmbiguousIdNamesItsCandidates) {
  std::string before, after;
  for (int i = 0; i < 3000; ++i) {
    before += std::to_string(i) + "\nkept\n";
    after += std::to_string(i) + "!\nkept\n";
  }
  Case c({{"f", before}}, {{"f", after}});
  std::string shared;
  for (const Atom& atom : c.listing.atoms) {
    if (c.listing.find(atom.id.substr(0, 4)).size() > 1) shared = atom.id.substr(0, 4);
  }
  ASSERT_FALSE(
      shared.empty());  // 3,000 ids over 65,536 prefixes: the birthday problem makes this certain enough
  c.add("one", {"h:" + shared});
  EXPECT_THAT(c.resolve().errors.at(0).message(), AllOf(HasSubstr("ambiguous"), HasSubstr("h:" + shared)));
}

TEST(Ownership, ARenameClaimsBothOfItsPathsAndNothingElseIsOne) {
  const Case c({{"a", "1\n2\n"}, {"kept", "1\n"}}, {{"b", "1\n2\n"}, {"kept", "2\n"}});
  const auto resolve = [&](const std::string& from, const std::string& to) {
    Plan plan;
    plan.buckets.emplace_back();
    plan.buckets[0].name = "move";
    plan.buckets[0].take.push_back({.kind = ClaimKind::kPath, .path = from, .renamed_to = to});
    return resolve_claims(plan, c.listing, "stack.toml");
  };
  const ClaimResolution both = resolve("a", "b");
  EXPECT_THAT(both.errors, IsEmpty());
  EXPECT_EQ(both.ownership.unassigned(), 1);  // kept
  EXPECT_THAT(resolve("kept", "b").errors.at(0).message(), HasSubstr("names no rename"));
  EXPECT_THAT(resolve("b", "a").errors.at(0).message(), HasSubstr("names no rename"));
}

TEST(PathRules, IgnoredAndUninstalledPathsDoNotDiffer) {
  MemoryStore blobs;
  Plan plan;
  plan.ignore.push_back({.glob = "**/*.pyc", .reason = "byte code"});
  plan.subset.push_back({.keep = "pkg/**", .reason = "installed"});
  const Tree base = tree_of({{"docs/x", "1"}, {"pkg/a", "1"}, {"pkg/b", "1"}}, blobs);
  const auto ruled = apply_rules(plan, base, tree_of({{"pkg/a", "2"}, {"pkg/a.pyc", "z"}}, blobs));
  ASSERT_TRUE(ruled.ok());
  const auto listing = make_listing(base, ruled->tree, blobs);
  ASSERT_EQ(listing->files.size(), 2u);  // a changed, b deleted; docs and byte code do not count
  EXPECT_EQ(ruled->uses[0].paths, 1);
  EXPECT_EQ(ruled->uses[1].paths, 1);
  EXPECT_THAT(ruled->ignored, ElementsAre("docs/x", "pkg/a.pyc"));
}

TEST(PathRules, ARuleMayNotHideAChangeOfTheBase) {
  MemoryStore blobs;
  Plan plan;
  plan.ignore.push_back({.glob = "pkg/**", .reason = "too broad"});
  const Tree base = tree_of({{"pkg/a", "1"}}, blobs);
  const Tree tree = tree_of({{"pkg/a", "2"}}, blobs);
  EXPECT_EQ(apply_rules(plan, base, tree).error().kind, ErrorKind::kMismatch);
  EXPECT_EQ(apply_rules(plan, base, Tree{}).error().kind, ErrorKind::kMismatch);
  plan.ignore[0].even_if_changed = true;
  ASSERT_TRUE(apply_rules(plan, base, tree).ok());
  EXPECT_EQ(apply_rules(plan, base, tree)->tree.entries, base.entries);
}

}  // namespace
}  // namespace tessera::stack
