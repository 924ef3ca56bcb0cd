// What a caller of any tree source may ask for, and the limits that keep hostile input from costing more than
// time.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "stack/progress.h"
#include "stack/tree.h"

namespace tessera::stack {

struct ReadLimits {
  std::uint64_t blob_bytes =
      256ULL << 20;  // a larger file is never held in memory: one that is wanted is read twice
  std::uint64_t json_bytes = 4ULL << 20;       // one manifest, index or config
  std::uint64_t all_json_bytes = 64ULL << 20;  // all of them together
  std::uint64_t entries = 5'000'000;           // of one archive; about 150 bytes of memory each
  std::uint64_t bomb_bytes = 1ULL << 30;       // from this size on the ratio below counts
  std::uint64_t bomb_ratio =
      500;              // unpacked to packed; deflate's own bound is 1,032, real layers stay under 50
  int json_depth = 64;  // nesting of one JSON document
};

struct ReadOptions {
  // Called with the path inside the tree and the blob id; true: its bytes go to `blobs`. Unset: all bytes do.
  std::function<bool(std::string_view path, const Oid& oid)> want{};
  BlobStore* blobs = nullptr;  // null: only ids are wanted
  StageProgress progress{};    // in bytes as they are stored; one call at a time, from any thread
  std::string platform{};      // "linux/arm64"; empty: linux and this machine's architecture
  ReadLimits limits{};
};

// A second folder in the image that holds the same package.
struct PackageCopy {
  std::string path;            // of the other folder, inside the image root
  std::string of;              // the part of the read tree that it resembles, "" for all of it
  std::int64_t same = 0;       // files with equal path and equal bytes
  std::int64_t different = 0;  // files with equal path and other bytes
  std::vector<std::string> different_paths{};  // the first of these, relative to `path`
  std::string preference{};                    // which of the two Python takes, and why; full sentences
};

struct SourceTree {
  Tree tree;
  std::string root{};  // where the tree was found inside the archive, after symlinks; "" for its top
  std::vector<PackageCopy> copies{};  // sorted by path
};

}  // namespace tessera::stack
