// Other folders of an image that hold the same package: an editable checkout beside site-packages is the
// usual case, and which of the two Python imports is the usual surprise.
#pragma once

#include <string>
#include <vector>

#include "stack/source/layer.h"
#include "stack/source/layer_stack.h"
#include "stack/source/read_options.h"

namespace tessera::stack {

struct CopySearch {
  const MergedTree& merged;
  const std::vector<const LayerListing*>& listings;
  const Tree& tree;                     // what was read
  const std::string& root;              // where it was found
  const std::vector<std::string>& env;  // of the image's config
  const std::string& working_dir;
};

// Folders with at least 60 percent equal files among those of equal relative path. Sorted by path.
std::vector<PackageCopy> find_copies(const CopySearch& search);

}  // namespace tessera::stack
