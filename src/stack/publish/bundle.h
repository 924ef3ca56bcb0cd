// A git bundle: refs and the objects that somebody lacks who has the target, in one file.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "stack/git/repository.h"

namespace tessera::stack {

// Version 2, readable by every git. `without` must be commits that the receiver has.
Result<std::string> make_bundle(const Repository& repository, const std::vector<Ref>& refs,
                                const std::vector<Oid>& without);

}  // namespace tessera::stack
