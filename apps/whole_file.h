// Files read and written in one piece; errors name the path.
#pragma once

#include <string>

#include "base/result.h"

namespace tessera {

Result<std::string> read_whole_file(const std::string& path);
Result<void> write_whole_file(const std::string& path, const std::string& text);

}  // namespace tessera
