// What an installed tree says about the commit that it was built from: version files, package metadata, image
// labels. Hints for the search of a base, never believed unseen.
#pragma once

#include <string>
#include <vector>

#include "stack/tree.h"

namespace tessera::stack {

struct VersionHint {
  std::string where;               // "vllm/_version.py", "label org.opencontainers.image.revision"
  std::string said;                // "0.15.1.dev3+g9aaf83ef5"
  std::vector<std::string> names;  // what a repository may know it by: a (shortened) commit id, tags
};

// By path; labels first. At most 20 files are read.
std::vector<VersionHint> find_version_hints(const Tree& tree, const BlobStore& blobs);

// The names that a version can stand for: "0.15.1.dev3+g9aaf83ef5.d2026" gives "9aaf83ef5", "v0.15.1",
// "0.15.1".
std::vector<std::string> names_of_version(std::string_view version);

}  // namespace tessera::stack
