#include "stack/source/folder.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

#include "stack/object/digest.h"
#include "stack/object/printable.h"
#include "stack/object/tree_digest.h"
#include "stack/source/byte_source.h"

namespace tessera::stack {
namespace {

constexpr std::uint64_t kProgressEvery = 256;  // files

bool is_same_file(const struct stat& a, const struct stat& b) {
  return a.st_ino == b.st_ino && a.st_size == b.st_size && a.st_mtim.tv_sec == b.st_mtim.tv_sec &&
         a.st_mtim.tv_nsec == b.st_mtim.tv_nsec && a.st_mode == b.st_mode;
}

std::string reason(const char* doing) {
  return std::string("Cannot ") + doing + ": " + std::strerror(errno) + ".";
}

class FolderWalk {
 public:
  FolderWalk(const std::string& root, const ReadOptions& options) : root_(root), options_(options) {}

  Result<void> run() {
    std::vector<std::string> todo = {""};
    while (!todo.empty()) {
      const std::string folder = std::move(todo.back());
      todo.pop_back();
      const std::unique_ptr<DIR, int (*)(DIR*)> handle(::opendir(on_disk(folder).c_str()), &::closedir);
      if (handle == nullptr) {
        if (folder.empty()) return Error{ErrorKind::kIo, printable(root_), reason("list this folder")};
        notes.push_back("The folder " + printable(folder) + " was left out. " + reason("list it"));
        continue;
      }
      while (const dirent* item = ::readdir(handle.get())) {
        const std::string name = item->d_name;
        if (name == "." || name == "..") continue;
        const std::string path = folder.empty() ? name : folder + '/' + name;
        if (name == ".git") {
          skipped_git_.push_back(path);
          continue;
        }
        struct stat status {};
        if (::lstat(on_disk(path).c_str(), &status) != 0) {
          if (errno != ENOENT) entries.push_back({.path = path, .unreadable = reason("examine it")});
          continue;
        }
        if (S_ISDIR(status.st_mode)) {
          todo.push_back(path);
        } else if (S_ISLNK(status.st_mode)) {
          TS_TRY(take_symlink(path));
        } else if (S_ISREG(status.st_mode)) {
          TS_TRY(take_file(path, status));
        } else {
          ++others_;
        }
        if (entries.size() > options_.limits.entries) {
          return Error{
              ErrorKind::kTooLarge, printable(root_),
              "It has more than " + std::to_string(options_.limits.entries) + " files, which is the limit."};
        }
      }
    }
    if (options_.progress) options_.progress("folder", bytes_, 0);
    if (others_ > 0) notes.push_back(std::to_string(others_) + " devices, fifos and sockets were ignored.");
    std::sort(skipped_git_.begin(), skipped_git_.end());
    for (const std::string& path : skipped_git_) {
      notes.push_back(printable(path) + " was skipped; it is git's own and no part of the tree.");
    }
    return {};
  }

  std::vector<TreeEntry> entries;
  std::vector<std::string> notes;

 private:
  std::string on_disk(const std::string& path) const { return path.empty() ? root_ : root_ + '/' + path; }

  bool is_wanted(const std::string& path, const Oid& oid) const {
    return options_.blobs != nullptr && (!options_.want || options_.want(path, oid));
  }

  Result<void> take_symlink(const std::string& path) {
    std::string target(4096, '\0');  // PATH_MAX
    const ssize_t length = ::readlink(on_disk(path).c_str(), target.data(), target.size());
    if (length < 0) {
      entries.push_back(
          {.path = path, .mode = FileMode::kSymlink, .unreadable = reason("read this symlink")});
      return {};
    }
    target.resize(static_cast<std::size_t>(length));
    const Oid oid = blob_oid(target);
    if (is_wanted(path, oid)) TS_TRY(options_.blobs->write(target));
    entries.push_back({.path = path, .mode = FileMode::kSymlink, .oid = oid, .size = target.size()});
    return {};
  }

  Result<void> take_file(const std::string& path, const struct stat& status) {
    struct stat before = status;
    for (int attempt = 0; attempt < 2; ++attempt) {
      TreeEntry entry{.path = path,
                      .mode = (before.st_mode & 0100) != 0 ? FileMode::kExecutable : FileMode::kFile};
      TS_TRY(const bool complete, read_bytes(entry, static_cast<std::uint64_t>(before.st_size)));
      struct stat after {};
      const bool still_there = ::lstat(on_disk(path).c_str(), &after) == 0;
      const bool settled =
          entry.unreadable.has_value() || (complete && still_there && is_same_file(before, after));
      if (settled) {
        entries.push_back(std::move(entry));
        if (++files_ % kProgressEvery == 0 && options_.progress) options_.progress("folder", bytes_, 0);
        return {};
      }
      if (!still_there) return {};
      before = after;
    }
    entries.push_back(
        {.path = path, .unreadable = "It changed twice while it was read; stop what writes to it."});
    return {};
  }

  // False: the file ended before or after its announced size.
  Result<bool> read_bytes(TreeEntry& entry, std::uint64_t size) {
    auto file = FileBytes::open(on_disk(entry.path), false);
    if (!file) {
      entry.unreadable = file.error().what;
      return true;
    }
    const bool hold = options_.blobs != nullptr && size <= options_.limits.blob_bytes;
    Hasher hasher = blob_hasher(size);
    std::string bytes;
    std::uint64_t count = 0;
    while (true) {
      const auto chunk = (*file)->next();
      if (!chunk) {
        entry.unreadable = chunk.error().what;
        return true;
      }
      if (chunk->empty()) break;
      count += chunk->size();
      if (count > size) return false;
      hasher.add(*chunk);
      if (hold) bytes += *chunk;
    }
    bytes_ += count;
    if (count != size) return false;
    entry.size = size;
    entry.oid = hasher.oid();
    if (!is_wanted(entry.path, entry.oid)) return true;
    if (hold) {
      TS_TRY(options_.blobs->write(bytes));
      return true;
    }
    // Too large for memory, and wanted as is known only now: once more, into the store.
    TS_TRY(const auto again, FileBytes::open(on_disk(entry.path), false));
    TS_TRY(const Oid written, options_.blobs->write_pieces(size, [&] { return again->next(); }));
    return written == entry.oid;
  }

  const std::string& root_;
  const ReadOptions& options_;
  std::vector<std::string> skipped_git_;
  std::size_t others_ = 0;
  std::uint64_t files_ = 0;
  std::uint64_t bytes_ = 0;
};

}  // namespace

Result<SourceTree> read_folder(const std::string& location, const ReadOptions& options) {
  struct stat status {};
  if (::stat(location.c_str(), &status) != 0 || !S_ISDIR(status.st_mode)) {
    return Error{ErrorKind::kNotFound, printable(location), "There is no such folder."};
  }
  FolderWalk walk(location, options);
  TS_TRY(walk.run());
  SourceTree out;
  out.tree.entries = std::move(walk.entries);
  out.tree.notes = std::move(walk.notes);
  sort_entries(out.tree.entries);
  out.tree.digest = tree_digest(out.tree.entries);
  return out;
}

}  // namespace tessera::stack
