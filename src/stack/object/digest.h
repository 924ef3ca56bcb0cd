// Digests: SHA-256 (images, trees, listings), SHA-1 (git's object ids), and their hex forms. All streaming.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "stack/tree.h"

namespace tessera::stack {

// 40 lower-case hex digits.
std::string to_hex(const Oid& oid);
// The inverse; nothing unless `hex` is exactly 40 hex digits.
std::optional<Oid> oid_from_hex(std::string_view hex);

class Hasher {
 public:
  enum class Kind { kSha1, kSha256 };
  explicit Hasher(Kind kind);
  ~Hasher();
  Hasher(Hasher&&) noexcept;
  Hasher& operator=(Hasher&&) noexcept;

  void add(std::string_view bytes);
  // The digest in lower-case hex. The hasher is spent afterwards.
  std::string hex();
  // SHA-1 only; spent afterwards.
  Oid oid();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// "sha256:" and 64 hex digits.
std::string sha256_digest(std::string_view bytes);
// Git's id of a blob with these bytes.
Oid blob_oid(std::string_view bytes);
// A hasher that has already eaten git's blob header; feed exactly `size` bytes.
Hasher blob_hasher(std::uint64_t size);

}  // namespace tessera::stack
