#include "stack/source/layer.h"

#include <algorithm>

#include "stack/object/printable.h"

namespace tessera::stack {
namespace {

constexpr std::string_view kWhiteout = ".wh.";
constexpr std::string_view kOpaque = ".wh..wh..opq";
constexpr std::uint64_t kTextBytes = 64 << 10;
constexpr std::size_t kNotesPerKind = 5;

std::string_view file_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }
std::string_view folder_of(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

// .pth files, editable finders and direct_url.json decide which copy of a package Python takes
// (package_copy.h).
bool says_what_is_imported(std::string_view path) {
  const std::string_view name = file_name(path);
  return name.ends_with(".pth") || name == "direct_url.json" || name.starts_with("__editable__");
}

class LayerScan {
 public:
  LayerScan(const LayerWishes& wishes, const ReadLimits& limits, const std::string& where)
      : wishes_(wishes), limits_(limits), where_(where) {}

  Result<void> take(TarReader& tar, TarHeader header) {
    if (++seen_ > limits_.entries) {
      return Error{ErrorKind::kTooLarge, where_,
                   "It has more than " + std::to_string(limits_.entries) + " entries, which is the limit."};
    }
    const auto path = clean_path(header.name);
    if (!path) {
      note(rejected_,
           "The entry " + printable(header.name) + " leads out of the archive by \"..\" and was rejected.");
      return {};
    }
    if (header.opaque && header.kind == TarKind::kFolder && wishes_.whiteouts)
      listing.opaque.push_back(*path);
    if (path->empty()) return {};
    if (wishes_.whiteouts && take_whiteout(*path)) return {};
    if (header.kind == TarKind::kOther) {
      ++others_;
      return {};
    }
    LayerEntry entry{
        .path = *path, .kind = header.kind, .executable = header.executable, .size = header.size};
    if (header.kind == TarKind::kSymlink) entry.target = std::move(header.target);
    if (header.kind == TarKind::kHardlink) {
      const auto target = clean_path(header.target);
      if (!target) {
        note(rejected_, "The hard link " + printable(*path) + " leads out of the archive and was rejected.");
        return {};
      }
      entry.target = *target;
    }
    if (header.kind == TarKind::kFile) TS_TRY(take_bytes(tar, entry));
    listing.entries.push_back(std::move(entry));
    return {};
  }

  void finish() {
    if (others_ > 0) {
      listing.notes.push_back(std::to_string(others_) + " devices, fifos and sockets were ignored.");
    }
    if (rejected_ > kNotesPerKind) {
      listing.notes.push_back(std::to_string(rejected_ - kNotesPerKind) + " more entries were rejected.");
    }
  }

  LayerListing listing;

 private:
  void note(std::size_t& count, std::string text) {
    if (++count <= kNotesPerKind) listing.notes.push_back(std::move(text));
  }

  bool take_whiteout(std::string_view path) {
    const std::string_view name = file_name(path);
    if (!name.starts_with(kWhiteout)) return false;
    const std::string folder(folder_of(path));
    if (name == kOpaque) {
      listing.opaque.push_back(folder);
    } else if (name.starts_with(".wh..wh.")) {
      // aufs kept its own books under such names; they hide nothing
    } else if (name == kWhiteout) {
      note(rejected_, "The whiteout " + printable(path) + " names nothing and was rejected.");
    } else {
      const std::string hidden(name.substr(kWhiteout.size()));
      if (hidden == "." || hidden == "..") {
        note(rejected_, "The whiteout " + printable(path) + " names no file and was rejected.");
      } else {
        listing.whiteouts.push_back(folder.empty() ? hidden : folder + '/' + hidden);
      }
    }
    return true;
  }

  Result<void> take_bytes(TarReader& tar, LayerEntry& entry) {
    const bool text = entry.size <= kTextBytes && says_what_is_imported(entry.path);
    const bool hash = text || !wishes_.hash || wishes_.hash(listing.entries.size(), entry.path, entry.size);
    if (!hash) return {};
    if (wishes_.stream_large && wishes_.blobs != nullptr && entry.size > limits_.blob_bytes) {
      TS_TRY(entry.oid, wishes_.blobs->write_pieces(entry.size, [&] { return tar.data(); }));
      entry.hashed = true;
      return {};
    }
    const bool hold = text || (wishes_.blobs != nullptr && entry.size <= limits_.blob_bytes);
    Hasher hasher = blob_hasher(entry.size);
    std::string bytes;
    std::uint64_t count = 0;
    while (true) {
      TS_TRY(const std::string_view chunk, tar.data());
      if (chunk.empty()) break;
      count += chunk.size();
      if (count > entry.size) break;
      hasher.add(chunk);
      if (hold) bytes += chunk;
    }
    if (count != entry.size) {
      return Error{ErrorKind::kCorrupt, where_,
                   "The entry " + printable(entry.path) + " announces " + std::to_string(entry.size) +
                       " bytes and has " + std::to_string(count) + "."};
    }
    entry.oid = hasher.oid();
    entry.hashed = true;
    const bool fits = entry.size <= limits_.blob_bytes;
    if (wishes_.blobs != nullptr && fits && (!wishes_.keep || wishes_.keep(entry.path, entry.oid))) {
      TS_TRY(const Oid written, wishes_.blobs->write(bytes));
      TS_CHECK(written == entry.oid, to_hex(written), to_hex(entry.oid));
    }
    if (text) entry.text = std::move(bytes);
    return {};
  }

  const LayerWishes& wishes_;
  const ReadLimits& limits_;
  const std::string& where_;
  std::uint64_t seen_ = 0;
  std::size_t rejected_ = 0;
  std::size_t others_ = 0;
};

}  // namespace

Result<LayerListing> read_layer(ByteSource& packed, const LayerWishes& wishes, const ReadLimits& limits,
                                const std::string& where) {
  const BombGuard guard{.bytes = limits.bomb_bytes, .ratio = limits.bomb_ratio};
  TS_TRY(const std::string_view sniffed, packed.next());
  const bool is_packed = sniff_compression(sniffed) != Compression::kNone;
  ReplayedBytes whole{std::string(sniffed), packed};
  // An uncompressed layer is its own content: one digest is both.
  HashedBytes stored(whole);
  std::unique_ptr<UnpackedBytes> unpacked;
  std::unique_ptr<HashedBytes> content;
  LayerScan scan(wishes, limits, where);
  const auto read = [&]() -> Result<void> {
    if (is_packed) {
      TS_TRY(unpacked, UnpackedBytes::open(stored, guard, where));
      content = std::make_unique<HashedBytes>(*unpacked);
    }
    HashedBytes& plain = is_packed ? *content : stored;
    TS_TRY(TarReader tar, TarReader::open(plain, guard, where));
    while (true) {
      TS_TRY(std::optional<TarHeader> header, tar.next());
      if (!header) return plain.drain();
      TS_TRY(scan.take(tar, *std::move(header)));
    }
  };
  const Result<void> done = read();
  // A damaged layer often fails to unpack as well; the digest is the message that helps, so it is checked
  // either way. A decompressor stops at its own end, and the digest covers what stands behind it too.
  TS_TRY(stored.drain());
  scan.listing.stored_digest = "sha256:" + stored.hex();
  scan.listing.stored_bytes = stored.count();
  if (!wishes.stored_digest.empty() && wishes.stored_digest != scan.listing.stored_digest) {
    return Error{ErrorKind::kCorrupt, where,
                 "The layer's bytes have the digest " + scan.listing.stored_digest +
                     "; the archive is damaged or was changed."};
  }
  if (!done) return done.error();
  scan.finish();
  scan.listing.bytes = is_packed ? content->count() : stored.count();
  scan.listing.diff_id = is_packed ? "sha256:" + content->hex() : scan.listing.stored_digest;
  return std::move(scan.listing);
}

}  // namespace tessera::stack
