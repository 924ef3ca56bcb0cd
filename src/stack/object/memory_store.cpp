#include "stack/object/memory_store.h"

#include "stack/object/digest.h"

namespace tessera::stack {

bool MemoryStore::contains(const Oid& oid) const { return blobs_.contains(oid); }

Result<std::string> MemoryStore::read(const Oid& oid) const {
  const auto found = blobs_.find(oid);
  if (found == blobs_.end()) return Error{ErrorKind::kNotFound, to_hex(oid), "No such blob is in memory."};
  return found->second;
}

Result<Oid> MemoryStore::write(std::string_view bytes) {
  const Oid oid = blob_oid(bytes);
  blobs_.try_emplace(oid, bytes);
  return oid;
}

Result<Oid> MemoryStore::write_pieces(std::uint64_t, const NextPiece& next) {
  std::string bytes;
  while (true) {
    TS_TRY(const std::string_view piece, next());
    if (piece.empty()) return write(bytes);
    bytes += piece;
  }
}

}  // namespace tessera::stack
