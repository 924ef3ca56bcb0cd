// Tar archives and compressed streams, read through libarchive and never unpacked to disk. libarchive stays
// inside this file's body.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "stack/source/byte_source.h"

namespace tessera::stack {

enum class Compression { kNone, kGzip, kZstd, kXz, kBzip2 };
// By the first bytes, never by a name: layers are often called .tar whatever they are.
Compression sniff_compression(std::string_view first);

// What comes out of a stream may be at most `ratio` times what went in, once it exceeds `bytes`.
struct BombGuard {
  std::uint64_t bytes;
  std::uint64_t ratio;
};

// Unpacks `packed`, whatever compression it has, none included.
class UnpackedBytes final : public ByteSource {
 public:
  // `packed` must outlive this.
  static Result<std::unique_ptr<UnpackedBytes>> open(ByteSource& packed, BombGuard guard, std::string where);
  ~UnpackedBytes() override;
  Result<std::string_view> next() override;

 private:
  struct State;
  explicit UnpackedBytes(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

enum class TarKind { kFile, kFolder, kSymlink, kHardlink, kOther };

struct TarHeader {
  std::string name{};  // bytes as they stand in the archive
  TarKind kind = TarKind::kOther;
  bool executable = false;  // for its owner
  std::uint64_t size = 0;   // dense size
  std::string target{};     // of a link
  bool opaque = false;      // carries overlayfs' opaque mark as an attribute
};

// One uncompressed tar stream.
class TarReader {
 public:
  // `from` must outlive this. `where` starts every message. The guard is for sparse files, whose holes cost
  // nothing to write.
  static Result<TarReader> open(ByteSource& from, BombGuard guard, std::string where);
  ~TarReader();
  TarReader(TarReader&&) noexcept;
  TarReader& operator=(TarReader&&) noexcept;

  Result<std::optional<TarHeader>> next();
  // The next chunk of the current entry's bytes, holes as zeros; empty at its end. Valid until the next call.
  Result<std::string_view> data();

 private:
  struct State;
  explicit TarReader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// "./a//b/" is "a/b"; nothing when a component is "..", "" for the archive's own root.
std::optional<std::string> clean_path(std::string_view name);

}  // namespace tessera::stack
