// A tree: what really runs, or what upstream has, as a sorted list of paths with git's identities. Bytes live
// elsewhere (BlobStore).
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tessera::stack {

// A git object id (SHA-1).
struct Oid {
  std::array<std::uint8_t, 20> bytes{};
  friend auto operator<=>(const Oid&, const Oid&) = default;
};

enum class FileMode : std::uint32_t {
  kFile = 0100644,
  kExecutable = 0100755,
  kSymlink = 0120000,  // the blob is the target, without a newline
  kGitlink = 0160000,  // the id is a commit of another repository
};

struct TreeEntry {
  std::string path;  // bytes, '/'-separated, no leading or trailing slash, never empty
  FileMode mode = FileMode::kFile;
  Oid oid{};                // blob id, or commit id for a gitlink
  std::uint64_t size = 0;   // bytes of the blob
  std::int32_t layer = -1;  // index into Tree::layers of the layer that last wrote it; -1: not from an image
  std::optional<std::string>
      unreadable{};  // why its bytes cannot be had (missing object, damaged layer); oid may be zero
  friend bool operator==(const TreeEntry&, const TreeEntry&) = default;
};

// One layer of an image, bottom first.
struct Layer {
  std::string digest;      // "sha256:…" of the uncompressed layer (diff id)
  std::string created_by;  // the build step, from the image's history; may be empty
};

struct Tree {
  std::vector<TreeEntry> entries;  // sorted by path bytes, unique
  std::string digest{};            // "sha256:…" over "mode SP path NUL blob-id LF" of all entries
  std::string image;               // "sha256:…" of the image config; empty when not from an image
  std::map<std::string, std::string> labels;  // of the image
  std::vector<Layer> layers;
  std::vector<std::string> notes;  // one full sentence each: what was skipped, replaced or odd

  const TreeEntry* find(std::string_view path) const;  // null when absent
};

// Where blobs are read from and kept. The real one is a git object database; tests use one in memory.
class BlobStore {
 public:
  virtual ~BlobStore() = default;
  virtual bool contains(const Oid& oid) const = 0;
  virtual Result<std::string> read(const Oid& oid) const = 0;
  virtual Result<Oid> write(std::string_view bytes) = 0;  // returns the git blob id
  // The same for a blob that is too large for memory: `next` gives its pieces, an empty one at the end;
  // `size` bytes in all.
  using NextPiece = std::function<Result<std::string_view>()>;
  virtual Result<Oid> write_pieces(std::uint64_t size, const NextPiece& next) = 0;
};

}  // namespace tessera::stack
