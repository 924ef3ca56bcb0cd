#include <gmock/gmock.h>

#include <random>

#include "base/test_seed.h"
#include "stack/compose/composer.h"
#include "stack/compose/scratch_stack.h"
#include "stack/move/absorb.h"
#include "stack/move/target.h"
#include "stack/move/upstream.h"
#include "stack/plan/plan_editor.h"

namespace tessera::stack {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A base on main, a tree on main's child, and an upstream commit on a branch of its own.
struct Moved {
  ScratchStack scratch;
  std::string upstream;

  template <class Base, class Tree, class Upstream>
  Moved(Base base, Tree tree, Upstream up) {
    base(scratch);
    scratch.commit_base();
    tree(scratch);
    scratch.commit_tree();
    scratch.repository().git("checkout -q -b up base");
    up(scratch);
    upstream = scratch.repository().commit("upstream moved");
  }
};

std::vector<std::string> kinds(const TargetGround& target) {
  std::vector<std::string> out;
  for (const FileGround& file : target.ground.files) {
    for (const Placement& placement : file.placements) out.push_back(std::string(name_of(placement.kind)));
  }
  return out;
}

TEST(Target, AtomsFollowTheirLinesAndTouchedOnesConflict) {
  Moved m(
      [](ScratchStack& s) {
        s.write("f", numbered(1, 40));
        s.write("same", "1\n2\n3\n");
      },
      [](ScratchStack& s) {
        std::string text = numbered(1, 40);
        text.replace(text.find("line 5\n"), 7, "ours 5\n");
        text.replace(text.find("line 20\n"), 8, "ours 20\n");
        text.replace(text.find("line 35\n"), 8, "both 35\n");
        s.write("f", text);
        s.write("same", "1\ntwo\n3\n");
      },
      [](ScratchStack& s) {
        std::string text = "new first\n" + numbered(1, 40);
        text.replace(text.find("line 20\n"), 8, "theirs 20\n");
        text.replace(text.find("line 35\n"), 8, "both 35\n");
        s.write("f", text);
      });
  Workspace workspace = m.scratch.open(
      "[[bucket]]\nname = \"a\"\ntake = [\"f#L5\"]\n[[bucket]]\nname = \"b\"\ntake = "
      "[\"f\"]\n[[bucket]]\nname = \"c\"\ntake = [\"same\"]\n",
      m.upstream);
  auto target = ground_on(workspace, workspace.target);
  ASSERT_TRUE(target.ok());
  EXPECT_THAT(kinds(*target), ElementsAre("mapped", "conflict", "done", "same"));
  ASSERT_EQ(target->conflicts.size(), 1u);
  const Conflict& conflict = target->conflicts[0];
  EXPECT_EQ(conflict.base + conflict.ours + conflict.theirs, "line 20\ntheirs 20\nours 20\n");
  ASSERT_TRUE(find_upstream_commits(workspace, workspace.target, target->conflicts).ok());
  ASSERT_EQ(target->conflicts[0].upstream.size(), 1u);
  EXPECT_EQ(to_hex(target->conflicts[0].upstream[0]), m.upstream);

  const Graph graph = graph_of(workspace);
  const auto composition = compose_topics(workspace, graph, target->ground);
  ASSERT_TRUE(composition.ok());
  EXPECT_FALSE(composition->integration);  // b conflicts
  for (const Topic& topic : composition->topics) {
    const std::string& name = workspace.plan().buckets[static_cast<std::size_t>(topic.bucket)].name;
    EXPECT_EQ(topic.conflicts.empty(), name != "b") << name;
    if (name != "a") continue;
    EXPECT_THAT(m.scratch.repository().git("show " + to_hex(topic.tree) + ":f"), HasSubstr("ours 5\nline 6"));
  }
}

TEST(Target, AStoredResolutionIsUsedAndListed) {
  Moved m([](ScratchStack& s) { s.write("f", "a\nb\nc\n"); },
          [](ScratchStack& s) { s.write("f", "a\nours\nc\n"); },
          [](ScratchStack& s) { s.write("f", "0\na\ntheirs\nc\n"); });
  const std::string bucket = "[[bucket]]\nname = \"x\"\ntake = [\"f\"]\n";
  std::string id;
  {
    const Workspace workspace = m.scratch.open(bucket, m.upstream);
    id = ground_on(workspace, workspace.target)->conflicts.at(0).id;
  }
  m.scratch.folder().write("r.txt", "both\n");
  Workspace workspace =
      m.scratch.open(bucket + "[[resolution]]\nconflict = \"" + id + "\"\nfile = \"r.txt\"\n", m.upstream);
  const auto target = ground_on(workspace, workspace.target);
  EXPECT_THAT(kinds(*target), ElementsAre("remembered"));
  EXPECT_TRUE(target->conflicts.at(0).is_resolved);
  const auto composition = compose_topics(workspace, graph_of(workspace), target->ground);
  ASSERT_TRUE(composition->integration);
  EXPECT_EQ(m.scratch.repository().git("show " + to_hex(*composition->integration_tree) + ":f"),
            "0\na\nboth\nc");
}

TEST(Target, ARenamedFileIsFollowed) {
  Moved m([](ScratchStack& s) { s.write("old/name.py", numbered(1, 30)); },
          [](ScratchStack& s) {
            std::string text = numbered(1, 30);
            text.replace(text.find("line 9\n"), 7, "ours 9\n");
            s.write("old/name.py", text);
          },
          [](ScratchStack& s) {
            s.remove("old");
            s.write("new/name.py", "head\n" + numbered(1, 30));
          });
  Workspace workspace = m.scratch.open("[[bucket]]\nname = \"x\"\ntake = [\"old/name.py\"]\n", m.upstream);
  const auto target = ground_on(workspace, workspace.target);
  EXPECT_THAT(kinds(*target), ElementsAre("mapped"));
  EXPECT_THAT(target->renamed.at(0), HasSubstr("old/name.py -> new/name.py"));
  const auto composition = compose_topics(workspace, graph_of(workspace), target->ground);
  EXPECT_THAT(m.scratch.repository().git("diff --stat up " + to_hex(*composition->integration)),
              HasSubstr("new/name.py"));
}

TEST(Target, WholePathsClashAsWholes) {
  Moved m(
      [](ScratchStack& s) {
        s.write("gone", "1\n2\n");
        s.write("removed", "1\n");
        s.write("pic", std::string("\0a", 2));
      },
      [](ScratchStack& s) {
        s.write("gone", "1\nours\n");
        s.remove("removed");
        s.write("pic", std::string("\0b", 2));
        s.write("made", "ours\n");
      },
      [](ScratchStack& s) {
        s.remove("gone");
        s.write("removed", "changed\n");
        s.write("pic", std::string("\0c", 2));
        s.write("made", "theirs\n");
      });
  const Workspace workspace = m.scratch.open("", m.upstream);
  const auto target = ground_on(workspace, workspace.target);
  EXPECT_THAT(kinds(*target), ElementsAre("conflict", "done", "conflict", "conflict", "conflict"));
}

// Where git merges without a conflict and we place everything, the results are equal, file by file.
TEST(TargetProperty, EqualsGitsMergeWhereNeitherConflicts) {
  const unsigned seed = test_seed();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  int compared = 0;
  for (int round = 0; round < 8; ++round) {
    const auto change = [&](const std::string& text, const std::string& word) {
      std::string out;
      int n = 0;
      for (const std::string_view line : split_lines(text)) {
        const auto dice = random() % 60;
        if (dice == 0) out += word + " new " + std::to_string(n++) + "\n";
        if (dice == 1)
          out += word + " " + std::string(line);
        else if (dice != 2)
          out += line;
      }
      return out;
    };
    std::vector<std::string> bases;
    for (int i = 0; i < 5; ++i) bases.push_back(numbered(1, 45, "file" + std::to_string(i)));
    const auto name = [](int i) { return "d/f" + std::to_string(i); };
    Moved m(
        [&](ScratchStack& s) {
          for (int i = 0; i < 5; ++i) s.write(name(i), bases[static_cast<std::size_t>(i)]);
        },
        [&](ScratchStack& s) {
          for (int i = 0; i < 5; ++i) s.write(name(i), change(bases[static_cast<std::size_t>(i)], "ours"));
        },
        [&](ScratchStack& s) {
          for (int i = 0; i < 5; ++i) s.write(name(i), change(bases[static_cast<std::size_t>(i)], "theirs"));
        });
    Workspace workspace = m.scratch.open("[[bucket]]\nname = \"x\"\ntake = [\"glob:**\"]\n", m.upstream);
    const auto target = ground_on(workspace, workspace.target);
    ASSERT_TRUE(target.ok());
    const std::vector<std::int32_t> rank = {0};
    const Composer composer(workspace.listing, workspace.claims.ownership, workspace.regions, rank,
                            target->ground);
    for (std::size_t f = 0; f < workspace.listing.files.size(); ++f) {
      const std::string& path = workspace.listing.files[f].path;
      const ComposedFile mine = composer.compose(f, {{true}, false});
      const ScratchFolder work;
      work.write("base", *workspace.listing.files[f].old_text.bytes);
      work.write("theirs", *workspace.listing.files[f].new_text.bytes);
      const auto entry = workspace.repository.find_entry(workspace.target.id, path);
      work.write("ours", *workspace.repository.read(entry->oid));
      const CommandOutput git =
          run_command("cd '" + work.path().string() + "' && git merge-file -p --diff3 ours base theirs");
      if (git.status != 0 || !mine.conflicts.empty()) {
        EXPECT_EQ(git.status != 0, !mine.conflicts.empty()) << path << "\n" << git.text;
        continue;
      }
      ++compared;
      // Without atoms left to place (both sides made the same edit) the target's own blob stands.
      const std::string bytes = mine.bytes ? *mine.bytes : *workspace.repository.read(mine.oid);
      EXPECT_EQ(bytes, git.text + "\n") << path;
    }
  }
  EXPECT_GT(compared, 10);
}

TEST(Upstream, EachLevelNamesTheCommit) {
  Moved m(
      [](ScratchStack& s) {
        s.write("file", "1\n2\n");
        s.write("atom", numbered(1, 20));
        s.write("moved", numbered(1, 20));
      },
      [](ScratchStack& s) {
        s.write("file", "1\ntwo\n");
        std::string text = numbered(1, 20);
        text.replace(text.find("line 3\n"), 7, "ours and upstream 3\n");
        text.replace(text.find("line 15\n"), 8, "ours alone 15\n");
        s.write("atom", text);
        text = numbered(1, 20);
        text.insert(text.find("line 4\n"), "a telling new line of text\n");
        s.write("moved", text);
      },
      [](ScratchStack& s) {
        s.write("file", "1\ntwo\n");
        std::string text = "zero\n" + numbered(1, 20);
        text.replace(text.find("line 3\n"), 7, "ours and upstream 3\n");
        s.write("atom", text);
        text = numbered(1, 20);
        text.insert(text.find("line 12\n"), "a telling new line of text\nand another\n");
        s.write("moved", text);
      });
  const Workspace workspace = m.scratch.open("", m.upstream);
  const auto found = find_upstream(workspace, workspace.target);
  ASSERT_TRUE(found.ok());
  std::vector<std::string> levels;
  for (const UpstreamFinding& finding : *found) {
    levels.push_back(
        workspace.listing.file_of(workspace.listing.atoms[static_cast<std::size_t>(finding.atom)]).path +
        " " + std::string(name_of(finding.level)));
    ASSERT_TRUE(finding.commit);
    EXPECT_EQ(to_hex(*finding.commit), m.upstream);
  }
  EXPECT_THAT(levels, ElementsAre("atom atom", "file file", "moved reverse"));
}

// Scenario of a hot fix in the running tree, after the plan was integrated.
TEST(Absorb, DriftGoesToWhoOwnsTheLines) {
  ScratchStack scratch;
  scratch.write("f", "1\n2\n3\n4\n5\n6\n7\n8\n9\n");
  scratch.write("g", "x\n");
  scratch.commit_base();
  // A owns three lines after 2; A and B share one block after 6.
  scratch.write("f", "1\n2\na1\na2\na3\n3\n4\n5\n6\na4\na5\nb1\nb2\n7\n8\n9\n");
  scratch.commit_tree();
  std::string piece_of_a, piece_of_b;
  {
    const Workspace listed = scratch.open("");
    const std::string id = "h:" + listed.listing.atoms[1].id;
    piece_of_a = id + "[+1..2]";
    piece_of_b = id + "[+3..4]";
  }
  const std::string plan = "[[bucket]]\nname = \"a\"\ntake = [\"f#L3\", \"" + piece_of_a +
                           "\"]\n[[bucket]]\nname = \"b\"\ntake = [\"" + piece_of_b + "\"]\n";
  Workspace old = scratch.open(plan);
  ASSERT_THAT(old.claims.errors, IsEmpty());
  const Composition before = split_and_integrate(old, graph_of(old));

  // One line inside A's block, and a deletion across A and B.
  scratch.write("f", "1\n2\na1\nhot\na2\na3\n3\n4\n5\n6\na4\nb2\n7\n8\n9\n");
  scratch.write("new/file", "n\n");
  const std::string drifted = scratch.repository().commit("drift");
  auto repository = Repository::open(scratch.repository().path());
  auto tree = repository->read_tree(*oid_from_hex(drifted));
  const auto fresh = make_workspace(*load_plan(scratch.plan_path()), *std::move(repository), *tree);
  ASSERT_TRUE(fresh.ok());
  const auto found = absorb(old, *fresh);
  ASSERT_TRUE(found.ok());
  PlanEditor editor(old.file.text);
  for (const auto& [bucket, claim] : found->stale)
    ASSERT_TRUE(
        editor.remove_from_list(old.plan().buckets[static_cast<std::size_t>(bucket)].name, "take", {claim})
            .ok());
  std::vector<std::string> seen;
  for (const AbsorbProposal& proposal : found->proposals) {
    const Atom& atom = fresh->listing.atoms[static_cast<std::size_t>(proposal.atom)];
    seen.push_back(fresh->listing.file_of(atom).path + " " + std::string(name_of(proposal.confidence)));
    for (const auto& [bucket, claim] : proposal.claims)
      ASSERT_TRUE(
          editor.add_to_list(old.plan().buckets[static_cast<std::size_t>(bucket)].name, "take", {claim})
              .ok());
  }
  // The block of A with its new line is matched by the claim on line 3 already; the shared one needs new
  // pieces.
  EXPECT_THAT(seen, ElementsAre("f pieces", "new/file none", "new/file none"));
  scratch.folder().write("stack.toml", editor.text());
  repository = Repository::open(scratch.repository().path());
  auto after = make_workspace(*load_plan(scratch.plan_path()), *std::move(repository), *tree);
  ASSERT_TRUE(after.ok());
  EXPECT_THAT(after->claims.errors, IsEmpty());
  split_and_integrate(*after, graph_of(*after));
  EXPECT_EQ(scratch.repository().git("show t/a:f"), "1\n2\na1\nhot\na2\na3\n3\n4\n5\n6\na4\n7\n8\n9");
  EXPECT_EQ(scratch.repository().git("show t/integration:f"),
            scratch.repository().git("show " + drifted + ":f"));
}

TEST(Absorb, ALineBetweenTwoTopicsIsLeftAndAReviewersCommitIsReported) {
  ScratchStack scratch;
  scratch.write("f", "1\n2\n3\n");
  scratch.commit_base();
  scratch.write("f", "1\na1\nb1\n2\n3\n");
  scratch.commit_tree();
  std::string id;
  {
    const Workspace listed = scratch.open("");
    id = "h:" + listed.listing.atoms[0].id;
  }
  const std::string plan = "[[bucket]]\nname = \"a\"\ntake = [\"" + id +
                           "[+1]\"]\n[[bucket]]\nname = \"b\"\ntake = [\"" + id + "[+2]\"]\n";
  Workspace old = scratch.open(plan);
  split_and_integrate(old, graph_of(old));
  scratch.repository().git("checkout -q t/a");
  scratch.write("f", "1\na1 reviewed\n2\n3\n");
  const std::string reviewed = scratch.repository().commit("suggestion");
  scratch.repository().git("checkout -q --detach " + scratch.tree());
  scratch.write("f", "1\na1\nbetween\nb1\n2\n3\n");
  const std::string drifted = scratch.repository().commit("drift");
  auto repository = Repository::open(scratch.repository().path());
  const auto tree = repository->read_tree(*oid_from_hex(drifted));
  const auto fresh = make_workspace(*load_plan(scratch.plan_path()), *std::move(repository), *tree);
  const auto found = absorb(old, *fresh);
  ASSERT_TRUE(found.ok());
  ASSERT_EQ(found->proposals.size(), 1u);
  EXPECT_EQ(found->proposals[0].confidence, Confidence::kAmbiguous);
  EXPECT_THAT(found->proposals[0].candidates, ElementsAre(0, 1));
  ASSERT_EQ(found->ahead.size(), 1u);
  EXPECT_EQ(found->ahead[0].ref, "refs/heads/t/a");
  EXPECT_EQ(to_hex(found->ahead[0].now), reviewed);
  EXPECT_EQ(found->stale.size(), 2u);
}

}  // namespace
}  // namespace tessera::stack
