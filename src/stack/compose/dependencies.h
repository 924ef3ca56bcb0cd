// Which topics need which, and why: edges between buckets, each with a witness that a person can look up.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "stack/atom/atom.h"
#include "stack/compose/region.h"
#include "stack/plan/ownership.h"
#include "stack/plan/plan.h"

namespace tessera::stack {

enum class EdgeKind {
  kDeclared,   // `needs` of the plan
  kStructure,  // a path must be created, or be out of the way, first
  kEdit,       // gets the compensation for an edit
  kUse,        // uses a name that the other introduces
  kPiece,      // pieces of one atom; reported, orders nothing, since every subset of pieces composes
  kClose,  // fewer than 3 unchanged lines apart; reported, orders nothing: as mails they apply in one order
           // only
};
std::string_view name_of(EdgeKind kind);
bool is_order(EdgeKind kind);  // whether it makes one topic stand on the other

struct Edge {
  std::int32_t from = 0;  // this bucket needs …
  std::int32_t to = 0;    // … this one; kUnassigned when it uses what nobody claims
  EdgeKind kind = EdgeKind::kDeclared;
  std::string witness;                // "uses seq_lens (h:12ab), which h:99cd introduces"
  std::vector<std::int32_t> atoms{};  // the atoms that the witness names
};

struct Graph {
  std::vector<Edge> edges;                       // the shortest witness for each (from, to, kind), sorted
  std::vector<Edge> refuted;                     // that the plan refutes, with a reason
  std::vector<std::vector<std::int32_t>> needs;  // [buckets] direct needs, sorted
  std::vector<std::int32_t> order;  // buckets that make topics, in line order; empty when there is a cycle
  std::vector<std::int32_t> rank;   // [buckets] place in `order`; dropped ones come last
  std::vector<Error> errors;        // cycles, upstream topics that need local ones, and the like
  std::vector<std::string> warnings;

  // Everything that `bucket` stands on, itself excluded; sorted by rank.
  std::vector<std::int32_t> closure(std::int32_t bucket) const;
};

struct GraphInputs {
  const Plan& plan;
  const Listing& listing;
  const Ownership& ownership;
  const std::vector<EditRegion>& regions;
  std::function<bool(std::string_view)> is_in_base;  // an identifier
};
Graph make_graph(const GraphInputs& in);

// Added plus removed lines that a bucket owns.
std::int64_t lines_of(const Listing& listing, const Ownership& ownership, std::int32_t bucket);

}  // namespace tessera::stack
