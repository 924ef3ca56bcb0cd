#include "stack/compose/topics.h"

#include <algorithm>
#include <map>
#include <set>

#include "stack/compose/composer.h"
#include "stack/compose/replay.h"
#include "stack/object/digest.h"
#include "stack/object/next_command.h"
#include "stack/object/printable.h"

namespace tessera::stack {
namespace {

std::string message_of(const Plan& plan, const Bucket& bucket, const std::string& author) {
  std::string text = (bucket.title.empty() ? bucket.name : bucket.title) + "\n\n";
  if (!bucket.why.empty()) {
    text += bucket.why;
    text += bucket.why.ends_with('\n') ? "\n" : "\n\n";
  }
  text += "Tessera-Topic: " + plan.name + "/" + bucket.name + "\n";
  for (const std::string& other : bucket.co_authors) text += "Co-authored-by: " + other + "\n";
  if (plan.sign_off) text += "Signed-off-by: " + author + "\n";
  return text;
}

class TopicWriter {
 public:
  TopicWriter(Workspace& workspace, const Graph& graph, const Ground& ground)
      : workspace_(workspace),
        plan_(workspace.plan()),
        graph_(graph),
        composer_(workspace.listing, workspace.claims.ownership, workspace.regions, graph_.rank, ground),
        trees_(composer_, ground, workspace.repository) {
    if (plan_.linearise) linearise();
  }

  Result<Composition> write() {
    Composition out;
    Stage stage(workspace_.progress, "composing topics", graph_.order.size());
    for (const std::int32_t bucket : graph_.order) {
      stage.step();
      TS_TRY(Topic topic, write_topic(bucket));
      by_bucket_[bucket] = topic;
      out.topics.push_back(std::move(topic));
    }
    out.integration_ref = "refs/heads/" + plan_.prefix + "/" + std::string(kIntegrationBranch);
    const bool complete = std::ranges::all_of(out.topics, [](const Topic& t) { return t.conflicts.empty(); });
    if (complete) {
      TS_TRY(integrate(out));
    }
    return out;
  }

  // One commit a topic that is not empty, each with all that came before it.
  Result<TopicLine> line_up(const std::vector<Topic>& topics, std::string ref, BranchShape shape) {
    TopicLine line{.ref = std::move(ref), .commit = workspace_.target.id, .tree = workspace_.target.tree};
    std::vector<std::int32_t> done;
    Stage stage(workspace_.progress, "composing the line", topics.size());
    for (const Topic& topic : topics) {
      stage.step();
      done.push_back(topic.bucket);
      if (topic.is_empty) continue;
      TS_TRY(const TreeComposer::Composed composed, compose(set_of(done)));
      line.tree = composed.tree;
      line.buckets.push_back(topic.bucket);
      const Bucket& owner = bucket(topic.bucket);
      const std::string& author = owner.author.empty() ? plan_.author : owner.author;
      if (shape == BranchShape::kLinear) {
        TS_TRY(line.commit, commit(line.tree, {line.commit}, author, message_of(plan_, owner, author)));
      } else {
        // The merge's tree is composed, not merged. First parents read as a table of contents.
        TS_TRY(line.commit,
               commit(line.tree, {line.commit, topic.commit}, plan_.author,
                      "Merge " + owner.name + "\n\n" + (owner.title.empty() ? "" : owner.title + "\n\n") +
                          "Tessera-Topic: " + plan_.name + "/" + owner.name + "\n"));
      }
    }
    return line;
  }

 private:
  const Bucket& bucket(std::int32_t at) const { return plan_.buckets[static_cast<std::size_t>(at)]; }

  // A topic that needs two unrelated ones makes the second of them stand on the first.
  void linearise() {
    for (const std::int32_t at : graph_.order) {
      const std::vector<std::int32_t> tops = maximal(at);
      for (std::size_t i = 1; i < tops.size(); ++i) {
        auto& needs = graph_.needs[static_cast<std::size_t>(tops[i])];
        if (std::ranges::find(needs, tops[i - 1]) == needs.end()) needs.push_back(tops[i - 1]);
      }
    }
  }

  // The needs of a topic that no other need of it stands on, in line order.
  std::vector<std::int32_t> maximal(std::int32_t at) const {
    std::set<std::int32_t> below;
    const std::vector<std::int32_t> all = graph_.closure(at);
    for (const std::int32_t need : all) {
      for (const std::int32_t deeper : graph_.closure(need)) below.insert(deeper);
    }
    std::vector<std::int32_t> tops;
    std::ranges::copy_if(all, std::back_inserter(tops), [&](std::int32_t b) { return !below.contains(b); });
    return tops;
  }

  BucketSet set_of(const std::vector<std::int32_t>& buckets) const {
    BucketSet set{std::vector<bool>(plan_.buckets.size()), false};
    for (const std::int32_t b : buckets) set.add(b);
    return set;
  }

  Result<Oid> commit(const Oid& tree, std::vector<Oid> parents, const std::string& author,
                     std::string message) {
    TS_TRY(const Signature who, plan_signature(plan_, author));
    TS_TRY(const Signature committer, plan_signature(plan_, plan_.author));
    return workspace_.repository.write_commit({.id = {},
                                               .tree = tree,
                                               .parents = std::move(parents),
                                               .author = who,
                                               .committer = committer,
                                               .message = std::move(message)});
  }

  // The tip of a topic, or what is below it when the topic itself is empty.
  Oid tip_of(std::int32_t at) const {
    const Topic& topic = by_bucket_.at(at);
    return topic.is_empty ? topic.parent : topic.commit;
  }

  Result<Topic> write_topic(std::int32_t at) {
    Topic topic{.bucket = at,
                .ref = "refs/heads/" + plan_.prefix + "/" + bucket(at).name,
                .stands_on = graph_.closure(at),
                .conflicts = {},
                .commit = {},
                .tree = {},
                .parent = workspace_.target.id};
    BucketSet below = set_of(topic.stands_on);
    TS_TRY(const TreeComposer::Composed under, compose(below));
    below.add(at);
    TS_TRY(const TreeComposer::Composed over, compose(below, at));
    std::set<std::int32_t> conflicts(under.conflicts.begin(), under.conflicts.end());
    conflicts.insert(over.conflicts.begin(), over.conflicts.end());
    topic.conflicts.assign(conflicts.begin(), conflicts.end());
    if (!topic.conflicts.empty()) return topic;
    topic.tree = over.tree;

    std::vector<Oid> tips;
    std::string names;
    for (const std::int32_t top : maximal(at)) {
      const Oid tip = tip_of(top);
      if (tip == workspace_.target.id || std::ranges::find(tips, tip) != tips.end()) continue;
      tips.push_back(tip);
      names += (names.empty() ? "" : " and ") + bucket(top).name;
    }
    if (tips.size() == 1) topic.parent = tips.front();
    if (tips.size() > 1) {
      TS_TRY(topic.parent, commit(under.tree, tips, plan_.author,
                                  "Merge " + names + "\n\nWhat " + bucket(at).name + " stands on.\n"));
    }
    const bool is_reviewed =
        std::ranges::find(plan_.ahead, bucket(at).name, &Ahead::bucket) != plan_.ahead.end();
    topic.is_empty = over.tree == under.tree && !is_reviewed;
    if (topic.is_empty) return topic;
    const std::string& author = bucket(at).author.empty() ? plan_.author : bucket(at).author;
    TS_TRY(topic.commit, commit(over.tree, {topic.parent}, author, message_of(plan_, bucket(at), author)));
    for (const Ahead& ahead : plan_.ahead) {
      if (ahead.bucket != bucket(at).name) continue;
      TS_TRY(put_on(ahead, topic));
    }
    return topic;
  }

  // The chosen atoms on the target, and the reviewers' commits of the chosen topics on those; without the
  // commits of `bare`, when it is given.
  Result<TreeComposer::Composed> compose(const BucketSet& chosen, std::int32_t bare = kUnassigned) {
    TS_TRY(TreeComposer::Composed composed, trees_.compose(workspace_.target.tree, chosen));
    if (!composed.conflicts.empty()) return composed;
    for (const Ahead& ahead : plan_.ahead) {
      const std::int32_t owner = *plan_.find_bucket(ahead.bucket);
      if (owner == bare || !chosen.contains(owner)) continue;
      TS_TRY(composed.tree, replay_ahead(workspace_, ahead, composed.tree));
    }
    return composed;
  }

  // The very commit when it stands on what we composed, else one like it.
  Result<void> put_on(const Ahead& ahead, Topic& topic) {
    TS_TRY(Commit theirs, workspace_.repository.read_commit(*oid_from_hex(ahead.commit)));
    TS_TRY(topic.tree, replay_ahead(workspace_, ahead, topic.tree));
    if (theirs.parents == std::vector<Oid>{topic.commit} && theirs.tree == topic.tree) {
      topic.commit = theirs.id;
      return {};
    }
    theirs.parents = {topic.commit};
    theirs.tree = topic.tree;
    TS_TRY(theirs.committer, plan_signature(plan_, plan_.author));
    TS_TRY(topic.commit, workspace_.repository.write_commit(theirs));
    return {};
  }

  Result<void> integrate(Composition& out) {
    TS_TRY(const TopicLine line, line_up(out.topics, out.integration_ref, plan_.shape));
    out.integration = line.commit;
    out.integration_tree = line.tree;
    return {};
  }

  Workspace& workspace_;
  const Plan& plan_;
  Graph graph_;  // a copy, which linearise may extend
  Composer composer_;
  TreeComposer trees_;
  std::map<std::int32_t, Topic> by_bucket_;
};

}  // namespace

Result<Oid> replay_ahead(Workspace& workspace, const Ahead& ahead, const Oid& tree) {
  TS_TRY(const Commit commit, workspace.repository.read_commit(*oid_from_hex(ahead.commit)));
  TS_TRY(const Replayed replayed, replay(workspace.repository, commit, tree));
  if (replayed.conflicts.empty()) return replayed.tree;
  return Error{ErrorKind::kConflict, workspace.where(ahead.line),
               "The commit " + ahead.commit.substr(0, 12) + " no longer fits onto " + ahead.bucket + ": " +
                   printable(replayed.conflicts.front()) +
                   " was changed on both sides. Take its lines into the tree, or remove this [[ahead]]."};
}

Result<std::vector<std::string>> paths_of_ahead(const Workspace& workspace, const Ahead& ahead) {
  TS_TRY(const Commit commit, workspace.repository.read_commit(*oid_from_hex(ahead.commit)));
  if (commit.parents.empty()) return std::vector<std::string>();
  TS_TRY(const Commit parent, workspace.repository.read_commit(commit.parents[0]));
  return workspace.repository.changed_paths(parent.tree, commit.tree);
}

Result<Signature> plan_signature(const Plan& plan, const std::string& person) {
  const std::size_t open = person.find(" <");
  if (open == std::string::npos || open == 0 || !person.ends_with('>')) {
    return Error{ErrorKind::kInvalidArgument, "author",
                 "An author reads \"Name <mail>\", found '" + person + "'; set it under [branches]."};
  }
  return Signature{.name = person.substr(0, open),
                   .email = person.substr(open + 2, person.size() - open - 3),
                   .seconds = plan.date};
}

Result<Composition> compose_topics(Workspace& workspace, const Graph& graph, const Ground& ground) {
  return TopicWriter(workspace, graph, ground).write();
}

Result<TopicLine> consolidate_topics(Workspace& workspace, const Graph& graph, const Ground& ground,
                                     const Composition& composition) {
  const Plan& plan = workspace.plan();
  std::vector<Topic> topics;
  for (const Topic& topic : composition.topics) {
    const Bucket& bucket = plan.buckets[static_cast<std::size_t>(topic.bucket)];
    if (bucket.kind != BucketKind::kUpstream) continue;
    if (!topic.conflicts.empty()) {
      return Error{ErrorKind::kConflict, workspace.plan_name(),
                   with_next("The topic " + bucket.name +
                                 " conflicts at the target, so the line of all topics has a gap",
                             "tessera-stack rebase --onto " + plan.target.substr(0, 12))};
    }
    topics.push_back(topic);
  }
  // An upstream topic never needs a local one, so what is left of the line order is one, too.
  return TopicWriter(workspace, graph, ground)
      .line_up(topics, "refs/heads/" + plan.prefix + "/" + std::string(kConsolidatedBranch),
               BranchShape::kLinear);
}

}  // namespace tessera::stack
