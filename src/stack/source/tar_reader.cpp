#include "stack/source/tar_reader.h"

#include <archive.h>
#include <archive_entry.h>
#include <locale.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "stack/object/printable.h"

namespace tessera::stack {
namespace {

// libarchive converts PAX names through the thread's locale and warns about what it cannot convert; the bytes
// stay intact, but the warning hides real ones. So every call runs under C.UTF-8, without touching the
// process's own locale.
class Utf8Locale {
 public:
  Utf8Locale() : locale_(::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)) {}
  ~Utf8Locale() {
    if (locale_ != nullptr) ::freelocale(locale_);
  }
  Utf8Locale(const Utf8Locale&) = delete;
  Utf8Locale& operator=(const Utf8Locale&) = delete;

  class Use {
   public:
    explicit Use(const Utf8Locale& utf8) : before_(::uselocale(utf8.locale_)) {}
    ~Use() { ::uselocale(before_); }
    Use(const Use&) = delete;
    Use& operator=(const Use&) = delete;

   private:
    locale_t before_;
  };

 private:
  locale_t locale_;  // null where the system lacks it; uselocale(null) then changes nothing
};

Error bomb(const std::string& where, BombGuard guard) {
  return Error{ErrorKind::kTooLarge, where,
               "It unpacks to more than " + std::to_string(guard.ratio) + " times its size (over " +
                   std::to_string(guard.bytes) + " bytes so far); this looks like a decompression bomb."};
}

struct ArchiveFree {
  void operator()(archive* handle) const { archive_read_free(handle); }
};
using ArchiveHandle = std::unique_ptr<archive, ArchiveFree>;

// What the C callbacks need: where bytes come from, and the error that ended them.
struct Feed {
  ByteSource& from;
  std::string where;
  std::uint64_t packed = 0;
  std::optional<Error> failed{};

  static la_ssize_t read(archive*, void* self, const void** chunk) {
    auto& feed = *static_cast<Feed*>(self);
    auto next = feed.from.next();
    if (!next) {
      feed.failed = std::move(next).error();
      return ARCHIVE_FATAL;
    }
    *chunk = next->data();
    feed.packed += next->size();
    return static_cast<la_ssize_t>(next->size());
  }
  static la_int64_t skip(archive*, void* self, la_int64_t count) {
    return static_cast<la_int64_t>(static_cast<Feed*>(self)->from.skip(static_cast<std::uint64_t>(count)));
  }

  Error error(archive* handle, std::string_view doing) const {
    if (failed) return *failed;
    const char* text = archive_error_string(handle);
    return Error{
        ErrorKind::kCorrupt, where,
        "Cannot " + std::string(doing) + ": " + printable(text == nullptr ? "unknown reason" : text) + "."};
  }
  Result<void> open(archive* handle) {
    archive_read_set_callback_data(handle, this);
    archive_read_set_read_callback(handle, &Feed::read);
    archive_read_set_skip_callback(handle, &Feed::skip);
    if (archive_read_open1(handle) < ARCHIVE_WARN) return error(handle, "recognise its format");
    return {};
  }
};

bool is_usable(int status) { return status == ARCHIVE_OK || status == ARCHIVE_WARN; }

}  // namespace

Compression sniff_compression(std::string_view first) {
  const auto starts = [&](std::string_view magic) { return first.starts_with(magic); };
  using std::string_view_literals::operator""sv;
  if (starts("\x1f\x8b")) return Compression::kGzip;
  if (starts("\x28\xb5\x2f\xfd")) return Compression::kZstd;
  // A skippable frame in front (seekable zstd): 0x184D2A50 to 0x184D2A5F, little endian.
  if (first.size() >= 4 && (first[0] & 0xF0) == 0x50 && first.substr(1, 3) == "\x2a\x4d\x18")
    return Compression::kZstd;
  if (starts("\xfd"
             "7zXZ\0"sv))
    return Compression::kXz;
  if (starts("BZh")) return Compression::kBzip2;
  return Compression::kNone;
}

struct UnpackedBytes::State {
  Feed feed;
  BombGuard guard;
  ArchiveHandle handle{};
  std::uint64_t unpacked = 0;
  bool ended = false;
};

UnpackedBytes::UnpackedBytes(std::unique_ptr<State> state) : state_(std::move(state)) {}
UnpackedBytes::~UnpackedBytes() = default;

Result<std::unique_ptr<UnpackedBytes>> UnpackedBytes::open(ByteSource& packed, BombGuard guard,
                                                           std::string where) {
  auto state =
      std::make_unique<State>(State{.feed = {.from = packed, .where = std::move(where)}, .guard = guard});
  state->handle.reset(archive_read_new());
  archive* handle = state->handle.get();
  archive_read_support_filter_gzip(handle);
  archive_read_support_filter_zstd(handle);
  archive_read_support_filter_xz(handle);
  archive_read_support_filter_bzip2(handle);
  archive_read_support_format_raw(handle);
  archive_read_support_format_empty(handle);
  TS_TRY(state->feed.open(handle));
  archive_entry* entry = nullptr;
  const int status = archive_read_next_header(handle, &entry);
  if (status == ARCHIVE_EOF) {
    state->ended = true;
  } else if (!is_usable(status)) {
    return state->feed.error(handle, "decompress it");
  }
  return std::unique_ptr<UnpackedBytes>(new UnpackedBytes(std::move(state)));
}

Result<std::string_view> UnpackedBytes::next() {
  State& state = *state_;
  const void* chunk = nullptr;
  std::size_t size = 0;
  la_int64_t offset = 0;
  while (!state.ended && size == 0) {
    const int status = archive_read_data_block(state.handle.get(), &chunk, &size, &offset);
    if (status == ARCHIVE_EOF) {
      state.ended = true;
      size = 0;
    } else if (!is_usable(status)) {
      return state.feed.error(state.handle.get(), "decompress it");
    }
  }
  if (state.ended) return std::string_view();
  state.unpacked += size;
  if (state.unpacked > state.guard.bytes && state.unpacked / state.guard.ratio > state.feed.packed) {
    return bomb(state.feed.where, state.guard);
  }
  return std::string_view(static_cast<const char*>(chunk), size);
}

struct TarReader::State {
  Feed feed;
  BombGuard guard;
  Utf8Locale locale{};
  ArchiveHandle handle{};
  std::uint64_t size = 0;      // of the current entry
  std::uint64_t position = 0;  // how far its bytes have been given out
  std::string_view pending{};  // bytes that stand behind a hole
  std::uint64_t pending_at = 0;
  std::uint64_t hole_bytes = 0;  // given out as zeros so far, over all entries
  bool data_ended = true;
};

TarReader::TarReader(std::unique_ptr<State> state) : state_(std::move(state)) {}
TarReader::~TarReader() = default;
TarReader::TarReader(TarReader&&) noexcept = default;
TarReader& TarReader::operator=(TarReader&&) noexcept = default;

Result<TarReader> TarReader::open(ByteSource& from, BombGuard guard, std::string where) {
  std::unique_ptr<State> state(new State{.feed = {.from = from, .where = std::move(where)}, .guard = guard});
  const Utf8Locale::Use utf8(state->locale);
  state->handle.reset(archive_read_new());
  archive_read_support_format_tar(state->handle.get());
  archive_read_support_format_empty(state->handle.get());
  TS_TRY(state->feed.open(state->handle.get()));
  return TarReader(std::move(state));
}

Result<std::optional<TarHeader>> TarReader::next() {
  State& state = *state_;
  const Utf8Locale::Use utf8(state.locale);
  archive_entry* entry = nullptr;
  int status = ARCHIVE_RETRY;
  for (int attempts = 0; status == ARCHIVE_RETRY && attempts < 3; ++attempts) {
    status = archive_read_next_header(state.handle.get(), &entry);
  }
  if (status == ARCHIVE_EOF) return std::optional<TarHeader>();
  if (!is_usable(status)) return state.feed.error(state.handle.get(), "read the next entry");

  TarHeader header;
  const char* name = archive_entry_pathname(entry);
  const char* hardlink = archive_entry_hardlink(entry);
  const char* symlink = archive_entry_symlink(entry);
  if (name == nullptr)
    return Error{ErrorKind::kCorrupt, state.feed.where, "An entry of this archive has no name."};
  header.name = name;
  // A hard link comes with file type 0, so it has to be asked for first.
  if (hardlink != nullptr) {
    header.kind = TarKind::kHardlink;
    header.target = hardlink;
  } else {
    switch (archive_entry_filetype(entry)) {
      case AE_IFREG:
        header.kind = TarKind::kFile;
        break;
      case AE_IFDIR:
        header.kind = TarKind::kFolder;
        break;
      case AE_IFLNK:
        header.kind = TarKind::kSymlink;
        break;
      default:
        header.kind = TarKind::kOther;
        break;
    }
    if (header.kind == TarKind::kSymlink) header.target = symlink == nullptr ? "" : symlink;
  }
  header.executable = (archive_entry_perm(entry) & 0100) != 0;
  const la_int64_t size = archive_entry_size(entry);
  if (size < 0) {
    return Error{ErrorKind::kCorrupt, state.feed.where,
                 "The entry " + printable(header.name) + " has a negative size."};
  }
  header.size = static_cast<std::uint64_t>(size);
  archive_entry_xattr_reset(entry);
  const char* key = nullptr;
  const void* value = nullptr;
  std::size_t value_size = 0;
  while (archive_entry_xattr_next(entry, &key, &value, &value_size) == ARCHIVE_OK) {
    const std::string_view text(static_cast<const char*>(value), value_size);
    if (key != nullptr && std::strcmp(key, "trusted.overlay.opaque") == 0 && text == "y")
      header.opaque = true;
  }
  state.size = header.kind == TarKind::kFile ? header.size : 0;
  state.position = 0;
  state.pending = {};
  state.data_ended = false;
  return std::optional<TarHeader>(std::move(header));
}

Result<std::string_view> TarReader::data() {
  static constexpr std::array<char, 1 << 16> kZeros{};
  State& state = *state_;
  if (state.pending.empty() && !state.data_ended) {
    const void* chunk = nullptr;
    std::size_t size = 0;
    la_int64_t offset = 0;
    while (size == 0 && !state.data_ended) {
      const int status = archive_read_data_block(state.handle.get(), &chunk, &size, &offset);
      if (status == ARCHIVE_EOF) {
        state.data_ended = true;
      } else if (!is_usable(status)) {
        return state.feed.error(state.handle.get(), "read the bytes of an entry");
      }
    }
    if (!state.data_ended) {
      state.pending = {static_cast<const char*>(chunk), size};
      state.pending_at = static_cast<std::uint64_t>(offset);
    }
  }
  // Holes of sparse files are read as zeros.
  const std::uint64_t until = state.pending.empty() ? state.size : state.pending_at;
  if (state.position < until) {
    const std::uint64_t count = std::min<std::uint64_t>(until - state.position, kZeros.size());
    state.position += count;
    state.hole_bytes += count;
    if (state.hole_bytes > state.guard.bytes && state.hole_bytes / state.guard.ratio > state.feed.packed) {
      return bomb(state.feed.where, state.guard);
    }
    return std::string_view(kZeros.data(), static_cast<std::size_t>(count));
  }
  const std::string_view out = state.pending;
  state.pending = {};
  state.position += out.size();
  return out;
}

std::optional<std::string> clean_path(std::string_view name) {
  std::string out;
  while (!name.empty()) {
    const std::size_t slash = name.find('/');
    const std::string_view part = name.substr(0, slash);
    name.remove_prefix(slash == std::string_view::npos ? name.size() : slash + 1);
    if (part.empty() || part == ".") continue;
    if (part == "..") return std::nullopt;
    if (!out.empty()) out += '/';
    out += part;
  }
  return out;
}

}  // namespace tessera::stack
