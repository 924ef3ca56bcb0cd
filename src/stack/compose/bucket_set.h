// Which buckets take part in a composition.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::stack {

struct BucketSet {
  std::vector<bool> has;    // [Plan::buckets]
  bool unassigned = false;  // the atoms that no bucket claims

  bool contains(std::int32_t bucket) const {
    return bucket < 0 ? unassigned : has[static_cast<std::size_t>(bucket)];
  }
  void add(std::int32_t bucket) { has[static_cast<std::size_t>(bucket)] = true; }
};

}  // namespace tessera::stack
