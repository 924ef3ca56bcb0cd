// What holds the named blobs of an image: a folder (OCI layout) or one tar file (docker save, OCI archive).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "stack/source/byte_source.h"
#include "stack/source/read_options.h"

namespace tessera::stack {

class Container {
 public:
  using Visit = std::function<Result<void>(const std::string& name, ByteSource& bytes)>;
  virtual ~Container() = default;
  virtual bool has(const std::string& name) const = 0;
  // A small document (JSON, or docker's `repositories`).
  virtual Result<std::string> read(const std::string& name) const = 0;
  // The physical blob behind a name: docker save may hold a symlink to another layer's file.
  virtual Result<std::string> resolve(const std::string& name) const = 0;
  // Of a physical blob as it is stored; 0 when it is missing.
  virtual std::uint64_t size_of(const std::string& name) const = 0;
  // Whether several threads may visit at once, and a single blob costs no reading of the others.
  virtual bool is_random_access() const = 0;
  // Streams the named physical blobs in whatever order the container has them; a missing one is an error.
  virtual Result<void> visit(const std::set<std::string>& names, const Visit& visit) const = 0;
  // Names that end in `suffix`.
  virtual std::vector<std::string> names_ending(std::string_view suffix) const = 0;
};

Result<std::unique_ptr<Container>> open_container(const std::string& location, const ReadOptions& options);

}  // namespace tessera::stack
