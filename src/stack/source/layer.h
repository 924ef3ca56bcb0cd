// One layer of an image (or one flat tar), read once into a list of what it says. What layers mean together
// is layer_stack.h.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "stack/source/byte_source.h"
#include "stack/source/read_options.h"
#include "stack/source/tar_reader.h"

namespace tessera::stack {

struct LayerEntry {
  std::string path{};  // clean, never empty
  TarKind kind = TarKind::kFile;
  bool executable = false;
  bool hashed = false;     // oid is known
  std::uint64_t size = 0;  // of a file
  Oid oid{};
  std::string target{};  // of a link: a hard link's is clean, a symlink's is as written
  std::string text{};    // content of the few small files that say which package Python imports
};

struct LayerListing {
  std::vector<LayerEntry> entries{};     // in archive order, duplicates included
  std::vector<std::string> whiteouts{};  // paths that the lower layers lose
  std::vector<std::string> opaque{};     // folders whose lower children are lost; "" is the root
  std::vector<std::string> notes{};      // one full sentence each
  std::string stored_digest{};           // "sha256:…" of the stream as it was stored
  std::uint64_t stored_bytes = 0;        // of it
  std::string diff_id{};                 // "sha256:…" of the uncompressed stream
  std::uint64_t bytes = 0;               // of it
};

// What to do with a file's bytes. Both are asked once per file, in archive order.
struct LayerWishes {
  bool whiteouts = true;  // false: a flat tar, where ".wh.x" is a file like any other
  std::function<bool(std::size_t index, std::string_view path, std::uint64_t size)> hash{};
  std::function<bool(std::string_view path, const Oid& oid)> keep{};  // its bytes go to `blobs`
  BlobStore* blobs = nullptr;
  // Files over the limit for memory go to `blobs` as they stream by, all that are hashed; otherwise they are
  // only hashed, since nobody can know before their end whether they are wanted.
  bool stream_large = false;
  std::string stored_digest{};  // "sha256:…" that the bytes as stored must have; empty: nobody states it
};

// `packed` may have any compression. Reads to the very end, so that digests cover trailing bytes.
Result<LayerListing> read_layer(ByteSource& packed, const LayerWishes& wishes, const ReadLimits& limits,
                                const std::string& where);

}  // namespace tessera::stack
