// Streams the blobs of an image several at a time. Every layer has to be hashed from its first byte to its
// last, so one core reads one layer at most as fast as it hashes; several layers go to several cores.
#pragma once

#include <set>
#include <string>

#include "base/result.h"
#include "stack/source/container.h"

namespace tessera::stack {

// Calls `visit` for each name, from several threads at once where the container can be read in several
// places. Of several errors the one of the first name is given, whichever thread was faster.
Result<void> visit_in_parallel(const Container& container, const std::set<std::string>& names,
                               const ReadOptions& options, const Container::Visit& visit);

}  // namespace tessera::stack
