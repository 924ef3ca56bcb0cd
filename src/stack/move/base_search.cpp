#include "stack/move/base_search.h"

#include <algorithm>
#include <map>

namespace tessera::stack {
namespace {

constexpr std::size_t kStride =
    64;  // commits between first samples; the valley of a real fork is hundreds wide

class Search {
 public:
  Search(const Repository& repository, const Oid& tree) : repository_(repository), tree_(tree) {}

  Result<void> look_along(const std::vector<Oid>& history, const std::string& found_by) {
    if (history.empty()) return {};
    std::size_t best = 0;
    std::int64_t least = -1;
    for (std::size_t i = 0; i < history.size(); i += kStride) {
      TS_TRY(const std::int64_t files, count(history[i], found_by));
      if (least < 0 || files < least) {
        least = files;
        best = i;
      }
    }
    // Halve the stride around the best one, down to its direct neighbours.
    for (std::size_t stride = kStride / 2; stride > 0; stride /= 2) {
      const std::size_t middle = best;
      for (const std::size_t at : {middle >= stride ? middle - stride : middle, middle + stride}) {
        if (at >= history.size()) continue;
        TS_TRY(const std::int64_t files, count(history[at], found_by));
        if (files < least) {
          least = files;
          best = at;
        }
      }
    }
    // Equal counts stand side by side; the lines decide between them.
    for (std::size_t at = best >= 4 ? best - 4 : 0; at <= best + 4 && at < history.size(); ++at) {
      TS_TRY(count(history[at], found_by));
    }
    return {};
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
      if (counted >= most + 8) break;
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
  std::map<Oid, BaseCandidate> seen_;
  std::vector<Oid> order_;
};

}  // namespace

Result<std::vector<BaseCandidate>> find_bases(const Repository& repository, const Oid& tree,
                                              const std::vector<std::string>& branches, std::size_t most) {
  Search search(repository, tree);
  std::vector<Ref> starts;
  if (branches.empty()) {
    for (const std::string_view prefix : {"refs/heads/", "refs/remotes/"}) {
      for (const Ref& ref : repository.list_refs(prefix)) starts.push_back(ref);
    }
  } else {
    for (const std::string& branch : branches) {
      TS_TRY(const Oid id, repository.resolve_commit(branch));
      starts.push_back({branch, id});
    }
  }
  for (const Ref& ref : starts) {
    const auto history = repository.walk(ref.id, {}, 200'000, true);
    if (!history) continue;  // not a commit, or shallow beyond use
    TS_TRY(search.look_along(*history, "history of " + ref.name));
  }
  if (branches.empty()) {
    for (const Ref& tag : repository.list_refs("refs/tags/")) {
      const auto commit = repository.resolve_commit(tag.name);
      if (!commit) continue;
      TS_TRY(search.count(*commit, "tag " + tag.name.substr(10)));
    }
  }
  return search.best(most);
}

}  // namespace tessera::stack
