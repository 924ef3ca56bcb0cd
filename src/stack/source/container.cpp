#include "stack/source/container.h"

#include <sys/stat.h>

#include <algorithm>

#include "stack/object/printable.h"
#include "stack/source/tar_reader.h"

namespace tessera::stack {
namespace {

Error missing(const std::string& location, const std::string& name) {
  return Error{ErrorKind::kNotFound, printable(location),
               "It refers to " + printable(name) + ", which it does not contain."};
}

class FolderContainer final : public Container {
 public:
  FolderContainer(std::string root, const ReadOptions& options) : root_(std::move(root)), options_(options) {}

  bool has(const std::string& name) const override {
    struct stat status {};
    return clean_path(name) == name && ::stat(path(name).c_str(), &status) == 0 && S_ISREG(status.st_mode);
  }
  Result<std::string> read(const std::string& name) const override {
    if (!has(name)) return missing(root_, name);
    TS_TRY(const auto file, FileBytes::open(path(name), true));
    return read_all(*file, options_.limits.json_bytes, printable(path(name)));
  }
  Result<std::string> resolve(const std::string& name) const override {
    if (!has(name)) return missing(root_, name);
    return name;
  }
  std::uint64_t size_of(const std::string& name) const override {
    struct stat status {};
    return has(name) && ::stat(path(name).c_str(), &status) == 0 ? static_cast<std::uint64_t>(status.st_size)
                                                                 : 0;
  }
  bool is_random_access() const override { return true; }
  Result<void> visit(const std::set<std::string>& names, const Visit& visit) const override {
    for (const std::string& name : names) {
      if (!has(name)) return missing(root_, name);
      TS_TRY(const auto file, FileBytes::open(path(name), true));
      TS_TRY(visit(name, *file));
    }
    return {};
  }
  std::vector<std::string> names_ending(std::string_view) const override { return {}; }

 private:
  std::string path(const std::string& name) const { return root_ + '/' + name; }
  std::string root_;
  const ReadOptions& options_;
};

// The current entry of an outer archive.
class EntryBytes final : public ByteSource {
 public:
  explicit EntryBytes(TarReader& tar) : tar_(tar) {}
  Result<std::string_view> next() override { return tar_.data(); }

 private:
  TarReader& tar_;
};

class TarContainer final : public Container {
 public:
  TarContainer(std::string location, const ReadOptions& options)
      : location_(std::move(location)), options_(options) {}

  // One pass over the headers; an uncompressed archive is sought through, so that this costs no reading.
  Result<void> index() {
    TS_TRY(const auto file, FileBytes::open(location_, true));
    is_packed_ = sniff_compression(file->peek(8)) != Compression::kNone;
    std::uint64_t json_bytes = 0;
    return walk(options_.progress,
                [&](std::size_t ordinal, const TarHeader& header, const std::string& name,
                    TarReader& tar) -> Result<void> {
                  if (ordinal >= options_.limits.entries) {
                    return Error{ErrorKind::kTooLarge, printable(location_),
                                 "It has more than " + std::to_string(options_.limits.entries) +
                                     " entries, which is the limit."};
                  }
                  Item item{
                      .ordinal = ordinal, .kind = header.kind, .size = header.size, .target = header.target};
                  if (header.kind == TarKind::kFile && header.size <= options_.limits.json_bytes) {
                    TS_TRY(const std::string_view first, tar.data());
                    if (looks_small(name, first)) {
                      item.text = first;
                      EntryBytes rest(tar);
                      TS_TRY(const std::string more,
                             read_all(rest, options_.limits.json_bytes, printable(location_)));
                      item.text += more;
                      item.has_text = true;
                      json_bytes += item.text.size();
                      if (json_bytes > options_.limits.all_json_bytes) {
                        return Error{ErrorKind::kTooLarge, printable(location_),
                                     "Its JSON documents exceed the limit of " +
                                         std::to_string(options_.limits.all_json_bytes) + " bytes together."};
                      }
                    }
                  }
                  items_.insert_or_assign(name, std::move(item));  // duplicates: the last one wins
                  return {};
                });
  }

  bool has(const std::string& name) const override { return items_.contains(name); }

  Result<std::string> read(const std::string& name) const override {
    TS_TRY(const std::string real, resolve(name));
    const Item& item = items_.at(real);
    if (!item.has_text) {
      return Error{ErrorKind::kCorrupt, printable(location_),
                   "The entry " + printable(name) + " should be a JSON document and is not."};
    }
    return item.text;
  }

  Result<std::string> resolve(const std::string& name) const override {
    std::string at = name;
    for (int hops = 0; hops < 8; ++hops) {
      const auto found = items_.find(at);
      if (found == items_.end()) return missing(location_, at);
      const Item& item = found->second;
      if (item.kind == TarKind::kFile) return at;
      if (item.kind != TarKind::kSymlink && item.kind != TarKind::kHardlink) break;
      // A symlink is relative to its folder ("../<id>/layer.tar"), a hard link to the archive's root.
      std::string joined = item.target;
      if (item.kind == TarKind::kSymlink && !joined.starts_with('/')) {
        std::string_view target = item.target;
        std::string folder = at.substr(0, at.rfind('/') == std::string::npos ? 0 : at.rfind('/'));
        while (target.starts_with("../")) {
          target.remove_prefix(3);
          folder.erase(folder.rfind('/') == std::string::npos ? 0 : folder.rfind('/'));
        }
        joined = folder.empty() ? std::string(target) : folder + '/' + std::string(target);
      }
      const auto clean = clean_path(joined);
      if (!clean) break;
      at = *clean;
    }
    return Error{ErrorKind::kCorrupt, printable(location_),
                 "The entry " + printable(name) + " leads to no file inside the archive."};
  }

  std::uint64_t size_of(const std::string& name) const override {
    const auto found = items_.find(name);
    return found == items_.end() ? 0 : found->second.size;
  }
  bool is_random_access() const override { return !is_packed_; }

  Result<void> visit(const std::set<std::string>& names, const Visit& visit) const override {
    std::map<std::size_t, std::string>
        wanted;  // by ordinal, so that a duplicate earlier in the file is passed over
    for (const std::string& name : names) {
      const auto found = items_.find(name);
      if (found == items_.end() || found->second.kind != TarKind::kFile) return missing(location_, name);
      wanted.emplace(found->second.ordinal, name);
    }
    std::size_t seen = 0;
    TS_TRY(walk(
        {}, [&](std::size_t ordinal, const TarHeader&, const std::string&, TarReader& tar) -> Result<void> {
          const auto found = wanted.find(ordinal);
          if (found == wanted.end()) return {};
          ++seen;
          EntryBytes bytes(tar);
          return visit(found->second, bytes);
        }));
    if (seen != wanted.size()) {
      return Error{ErrorKind::kConflict, printable(location_), "It changed while it was read; start again."};
    }
    return {};
  }

  std::vector<std::string> names_ending(std::string_view suffix) const override {
    std::vector<std::string> out;
    for (const auto& [name, item] : items_) {
      if (name.ends_with(suffix)) out.push_back(name);
    }
    return out;
  }

 private:
  struct Item {
    std::size_t ordinal = 0;
    TarKind kind = TarKind::kFile;
    std::uint64_t size = 0;
    std::string target{};
    bool has_text = false;
    std::string text{};
  };
  using OnEntry =
      std::function<Result<void>(std::size_t, const TarHeader&, const std::string& name, TarReader&)>;

  static bool looks_small(const std::string& name, std::string_view first) {
    const std::size_t at = first.find_first_not_of(" \t\r\n");
    return name == "repositories" || (at != std::string_view::npos && (first[at] == '{' || first[at] == '['));
  }

  Result<void> walk(const StageProgress& progress, const OnEntry& on_entry) const {
    std::uint64_t total = 0;
    const auto watch = [&](std::uint64_t at) {
      if (progress) progress("table of contents", at, total);
    };
    const std::string where = printable(location_);
    const BombGuard guard{.bytes = options_.limits.bomb_bytes, .ratio = options_.limits.bomb_ratio};
    TS_TRY(const auto file, FileBytes::open(location_, true, watch));
    total = file->size();
    std::unique_ptr<UnpackedBytes> unpacked;
    ByteSource* plain = file.get();
    if (is_packed_) {
      TS_TRY(unpacked, UnpackedBytes::open(*file, guard, where));
      plain = unpacked.get();
    }
    TS_TRY(TarReader tar, TarReader::open(*plain, guard, where));
    for (std::size_t ordinal = 0;; ++ordinal) {
      TS_TRY(const std::optional<TarHeader> header, tar.next());
      if (!header) return {};
      const auto name = clean_path(header->name);
      if (name && !name->empty()) TS_TRY(on_entry(ordinal, *header, *name, tar));
    }
  }

  std::string location_;
  const ReadOptions& options_;
  bool is_packed_ = false;
  std::map<std::string, Item> items_;
};

}  // namespace

Result<std::unique_ptr<Container>> open_container(const std::string& location, const ReadOptions& options) {
  struct stat status {};
  if (::stat(location.c_str(), &status) != 0) {
    return Error{ErrorKind::kNotFound, printable(location), "There is no such file or folder."};
  }
  if (S_ISDIR(status.st_mode))
    return std::unique_ptr<Container>(std::make_unique<FolderContainer>(location, options));
  auto tar = std::make_unique<TarContainer>(location, options);
  TS_TRY(tar->index());
  return std::unique_ptr<Container>(std::move(tar));
}

}  // namespace tessera::stack
