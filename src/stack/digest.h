// Digests of streams. Feed with add(), read once with hex() or raw().
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "stack/tree.h"

namespace tessera::stack {

enum class HashKind { kSha1, kSha256 };

class Digest {
 public:
  explicit Digest(HashKind kind);
  Digest(Digest&&) noexcept;
  Digest& operator=(Digest&&) noexcept;
  ~Digest();

  void add(std::string_view bytes);
  std::string raw();  // ends the digest: 20 or 32 bytes
  std::string hex();  // the same in lower-case hex; call one of the two, once

 private:
  struct State;
  std::unique_ptr<State> state_;
};

std::string sha256_hex(std::string_view bytes);

// The digest of a whole tree, "sha256:…" over "mode SP path NUL blob-id LF" of each entry in order.
std::string tree_digest(std::span<const TreeEntry> entries);

// Sorts the entries by path bytes and fills the digest.
void finish_tree(Tree& tree);

}  // namespace tessera::stack
