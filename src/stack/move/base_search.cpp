#include "stack/move/base_search.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "stack/object/digest.h"

namespace tessera::stack {
namespace {

// Commits between first samples; the valley of a real fork is hundreds wide.
constexpr std::size_t kStride = 64;
constexpr std::size_t kMerges = 1000;   // commits of the tree's own line in which merges are looked for
constexpr std::size_t kFinalists = 12;  // commits of a history whose lines are worth counting

std::int64_t differs(const std::optional<TreeEntry>& a, const std::optional<TreeEntry>& b) {
  return a.has_value() != b.has_value() || (a && (a->oid != b->oid || a->mode != b->mode)) ? 1 : 0;
}

class Search {
 public:
  Search(const Repository& repository, const Oid& tree, const BaseSearch& search)
      : repository_(repository),
        tree_(tree),
        every_commit_(search.every_commit),
        progress_(search.progress) {}

  Result<void> look_along(const std::vector<Oid>& history, const std::string& found_by) {
    if (history.empty()) return {};
    // Around the best sample every commit is counted: the valley's floor need not slope one way.
    std::size_t first = 0;
    std::size_t last = history.size() - 1;
    if (!every_commit_) {
      TS_TRY(const std::size_t best, best_sample(history, found_by));
      first = best >= kStride ? best - kStride : 0;
      last = std::min(best + kStride, last);
    }
    TS_TRY(const std::vector<std::int64_t> files, count_each(history, first, last));
    std::vector<std::size_t> order(files.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, {}, [&](std::size_t at) { return files[at]; });
    // Equal counts stand side by side; the lines decide between them.
    for (std::size_t i = 0; i < order.size() && i < kFinalists; ++i) {
      TS_TRY(count(history[first + order[i]], found_by));
    }
    return {};
  }

  Result<std::size_t> best_sample(const std::vector<Oid>& history, const std::string& found_by) {
    std::size_t best = 0;
    std::int64_t least = -1;
    Stage stage(progress_, "base candidates", (history.size() + kStride - 1) / kStride);
    for (std::size_t i = 0; i < history.size(); i += kStride) {
      stage.step();
      TS_TRY(const std::int64_t files, count(history[i], found_by));
      if (least < 0 || files < least) {
        least = files;
        best = i;
      }
    }
    return best;
  }

  // The differing files of every commit of history[first..last]. From one commit to the next only the paths
  // that the commit touched can change their answer.
  Result<std::vector<std::int64_t>> count_each(const std::vector<Oid>& history, std::size_t first,
                                               std::size_t last) {
    TS_TRY(Commit commit, repository_.read_commit(history[first]));
    TS_TRY(const TreeDistance start, repository_.distance(commit.tree, tree_, false));
    std::vector<std::int64_t> files = {start.files};
    Stage stage(progress_, "commits", last - first);
    for (std::size_t at = first + 1; at <= last; ++at) {
      stage.step();
      TS_TRY(Commit next, repository_.read_commit(history[at]));
      TS_TRY(const std::vector<std::string> paths, repository_.changed_paths(commit.tree, next.tree));
      std::int64_t now = files.back();
      for (const std::string& path : paths) {
        const auto wanted = repository_.find_entry(tree_, path);
        now += differs(repository_.find_entry(next.tree, path), wanted);
        now -= differs(repository_.find_entry(commit.tree, path), wanted);
      }
      files.push_back(now);
      commit = std::move(next);
    }
    return files;
  }

  Result<std::int64_t> count(const Oid& commit, const std::string& found_by) {
    const auto known = seen_.find(commit);
    if (known != seen_.end()) return known->second.files;
    TS_TRY(const Commit read, repository_.read_commit(commit));
    TS_TRY(const TreeDistance distance, repository_.distance(read.tree, tree_, false));
    order_.push_back(commit);
    seen_[commit] = {commit, distance.files, 0, found_by};
    return distance.files;
  }

  Result<std::vector<BaseCandidate>> best(std::size_t most) {
    std::vector<BaseCandidate> all;
    for (const Oid& commit : order_) all.push_back(seen_[commit]);
    std::ranges::stable_sort(all, {}, &BaseCandidate::files);
    // Lines are costly: only for those that can still win.
    std::size_t counted = 0;
    for (BaseCandidate& candidate : all) {
      if (counted >= most + kFinalists) break;
      TS_TRY(const Commit read, repository_.read_commit(candidate.commit));
      TS_TRY(const TreeDistance distance, repository_.distance(read.tree, tree_, true));
      candidate.lines = distance.lines;
      ++counted;
    }
    all.resize(counted);
    std::ranges::stable_sort(all, {}, [](const BaseCandidate& c) { return std::pair(c.files, c.lines); });
    if (all.size() > most) all.resize(most);
    return all;
  }

 private:
  const Repository& repository_;
  Oid tree_;
  bool every_commit_;
  StageProgress progress_;
  std::map<Oid, BaseCandidate> seen_;
  std::vector<Oid> order_;
};

// Whose histories to search, the main branch first.
Result<std::vector<Ref>> starts_of(const Repository& repository, const BaseSearch& search) {
  std::vector<Ref> starts;
  for (const std::string& branch : search.branches) {
    TS_TRY(const Oid id, repository.resolve_commit(branch));
    starts.push_back({branch, id});
  }
  if (!search.branches.empty()) return starts;
  for (const std::string_view prefix : {"refs/heads/", "refs/remotes/"}) {
    for (const Ref& ref : repository.list_refs(prefix)) {
      if (!search.own_branches.empty() && ref.name.starts_with(search.own_branches)) continue;
      if (search.own_commit) {
        const auto is_own = repository.is_ancestor(*search.own_commit, ref.id);
        if (is_own && *is_own) continue;
      }
      starts.push_back(ref);
    }
  }
  std::stable_partition(starts.begin(), starts.end(), [](const Ref& ref) {
    return ref.name.ends_with("/main") || ref.name.ends_with("/master");
  });
  return starts;
}

}  // namespace

Result<std::vector<BaseCandidate>> find_bases(const Repository& repository, const Oid& tree,
                                              const BaseSearch& search) {
  Search counter(repository, tree, search);
  for (const std::string& hint : search.hints) {
    const auto commit = repository.resolve_commit(hint);
    if (!commit) continue;  // a version that this repository does not know
    TS_TRY(counter.count(*commit, "the tree says " + hint));
  }
  TS_TRY(const std::vector<Ref> starts, starts_of(repository, search));
  // What an earlier history holds is not searched again: most branches are a few commits on the main one.
  std::vector<Oid> searched;
  for (const Ref& ref : starts) {
    const auto history = repository.walk(ref.id, searched, 200'000, true);
    if (!history) continue;  // not a commit, or shallow beyond use
    TS_TRY(counter.look_along(*history, "history of " + ref.name));
    searched.push_back(ref.id);
  }
  if (search.own_commit) {
    // A fork that merges upstream carries its base as the other parent of its newest merges.
    const auto own = repository.walk(*search.own_commit, searched, kMerges, true);
    for (const Oid& id : own ? *own : std::vector<Oid>()) {
      TS_TRY(const Commit commit, repository.read_commit(id));
      for (std::size_t i = 1; i < commit.parents.size(); ++i) {
        TS_TRY(counter.count(commit.parents[i], "merged by " + to_hex(id).substr(0, 12)));
      }
    }
  }
  if (search.branches.empty()) {
    for (const Ref& tag : repository.list_refs("refs/tags/")) {
      const auto commit = repository.resolve_commit(tag.name);
      if (!commit) continue;
      TS_TRY(counter.count(*commit, "tag " + tag.name.substr(10)));
    }
  }
  return counter.best(search.most);
}

}  // namespace tessera::stack
