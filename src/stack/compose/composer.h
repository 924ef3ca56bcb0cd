// Composes files from a ground and chosen buckets. Bytes in, bytes out; the full set gives the tree, any
// subset is defined.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "stack/compose/bucket_set.h"
#include "stack/compose/ground.h"
#include "stack/compose/region.h"
#include "stack/git/repository.h"
#include "stack/plan/ownership.h"

namespace tessera::stack {

// A path after composing. For text `bytes` is filled and the blob may not exist yet; otherwise `oid` names
// it.
struct ComposedFile {
  std::string path;
  std::optional<FileMode> mode;  // absent: the path does not exist
  std::optional<std::string> bytes;
  Oid oid;
  std::vector<std::int32_t>
      conflicts{};  // atoms that were chosen and cannot be placed; then nothing else is filled
};

// The text of one atom that pieces cut, with the chosen pieces applied. An added line stands after the
// nearest line before it that is there: removed lines pair with the added ones of their piece, in order, and
// what a piece only adds follows its predecessor.
std::vector<std::string_view> compose_cut(std::span<const std::string_view> removed,
                                          std::span<const std::string_view> added, const AtomOwner& owner,
                                          const BucketSet& chosen);

class Composer {
 public:
  // `rank` [buckets] is each bucket's place in line order, which decides between edits. All are borrowed.
  Composer(const Listing& listing, const Ownership& ownership, const std::vector<EditRegion>& regions,
           const std::vector<std::int32_t>& rank, const Ground& ground)
      : listing_(listing), ownership_(ownership), regions_(regions), rank_(rank), ground_(ground) {}

  ComposedFile compose(std::size_t file, const BucketSet& chosen) const;

  // The buckets that own atoms of this file, or edit it; sorted, kUnassigned included.
  std::vector<std::int32_t> owners_of(std::size_t file) const;

 private:
  struct Block;
  std::optional<std::string> compose_text(std::size_t file, const BucketSet& chosen,
                                          std::vector<std::int32_t>& conflicts) const;
  const EditRegion* edit_at(std::int32_t atom, const BucketSet& chosen) const;

  const Listing& listing_;
  const Ownership& ownership_;
  const std::vector<EditRegion>& regions_;
  const std::vector<std::int32_t>& rank_;
  const Ground& ground_;
};

// Composes whole trees and remembers files: a file depends only on which of its owners are chosen.
class TreeComposer {
 public:
  TreeComposer(const Composer& composer, const Ground& ground, Repository& repository)
      : composer_(composer), ground_(ground), repository_(repository) {}

  struct Composed {
    Oid tree;
    std::vector<std::int32_t> conflicts;  // atoms; when not empty there is no tree
  };
  // `start` is the target's root tree.
  Result<Composed> compose(const Oid& start, const BucketSet& chosen);

 private:
  Result<TreeChange> change_of(std::size_t file, const BucketSet& chosen,
                               std::vector<std::int32_t>& conflicts);

  const Composer& composer_;
  const Ground& ground_;
  Repository& repository_;
  struct Known {
    TreeChange change;
    std::vector<std::int32_t> conflicts;
  };
  std::vector<std::map<std::vector<bool>, Known>> known_;  // [files]: chosen owners → result
  std::vector<std::vector<std::int32_t>> owners_;          // [files]
};

}  // namespace tessera::stack
