// Any partition of a difference into buckets is a stack: a thousand random ones, in process. A failure is
// made smaller before it is printed.
//
// TESSERA_STACK_HISTORY="<repository> <base> <tip>" runs on a real difference instead of the one made here.
#include <gmock/gmock.h>

#include <cstdlib>
#include <numeric>
#include <random>
#include <sstream>

#include "base/test_seed.h"
#include "stack/compose/composer.h"
#include "stack/compose/scratch_stack.h"
#include "stack/plan/plan_file.h"
#include "stack/plan/plan_reader.h"

namespace tessera::stack {
namespace {

constexpr int kRounds = 1000;
constexpr int kCommitEvery = 50;  // rounds; commits are slow, and composing is where it can go wrong
constexpr std::size_t kBuckets = 12;

// Who owns what, in the order in which the buckets stand.
struct Partition {
  std::size_t buckets = 1;
  std::vector<AtomOwner> owners;  // [atoms]
};

std::string plan_text(const Partition& partition, const Listing& listing) {
  std::vector<std::string> takes(partition.buckets);
  for (std::size_t i = 0; i < listing.atoms.size(); ++i) {
    const AtomOwner& owner = partition.owners[i];
    if (!owner.is_cut) {
      takes[static_cast<std::size_t>(owner.whole)] += "\"h:" + listing.atoms[i].id + "\", ";
      continue;
    }
    for (std::size_t b = 0; b < partition.buckets; ++b) {
      LinePick pick{std::vector<bool>(owner.removed.size()), std::vector<bool>(owner.added.size())};
      const auto bucket = static_cast<std::int32_t>(b);
      for (std::size_t line = 0; line < owner.removed.size(); ++line)
        pick.removed[line] = owner.removed[line] == bucket;
      for (std::size_t line = 0; line < owner.added.size(); ++line)
        pick.added[line] = owner.added[line] == bucket;
      if (!pick.is_empty()) takes[b] += "\"h:" + listing.atoms[i].id + "[" + pick_text(pick) + "]\", ";
    }
  }
  std::string text;
  for (std::size_t b = 0; b < partition.buckets; ++b)
    text += "[[bucket]]\nname = \"b" + std::to_string(b) + "\"\ntake = [" + takes[b] + "]\n";
  return text;
}

// One in twenty text atoms is cut, line by line. What creates a file goes to the first bucket that puts text
// into it: two files that were each created by the other's bucket would be a cycle, and that is another test.
Partition random_partition(const Listing& listing, std::mt19937& random) {
  Partition partition{.buckets = 1 + random() % kBuckets, .owners = {}};
  const auto any = [&] { return static_cast<std::int32_t>(random() % partition.buckets); };
  for (const Atom& atom : listing.atoms) {
    AtomOwner owner{.whole = any()};
    const auto removed = listing.removed(atom);
    const auto added = listing.added(atom);
    if (removed.size() + added.size() >= 2 && random() % 20 == 0) {
      owner = {.is_cut = true};
      for (std::size_t i = 0; i < removed.size(); ++i) owner.removed.push_back(any());
      for (std::size_t i = 0; i < added.size(); ++i) owner.added.push_back(any());
      if (owner.owners().size() == 1) owner = {.whole = owner.owners().front()};
    }
    partition.owners.push_back(std::move(owner));
  }
  for (std::size_t i = 0; i + 1 < listing.atoms.size(); ++i) {
    if (listing.atoms[i].kind == AtomKind::kCreate && listing.atoms[i + 1].file == listing.atoms[i].file)
      partition.owners[i] = {.whole = partition.owners[i + 1].owners().front()};
  }
  return partition;
}

class Stand {
 public:
  explicit Stand(Workspace workspace) : workspace_(std::move(workspace)), head_(workspace_.file.text) {}
  const Listing& listing() const { return workspace_.listing; }

  // Empty when everything holds; else one sentence.
  std::string failure_of(const Partition& partition, unsigned seed, bool with_commits) {
    auto plan = read_plan(head_ + plan_text(partition, listing()), "plan");
    if (!plan) return "the plan is refused: " + plan.error().message();
    ClaimResolution claims = resolve_claims(*plan, listing(), "plan");
    if (!claims.errors.empty()) return "a claim is refused: " + claims.errors[0].message();
    if (claims.ownership.atoms != partition.owners) return "claims resolve to other owners";
    workspace_.file.plan = *std::move(plan);
    workspace_.claims = std::move(claims);
    // Names are left aside: a random cut is no cut by topic, and every two buckets would need each other.
    const Graph graph = make_graph({.plan = workspace_.plan(),
                                    .listing = listing(),
                                    .ownership = workspace_.claims.ownership,
                                    .regions = workspace_.regions,
                                    .is_in_base = [](std::string_view) { return true; }});
    if (!graph.errors.empty()) return "the graph is refused: " + graph.errors[0].message();
    std::mt19937 random(seed);
    std::string failure = compose_failure(partition, graph, random);
    if (failure.empty() && with_commits) failure = commit_failure(graph);
    return failure;
  }

 private:
  std::string compose_failure(const Partition& partition, const Graph& graph, std::mt19937& random) const {
    const Ground ground = ground_on_base(listing());
    std::vector<std::int32_t> order(partition.buckets);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, random);
    const Composer composer(listing(), workspace_.claims.ownership, workspace_.regions, graph.rank, ground);
    const Composer reordered(listing(), workspace_.claims.ownership, workspace_.regions, order, ground);
    for (std::size_t i = 0; i < listing().files.size(); ++i) {
      const FileChange& file = listing().files[i];
      BucketSet some{std::vector<bool>(partition.buckets), false};
      for (const std::int32_t bucket : order) {
        some.add(bucket);
        const ComposedFile once = composer.compose(i, some);
        const ComposedFile twice = reordered.compose(i, some);
        if (once.bytes != twice.bytes || once.mode != twice.mode)
          return file.path + " depends on the order of topics";
      }
      const ComposedFile all = composer.compose(i, some);
      const bool is_tree =
          file.after ? all.mode == file.after->mode &&
                           (all.bytes ? *all.bytes == *file.new_text.bytes : all.oid == file.after->oid)
                     : !all.mode;
      if (!is_tree) return file.path + " is not the tree's when all buckets are in";
      for (const std::int32_t bucket : order) {
        BucketSet alone{std::vector<bool>(partition.buckets), false};
        for (const std::int32_t need : graph.closure(bucket)) alone.add(need);
        alone.add(bucket);
        if (!composer.compose(i, alone).conflicts.empty())
          return file.path + " cannot be composed with bucket " + std::to_string(bucket) + " and its needs";
      }
    }
    return {};
  }

  std::string commit_failure(const Graph& graph) {
    const auto composition = compose_topics(workspace_, graph, ground_on_base(listing()));
    if (!composition) return "composing is refused: " + composition.error().message();
    const auto tree = workspace_.repository.read_tree(*composition->integration_tree);
    if (!tree) return "the integration cannot be read: " + tree.error().message();
    return tree->digest == workspace_.raw_tree.digest ? "" : "the integration is not the tree";
  }

  Workspace workspace_;
  std::string head_;
};

// Buckets given away and atoms put into the first one, as long as it still fails.
Partition shrunk(Partition partition, const std::function<bool(const Partition&)>& fails) {
  for (bool is_smaller = true; is_smaller;) {
    is_smaller = false;
    const auto keep = [&](Partition tried) {
      if (!fails(tried)) return;
      partition = std::move(tried);
      is_smaller = true;
    };
    if (partition.buckets > 1) {
      const auto last = static_cast<std::int32_t>(partition.buckets - 1);
      Partition merged = partition;
      --merged.buckets;
      for (AtomOwner& owner : merged.owners) {
        if (owner.whole == last) owner.whole = 0;
        std::ranges::replace(owner.removed, last, 0);
        std::ranges::replace(owner.added, last, 0);
        if (owner.is_cut && owner.owners().size() == 1) owner = {.whole = owner.owners().front()};
      }
      keep(std::move(merged));
    }
    for (std::size_t i = 0; i < partition.owners.size(); ++i) {
      if (partition.owners[i] == AtomOwner{.whole = 0}) continue;
      Partition mended = partition;
      mended.owners[i] = {.whole = 0};
      keep(std::move(mended));
    }
  }
  return partition;
}

// A difference in the shape of a real fork's: many small blocks, some files made and some removed, one
// binary.
Workspace made_workspace(ScratchStack& scratch, std::mt19937& random) {
  const auto line = [&] { return "line " + std::to_string(random() % 40) + "\n"; };
  const auto name = [](int i) { return "pkg" + std::to_string(i % 4) + "/file" + std::to_string(i) + ".py"; };
  std::vector<std::string> texts;
  for (int i = 0; i < 16; ++i) {
    std::string& text = texts.emplace_back();
    for (int n = 0; n < 60; ++n) text += line();
    scratch.write(name(i), text);
  }
  scratch.write("picture", std::string("\0a", 2));
  scratch.commit_base();
  for (int i = 0; i < 16; ++i) {
    if (i == 3 || i == 7) {
      scratch.remove(name(i));
      continue;
    }
    std::string text;
    for (const std::string_view old : split_lines(texts[static_cast<std::size_t>(i)])) {
      const auto dice = random() % 12;
      if (dice == 0) text += "new " + line() + "new " + line();
      if (dice == 1) text += "other " + line();
      if (dice > 2) text += old;
    }
    if (i == 5) text += "no end";
    scratch.write(name(i), text);
  }
  for (int i = 0; i < 4; ++i) {
    std::string text;
    for (int n = 0; n < 12; ++n) text += line();
    scratch.write("made/" + std::to_string(i), text);
  }
  scratch.write("picture", std::string("\0b", 2));
  scratch.commit_tree();
  return scratch.open("");
}

Workspace real_workspace(const std::string& history) {
  std::istringstream in(history);
  std::string path, base, tip;
  in >> path >> base >> tip;
  auto repository = Repository::open(path);
  EXPECT_TRUE(repository.ok()) << path;
  const Oid from = *repository->resolve_commit(base);
  Tree tree = *repository->read_tree(*repository->resolve_commit(tip));
  const std::string text = "format = 1\nname = \"property\"\n[base]\nrepo = \"" + path + "\"\ncommit = \"" +
                           to_hex(from) +
                           "\"\n[tree]\nsource = \"git:x\"\n[branches]\nauthor = \"A <a@b>\"\n";
  Plan plan = *read_plan(text, "plan");
  auto workspace =
      make_workspace(PlanFile{"plan", text, std::move(plan)}, *std::move(repository), std::move(tree));
  EXPECT_TRUE(workspace.ok());
  return *std::move(workspace);
}

TEST(PartitionProperty, AThousandRandomPlansGiveTheTree) {
  const unsigned seed = test_seed();
  std::mt19937 random(seed);
  ScratchStack scratch;
  const char* history = std::getenv("TESSERA_STACK_HISTORY");
  Stand stand(history != nullptr ? real_workspace(history) : made_workspace(scratch, random));
  ASSERT_GT(stand.listing().atoms.size(), 50u);
  for (int round = 0; round < kRounds; ++round) {
    const Partition partition = random_partition(stand.listing(), random);
    const auto order = static_cast<unsigned>(random());
    const bool with_commits = round % kCommitEvery == 0;
    const std::string failure = stand.failure_of(partition, order, with_commits);
    if (failure.empty()) continue;
    const Partition small = shrunk(partition, [&](const Partition& tried) {
      return !stand.failure_of(tried, order, with_commits).empty();
    });
    FAIL() << "seed " << seed << ", round " << round << ": " << failure
           << "\nmade smaller: " << stand.failure_of(small, order, with_commits) << "\n"
           << plan_text(small, stand.listing());
  }
}

}  // namespace
}  // namespace tessera::stack
