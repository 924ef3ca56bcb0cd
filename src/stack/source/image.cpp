#include "stack/source/image.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "stack/object/digest.h"
#include "stack/object/printable.h"
#include "stack/object/tree_digest.h"
#include "stack/source/container.h"
#include "stack/source/image_plan.h"
#include "stack/source/layer.h"
#include "stack/source/layer_stack.h"
#include "stack/source/package_copy.h"
#include "stack/source/parallel_visit.h"

namespace tessera::stack {
namespace {

constexpr std::uint64_t kSmallFile =
    256 << 10;  // hashed wherever it lies: covers sources, not weights or libraries

// The part of `path` below `root`, nothing when it lies elsewhere.
std::optional<std::string_view> below(std::string_view path, std::string_view root) {
  if (root.empty()) return path;
  if (path.size() <= root.size() + 1 || !path.starts_with(root) || path[root.size()] != '/')
    return std::nullopt;
  return path.substr(root.size() + 1);
}

// The layers as blobs that can be streamed, in any order, more than once.
using Blobs = std::map<std::string, LayerListing>;
// Visits several at once.
using VisitBlobs = std::function<Result<void>(const std::set<std::string>& names, const Container::Visit&)>;

struct Reading {
  const std::string& location;
  const ReadOptions& options;
  bool whiteouts;
  std::string root;                       // the asked path, cleaned, before symlinks
  std::vector<std::string> blob_names{};  // per layer, bottom first
  VisitBlobs visit{};
};

LayerWishes first_wishes(const Reading& reading) {
  return {
      .whiteouts = reading.whiteouts,
      .hash = [&](std::size_t, std::string_view path,
                  std::uint64_t size) { return size <= kSmallFile || below(path, reading.root).has_value(); },
      .keep =
          [&](std::string_view path, const Oid& oid) {
            const auto inside = below(path, reading.root);
            return inside && (!reading.options.want || reading.options.want(*inside, oid));
          },
      .blobs = reading.options.blobs};
}

struct Wanted {
  std::string path;  // inside the tree
  const MergedEntry* entry;
};

// Everything under the resolved root that a tree can hold.
std::vector<Wanted> wanted_entries(const MergedTree& merged, const std::string& root) {
  std::vector<Wanted> out;
  for (const auto& [path, entry] : merged.paths) {
    const auto inside = below(path, root);
    if (inside && entry.kind != TarKind::kFolder) out.push_back({std::string(*inside), &entry});
  }
  return out;
}

// Bytes that the first pass did not hash or keep: read their layers again.
Result<void> read_missing(const Reading& reading, const std::string& root, const std::vector<Wanted>& wanted,
                          Blobs& blobs) {
  const bool moved = root != reading.root;  // then nothing below it was kept in the first pass
  std::map<std::string, std::map<std::size_t, std::vector<std::string>>>
      missing;  // blob -> entry -> paths in the tree
  for (const Wanted& item : wanted) {
    if (item.entry->kind != TarKind::kFile || !item.entry->unreadable.empty()) continue;
    const ContentPlace place = item.entry->place;
    const std::string& name = reading.blob_names[static_cast<std::size_t>(place.layer)];
    const LayerEntry& entry = blobs.at(name).entries[place.entry];
    const bool elsewhere =
        !below(entry.path, reading.root).has_value() || moved;  // a hard link's bytes, for instance
    const bool too_large = entry.size > reading.options.limits.blob_bytes;
    const bool keep = (elsewhere || too_large) && reading.options.blobs != nullptr && entry.hashed &&
                      (!reading.options.want || reading.options.want(item.path, entry.oid)) &&
                      !reading.options.blobs->contains(entry.oid);
    if (!entry.hashed || keep) missing[name][place.entry].push_back(item.path);
  }
  if (missing.empty()) return {};
  std::set<std::string> names;
  for (const auto& [name, entries] : missing) names.insert(name);
  return reading.visit(names, [&](const std::string& name, ByteSource& bytes) -> Result<void> {
    const auto& entries = missing.at(name);
    const std::vector<std::string>* asked = nullptr;  // the paths of the entry that is being read
    const LayerWishes wishes{
        .whiteouts = reading.whiteouts,
        .hash =
            [&](std::size_t index, std::string_view, std::uint64_t) {
              const auto found = entries.find(index);
              asked = found == entries.end() ? nullptr : &found->second;
              return asked != nullptr;
            },
        .keep =
            [&](std::string_view, const Oid& oid) {
              return asked != nullptr &&
                     (!reading.options.want ||
                      std::any_of(asked->begin(), asked->end(),
                                  [&](const std::string& path) { return reading.options.want(path, oid); }));
            },
        .blobs = reading.options.blobs,
        .stream_large = true};
    const std::string where = printable(reading.location + ": " + name);
    TS_TRY(LayerListing again, read_layer(bytes, wishes, reading.options.limits, where));
    LayerListing& listing = blobs.at(name);
    if (again.diff_id != listing.diff_id || again.entries.size() != listing.entries.size()) {
      return Error{ErrorKind::kConflict, where, "It changed while it was read; start again."};
    }
    for (const auto& [index, paths] : entries) {
      listing.entries[index].oid = again.entries[index].oid;
      listing.entries[index].hashed = again.entries[index].hashed;
    }
    return {};
  });
}

// A target is kept like a file's bytes are.
Result<TreeEntry> symlink_entry(const Reading& reading, const Wanted& item) {
  const std::string& target = item.entry->target;
  TreeEntry entry{
      .path = item.path, .mode = FileMode::kSymlink, .oid = blob_oid(target), .size = target.size()};
  if (reading.options.blobs != nullptr &&
      (!reading.options.want || reading.options.want(item.path, entry.oid))) {
    TS_TRY(entry.oid, reading.options.blobs->write(target));
  }
  return entry;
}

Result<SourceTree> assemble(const Reading& reading, const MergedTree& merged, const ImagePlan& plan,
                            Blobs& blobs) {
  TS_TRY(const std::string root, resolve_inside(merged, reading.root));
  const auto at_root = merged.paths.find(root);
  if (at_root != merged.paths.end() && at_root->second.kind != TarKind::kFolder) {
    return Error{
        ErrorKind::kInvalidArgument, printable(reading.location),
        "The path " + printable(root) + " inside it is a file; name the folder that holds the tree."};
  }
  const std::vector<Wanted> wanted = wanted_entries(merged, root);
  TS_TRY(read_missing(reading, root, wanted, blobs));

  SourceTree out{.tree = {}, .root = root};  // entries come sorted: the map's order is byte order
  for (const Wanted& item : wanted) {
    TreeEntry entry;
    if (item.entry->kind == TarKind::kSymlink) {
      TS_TRY(entry, symlink_entry(reading, item));
    } else {
      entry.path = item.path;
      entry.mode = item.entry->executable ? FileMode::kExecutable : FileMode::kFile;
      if (!item.entry->unreadable.empty()) {
        entry.unreadable = item.entry->unreadable;
      } else {
        const ContentPlace place = item.entry->place;
        const LayerEntry& content =
            blobs.at(reading.blob_names[static_cast<std::size_t>(place.layer)]).entries[place.entry];
        TS_CHECK(content.hashed, content.path);
        entry.oid = content.oid;
        entry.size = content.size;
      }
    }
    entry.layer = reading.whiteouts ? item.entry->layer : -1;
    out.tree.entries.push_back(std::move(entry));
  }
  out.tree.digest = tree_digest(out.tree.entries);
  out.tree.image = plan.config_digest;
  out.tree.labels = plan.labels;
  if (root != reading.root) {
    out.tree.notes.push_back("The path " + printable(reading.root) + " leads through symlinks to " +
                             printable(root) + ".");
  }
  std::vector<const LayerListing*> listings;
  for (std::size_t i = 0; i < reading.blob_names.size(); ++i) {
    const LayerListing& listing = blobs.at(reading.blob_names[i]);
    listings.push_back(&listing);
    if (reading.whiteouts) {
      out.tree.layers.push_back({.digest = listing.diff_id, .created_by = plan.layers[i].created_by});
    }
    const std::string lead = reading.whiteouts ? "Layer " + std::to_string(i + 1) + ": " : "";
    for (const std::string& note : listing.notes) out.tree.notes.push_back(lead + note);
  }
  out.tree.notes.insert(out.tree.notes.end(), merged.notes.begin(), merged.notes.end());
  out.tree.notes.insert(out.tree.notes.end(), plan.notes.begin(), plan.notes.end());
  out.copies = find_copies({.merged = merged,
                            .listings = listings,
                            .tree = out.tree,
                            .root = root,
                            .env = plan.env,
                            .working_dir = plan.working_dir});
  return out;
}

// The caller's store and predicate, for several threads at once.
class SharedStore final : public BlobStore {
 public:
  explicit SharedStore(const ReadOptions& options) : blobs_(options.blobs), options_(options) {
    if (options.blobs != nullptr) options_.blobs = this;
    if (options.want) {
      options_.want = [this, want = options.want](std::string_view path, const Oid& oid) {
        const std::lock_guard lock(mutex_);
        return want(path, oid);
      };
    }
  }
  const ReadOptions& options() const { return options_; }

  bool contains(const Oid& oid) const override {
    const std::lock_guard lock(mutex_);
    return blobs_->contains(oid);
  }
  Result<std::string> read(const Oid& oid) const override {
    const std::lock_guard lock(mutex_);
    return blobs_->read(oid);
  }
  Result<Oid> write(std::string_view bytes) override {
    const std::lock_guard lock(mutex_);
    return blobs_->write(bytes);
  }
  Result<Oid> write_pieces(std::uint64_t size, const NextPiece& next) override {
    const std::lock_guard lock(mutex_);
    return blobs_->write_pieces(size, next);
  }

 private:
  BlobStore* blobs_;
  ReadOptions options_;
  mutable std::mutex mutex_;
};

Error digest_error(const std::string& location, const ImageLayer& layer, const std::string& found) {
  const std::string& stated = layer.digest.empty() ? layer.diff_id : layer.digest;
  return Error{ErrorKind::kCorrupt, printable(location) + ": layer " + printable(stated),
               "The layer's bytes have the digest " + found + "; the archive is damaged or was changed."};
}

}  // namespace

Result<SourceTree> read_image(const std::string& location, const std::string& ref, const std::string& path,
                              const ReadOptions& given) {
  const SharedStore shared(given);
  const ReadOptions& options = shared.options();
  TS_TRY(const auto container, open_container(location, options));
  TS_TRY(const ImagePlan plan, plan_image(*container, location, ref, options));
  // Not clean_path: a ".." is resolved inside the root later, like any other component.
  Reading reading{
      .location = location, .options = options, .whiteouts = true, .root = clean_path(path).value_or(path)};
  std::set<std::string> names;
  for (const ImageLayer& layer : plan.layers) {
    reading.blob_names.push_back(layer.blob);
    names.insert(layer.blob);
  }
  reading.visit = [&](const std::set<std::string>& some, const Container::Visit& visit) {
    return visit_in_parallel(*container, some, options, visit);
  };
  Blobs blobs;
  std::mutex blobs_mutex;
  const LayerWishes wishes = first_wishes(reading);
  TS_TRY(reading.visit(names, [&](const std::string& name, ByteSource& bytes) -> Result<void> {
    const auto layer = std::find_if(plan.layers.begin(), plan.layers.end(),
                                    [&](const ImageLayer& candidate) { return candidate.blob == name; });
    const std::string where =
        printable(location) + ": layer " + printable(layer->digest.empty() ? name : layer->digest);
    LayerWishes here = wishes;
    here.stored_digest = layer->digest;
    TS_TRY(LayerListing listing, read_layer(bytes, here, options.limits, where));
    if (layer->size != 0 && layer->size != listing.stored_bytes) {
      return Error{ErrorKind::kCorrupt, where,
                   "It has " + std::to_string(listing.stored_bytes) + " bytes, its descriptor says " +
                       std::to_string(layer->size) + "."};
    }
    const std::lock_guard lock(blobs_mutex);
    blobs.emplace(name, std::move(listing));
    return {};
  }));
  std::vector<const LayerListing*> listings;
  for (const ImageLayer& layer : plan.layers) {
    const LayerListing& listing = blobs.at(layer.blob);
    if (!layer.diff_id.empty() && layer.diff_id != listing.diff_id) {
      ImageLayer stated = layer;
      stated.digest.clear();
      return digest_error(location, stated, listing.diff_id);
    }
    listings.push_back(&listing);
  }
  return assemble(reading, merge_layers(listings), plan, blobs);
}

Result<SourceTree> read_tar(const std::string& location, const std::string& path,
                            const ReadOptions& options) {
  Reading reading{
      .location = location, .options = options, .whiteouts = false, .root = clean_path(path).value_or(path)};
  reading.blob_names = {location};
  reading.visit = [&](const std::set<std::string>&, const Container::Visit& visit) -> Result<void> {
    std::uint64_t total = 0;
    const auto watch = [&](std::uint64_t at) {
      if (options.progress) options.progress("archive", at, total);
    };
    TS_TRY(const auto file, FileBytes::open(location, true, watch));
    total = file->size();
    return visit(location, *file);
  };
  Blobs blobs;
  const LayerWishes wishes = first_wishes(reading);
  TS_TRY(reading.visit({location}, [&](const std::string& name, ByteSource& bytes) -> Result<void> {
    TS_TRY(LayerListing listing, read_layer(bytes, wishes, options.limits, printable(location)));
    blobs.emplace(name, std::move(listing));
    return {};
  }));
  ImagePlan plan;
  plan.layers.push_back({.blob = location});
  return assemble(reading, merge_layers({&blobs.at(location)}), plan, blobs);
}

}  // namespace tessera::stack
