#include "stack/compose/dependencies.h"

#include <algorithm>
#include <map>
#include <queue>
#include <set>

#include "stack/compose/name_use.h"
#include "stack/object/next_command.h"
#include "stack/object/printable.h"

namespace tessera::stack {
namespace {

class GraphMaker {
 public:
  explicit GraphMaker(const GraphInputs& in)
      : in_(in), plan_(in.plan), listing_(in.listing), count_(in.plan.buckets.size()) {}

  Graph make() {
    declared();
    structure();
    pieces_and_neighbours();
    uses();
    edits();
    finish_edges();
    judge_kinds();
    order();
    return std::move(graph_);
  }

 private:
  std::string id(std::int32_t atom) const {
    return "h:" + listing_.short_id(listing_.atoms[static_cast<std::size_t>(atom)]);
  }
  const Bucket& bucket(std::int32_t at) const { return plan_.buckets[static_cast<std::size_t>(at)]; }
  std::string name(std::int32_t at) const { return at == kUnassigned ? "(unassigned)" : bucket(at).name; }
  const AtomOwner& owner(std::int32_t atom) const {
    return in_.ownership.atoms[static_cast<std::size_t>(atom)];
  }

  void add(std::int32_t from, std::int32_t to, EdgeKind kind, std::string witness,
           std::vector<std::int32_t> atoms = {}) {
    if (from == to || from == kUnassigned) return;
    if (bucket(from).kind == BucketKind::kDrop) return;  // nobody stands up for what is left out
    Edge edge{from, to, kind, std::move(witness), std::move(atoms)};
    const auto [at, is_new] = best_.try_emplace({from, to, kind}, edge);
    if (!is_new && edge.witness.size() < at->second.witness.size()) at->second = std::move(edge);
  }

  void declared() {
    for (std::size_t b = 0; b < count_; ++b) {
      for (const std::string& need : plan_.buckets[b].needs) {
        add(static_cast<std::int32_t>(b), *plan_.find_bucket(need), EdgeKind::kDeclared, "the plan says so");
      }
    }
  }

  // The non-text atom of that kind of a file, or -1.
  std::int32_t fact(const FileChange& file, AtomKind kind) const {
    for (std::int32_t at = file.first_atom; at < file.first_atom + file.atom_count; ++at) {
      if (listing_.atoms[static_cast<std::size_t>(at)].kind == kind) return at;
    }
    return -1;
  }

  void structure() {
    for (const FileChange& file : listing_.files) {
      if (!file.after) continue;
      const std::int32_t create = fact(file, AtomKind::kCreate);
      if (create < 0) continue;
      for (std::int32_t at = file.first_atom; at < file.first_atom + file.atom_count; ++at) {
        for (const std::int32_t who : owner(at).owners()) {
          add(who, owner(create).whole, EdgeKind::kStructure,
              "puts lines (" + id(at) + ") into " + printable(file.path) + ", which " + id(create) +
                  " creates",
              {at, create});
        }
      }
      // A file where a folder was, a folder where a file was.
      for (std::size_t slash = file.path.find('/'); slash != std::string::npos;
           slash = file.path.find('/', slash + 1)) {
        const FileChange* above = listing_.find_file(std::string_view(file.path).substr(0, slash));
        if (above != nullptr && above->before && !above->after) out_of_the_way(create, file, *above);
      }
      const auto first_below =
          std::ranges::lower_bound(listing_.files, file.path + "/", {}, &FileChange::path);
      for (auto below = first_below;
           below != listing_.files.end() && below->path.starts_with(file.path + "/"); ++below) {
        if (below->before && !below->after) out_of_the_way(create, file, *below);
      }
    }
  }

  void out_of_the_way(std::int32_t create, const FileChange& file, const FileChange& gone) {
    const std::int32_t removal = fact(gone, AtomKind::kDelete);
    add(owner(create).whole, owner(removal).whole, EdgeKind::kStructure,
        "creates " + printable(file.path) + " (" + id(create) + ") where " + id(removal) + " deletes " +
            printable(gone.path),
        {create, removal});
  }

  void pieces_and_neighbours() {
    for (const FileChange& file : listing_.files) {
      std::int32_t previous = -1;
      for (std::int32_t at = file.first_atom; at < file.first_atom + file.atom_count; ++at) {
        const Atom& atom = listing_.atoms[static_cast<std::size_t>(at)];
        if (atom.kind != AtomKind::kText) continue;
        const std::vector<std::int32_t> owners = owner(at).owners();
        for (const std::int32_t a : owners) {
          for (const std::int32_t b : owners) {
            if (a < b && a != kUnassigned) add(b, a, EdgeKind::kPiece, "shares the lines of " + id(at), {at});
          }
        }
        if (previous >= 0) {
          const LineChange& before = listing_.atoms[static_cast<std::size_t>(previous)].at;
          const std::int32_t gap = atom.at.old_begin - before.old_begin - before.old_count;
          for (const std::int32_t a : owner(previous).owners()) {
            for (const std::int32_t b : owners) {
              if (gap < 3 && a != b && a != kUnassigned) {
                add(b, a, EdgeKind::kClose,
                    id(at) + " stands " + std::to_string(gap) + " unchanged line(s) below " + id(previous) +
                        " in " + printable(file.path),
                    {at, previous});
              }
            }
          }
        }
        previous = at;
      }
    }
  }

  void uses() {
    const NameUse names = find_names(listing_, in_.ownership);
    std::map<std::string_view, std::vector<std::int32_t>> makers;  // name → buckets
    for (const auto& [maker, introduced] : names.introduced) {
      for (const auto& [word, atom] : introduced) makers[word].push_back(maker);
    }
    for (const auto& [word, who] : makers) {
      // The plan's order decides between several who introduce one name; what is unassigned comes last.
      const std::int32_t maker = who.front() == kUnassigned && who.size() > 1 ? who[1] : who.front();
      bool is_new = false;
      bool is_known = false;
      for (const auto& [user, used] : names.used) {
        if (user == kUnassigned || std::ranges::find(who, user) != who.end()) continue;
        const auto use = used.find(word);
        if (use == used.end()) continue;
        if (!is_known) is_new = !in_.is_in_base(word);
        is_known = true;
        if (!is_new) break;
        const std::int32_t source = names.introduced.at(maker).find(word)->second;
        const std::string witness =
            "uses " + std::string(word) + " (" + id(use->second) + "), which " + id(source) + " introduces";
        const auto& refutations = bucket(user).refute;
        const auto refuted = std::ranges::find(refutations, word, &Refutation::use);
        if (refuted != refutations.end()) {
          graph_.refuted.push_back({user,
                                    maker,
                                    EdgeKind::kUse,
                                    witness + "; refuted: " + refuted->reason,
                                    {use->second, source}});
        } else {
          add(user, maker, EdgeKind::kUse, witness, {use->second, source});
        }
      }
    }
  }

  bool reaches(std::int32_t from, std::int32_t to) const {
    std::set<std::int32_t> seen{from};
    std::vector<std::int32_t> open{from};
    while (!open.empty()) {
      const std::int32_t at = open.back();
      open.pop_back();
      if (at == to) return true;
      for (const auto& [key, edge] : best_) {
        if (edge.from == at && is_order(edge.kind) && edge.to != kUnassigned && seen.insert(edge.to).second)
          open.push_back(edge.to);
      }
    }
    return false;
  }

  // Whoever owns lines of an edited region and is not below the edit comes after it and gets the
  // compensation.
  void edits() {
    for (const EditRegion& region : in_.regions) {
      const Edit& edit = plan_.edits[static_cast<std::size_t>(region.edit)];
      bool compensated = false;
      for (const std::int32_t who : region.owners) {
        if (who == region.bucket || reaches(region.bucket, who)) continue;
        add(who, region.bucket, EdgeKind::kEdit,
            "continues the edited lines of " + printable(edit.path) + " (" + id(region.first_atom) + ")",
            {region.first_atom});
        compensated |= bucket(who).kind != BucketKind::kDrop;
      }
      for (const EditRegion& other : in_.regions)
        compensated |= other.first_atom == region.first_atom && reaches(other.bucket, region.bucket) &&
                       other.bucket != region.bucket;
      if (!compensated) {
        graph_.errors.push_back({ErrorKind::kInvalidArgument, "plan:" + std::to_string(edit.line),
                                 "No topic after '" + edit.bucket + "' touches the edited lines of " +
                                     printable(edit.path) +
                                     ", so nobody would bring them to what the tree has; let a later bucket "
                                     "own one of its atoms."});
      }
    }
  }

  void finish_edges() {
    graph_.needs.resize(count_);
    for (auto& [key, edge] : best_) {
      if (is_order(edge.kind) && edge.to != kUnassigned && bucket(edge.to).kind != BucketKind::kDrop) {
        graph_.needs[static_cast<std::size_t>(edge.from)].push_back(edge.to);
      }
      graph_.edges.push_back(edge);
    }
    for (auto& needs : graph_.needs) {
      std::ranges::sort(needs);
      needs.erase(std::unique(needs.begin(), needs.end()), needs.end());
    }
  }

  void judge_kinds() {
    for (const Edge& edge : graph_.edges) {
      if (!is_order(edge.kind)) continue;
      const Bucket& from = bucket(edge.from);
      const std::string where = "plan:" + std::to_string(from.line);
      if (edge.to == kUnassigned) {
        const std::string what = "'" + from.name + "' " + edge.witness + ", and no bucket claims that.";
        // Lines without their file cannot be composed at all; a missing name only breaks what runs.
        if (edge.kind == EdgeKind::kStructure)
          graph_.errors.push_back({ErrorKind::kInvalidArgument, where, what});
        else
          graph_.warnings.push_back(what);
      } else if (bucket(edge.to).kind == BucketKind::kDrop) {
        graph_.errors.push_back({ErrorKind::kInvalidArgument, where,
                                 "'" + from.name + "' needs the dropped '" + name(edge.to) + "': it " +
                                     edge.witness + "; keep that, move the atom, or refute the use."});
      } else if (from.kind == BucketKind::kUpstream && bucket(edge.to).kind == BucketKind::kLocal) {
        graph_.errors.push_back({ErrorKind::kInvalidArgument, where,
                                 "The upstream topic '" + from.name + "' needs the local '" + name(edge.to) +
                                     "', so it could never be merged: it " + edge.witness +
                                     "; move an atom, make '" + name(edge.to) +
                                     "' upstream, or refute the use."});
      }
    }
  }

  void order() {
    std::vector<std::int64_t> lines(count_);
    for (std::size_t b = 0; b < count_; ++b)
      lines[b] = lines_of(listing_, in_.ownership, static_cast<std::int32_t>(b));
    const auto before = [&](std::int32_t a, std::int32_t b) {
      const auto key = [&](std::int32_t at) {
        return std::tuple(bucket(at).kind, lines[static_cast<std::size_t>(at)],
                          std::string_view(bucket(at).name));
      };
      return key(a) < key(b);
    };
    std::set<std::int32_t> waiting;
    for (std::size_t b = 0; b < count_; ++b) {
      if (plan_.buckets[b].kind != BucketKind::kDrop) waiting.insert(static_cast<std::int32_t>(b));
    }
    graph_.rank.assign(count_, static_cast<std::int32_t>(count_));
    while (!waiting.empty()) {
      std::optional<std::int32_t> next;
      for (const std::int32_t b : waiting) {
        const bool free = std::ranges::none_of(graph_.needs[static_cast<std::size_t>(b)],
                                               [&](std::int32_t n) { return waiting.contains(n); });
        if (free && (!next || before(b, *next))) next = b;
      }
      if (!next) {
        report_cycle(waiting);
        graph_.order.clear();
        return;
      }
      graph_.rank[static_cast<std::size_t>(*next)] = static_cast<std::int32_t>(graph_.order.size());
      graph_.order.push_back(*next);
      waiting.erase(*next);
    }
  }

  // The shortest cycle among the buckets that wait for each other.
  void report_cycle(const std::set<std::int32_t>& waiting) {
    std::vector<std::int32_t> best;
    for (const std::int32_t start : waiting) {
      std::map<std::int32_t, std::int32_t> came_from;
      std::queue<std::int32_t> open;
      open.push(start);
      while (!open.empty()) {
        const std::int32_t at = open.front();
        open.pop();
        bool closed = false;
        for (const std::int32_t need : graph_.needs[static_cast<std::size_t>(at)]) {
          if (need == start) {
            std::vector<std::int32_t> cycle{at};
            while (cycle.back() != start) cycle.push_back(came_from.at(cycle.back()));
            std::ranges::reverse(cycle);
            if (best.empty() || cycle.size() < best.size()) best = cycle;
            closed = true;
            break;
          }
          if (waiting.contains(need) && came_from.try_emplace(need, at).second) open.push(need);
        }
        if (closed) break;
      }
    }
    std::string what = "These topics need each other: ";
    for (std::size_t i = 0; i < best.size(); ++i) {
      const std::int32_t from = best[i];
      const std::int32_t to = best[(i + 1) % best.size()];
      const auto edge = std::ranges::find_if(
          graph_.edges, [&](const Edge& e) { return e.from == from && e.to == to && is_order(e.kind); });
      what += (i == 0 ? "'" : "; '") + name(from) + "' needs '" + name(to) + "' because it " + edge->witness;
    }
    what +=
        ". Three ways out: move one of these atoms to the other bucket, merge the buckets, or write an "
        "[[edit]] that gives the lower "
        "topic text that stands alone (a use that is none can be refuted)";
    graph_.errors.push_back({ErrorKind::kConflict, "plan:" + std::to_string(bucket(best.front()).line),
                             with_next(what, "tessera-stack plan graph")});
  }

  const GraphInputs& in_;
  const Plan& plan_;
  const Listing& listing_;
  std::size_t count_;
  std::map<std::tuple<std::int32_t, std::int32_t, EdgeKind>, Edge> best_;
  Graph graph_;
};

}  // namespace

std::string_view name_of(EdgeKind kind) {
  switch (kind) {
    case EdgeKind::kDeclared:
      return "declared";
    case EdgeKind::kStructure:
      return "structure";
    case EdgeKind::kEdit:
      return "edit";
    case EdgeKind::kUse:
      return "use";
    case EdgeKind::kPiece:
      return "piece";
    case EdgeKind::kClose:
      return "close";
  }
  return "unknown";
}

bool is_order(EdgeKind kind) { return kind != EdgeKind::kPiece && kind != EdgeKind::kClose; }

std::vector<std::int32_t> Graph::closure(std::int32_t bucket) const {
  std::set<std::int32_t> seen;
  std::vector<std::int32_t> open{bucket};
  while (!open.empty()) {
    const std::int32_t at = open.back();
    open.pop_back();
    for (const std::int32_t need : needs[static_cast<std::size_t>(at)]) {
      if (need != bucket && seen.insert(need).second) open.push_back(need);
    }
  }
  std::vector<std::int32_t> out(seen.begin(), seen.end());
  std::ranges::sort(out, {}, [&](std::int32_t b) { return rank[static_cast<std::size_t>(b)]; });
  return out;
}

std::int64_t lines_of(const Listing& listing, const Ownership& ownership, std::int32_t bucket) {
  std::int64_t lines = 0;
  for (std::size_t i = 0; i < listing.atoms.size(); ++i) {
    const AtomOwner& owner = ownership.atoms[i];
    if (owner.is_cut) {
      lines += std::ranges::count(owner.removed, bucket) + std::ranges::count(owner.added, bucket);
    } else if (owner.whole == bucket) {
      lines += listing.atoms[i].at.old_count + listing.atoms[i].at.new_count;
    }
  }
  return lines;
}

Graph make_graph(const GraphInputs& in) { return GraphMaker(in).make(); }

}  // namespace tessera::stack
