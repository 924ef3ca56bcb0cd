// A BlobStore in memory: what tests use, and what a command uses that must leave nothing on disk.
#pragma once

#include <map>
#include <string>

#include "stack/tree.h"

namespace tessera::stack {

class MemoryStore final : public BlobStore {
 public:
  bool contains(const Oid& oid) const override;
  Result<std::string> read(const Oid& oid) const override;
  Result<Oid> write(std::string_view bytes) override;
  Result<Oid> write_pieces(std::uint64_t size, const NextPiece& next) override;
  std::size_t size() const { return blobs_.size(); }

 private:
  std::map<Oid, std::string> blobs_;
};

}  // namespace tessera::stack
