// Reads one of the small files of a model folder whole.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace tessera {

// Refuses files above 256 MiB: the largest honest tokenizer.json has 30.
Result<std::string> read_model_file(const std::filesystem::path& path);

}  // namespace tessera
