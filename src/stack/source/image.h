// A folder inside an image, or a flat tar, as a Tree.
//
// One pass over the layers lists them all, in the order in which the archive has them, and hashes on the way
// what lies under the asked path (and small files anywhere, for finding copies). The lists are then merged
// (layer_stack.h). Only when the merge shows that bytes are needed which were not hashed (the path went
// through a symlink, a hard link points elsewhere) are those layers read again.
#pragma once

#include "base/result.h"
#include "stack/source/read_options.h"

namespace tessera::stack {

// `path` inside the image root; `ref` as in image_plan.h.
Result<SourceTree> read_image(const std::string& location, const std::string& ref, const std::string& path,
                              const ReadOptions& options);
Result<SourceTree> read_tar(const std::string& location, const std::string& path, const ReadOptions& options);

}  // namespace tessera::stack
