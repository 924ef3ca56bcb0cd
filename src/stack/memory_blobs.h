// Blobs kept in memory, for tests and for trees that are looked at once.
#pragma once

#include <map>
#include <string>

#include "stack/object_id.h"

namespace tessera::stack {

class MemoryBlobs : public BlobStore {
 public:
  bool contains(const Oid& oid) const override { return blobs_.contains(oid); }
  Result<std::string> read(const Oid& oid) const override {
    const auto at = blobs_.find(oid);
    if (at == blobs_.end()) return Error{ErrorKind::kNotFound, to_hex(oid), "No such blob in this store."};
    return at->second;
  }
  Result<Oid> write(std::string_view bytes) override {
    const Oid oid = blob_id(bytes);
    blobs_.try_emplace(oid, bytes);
    return oid;
  }

 private:
  std::map<Oid, std::string> blobs_;
};

}  // namespace tessera::stack
