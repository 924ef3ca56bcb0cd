// A model folder of a config's shapes and formats with random contents, as large as one likes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>

#include "base/result.h"

namespace tessera::bench {

struct RandomCheckpoint {
  std::filesystem::path config;               // a config.json
  std::map<std::string, std::int64_t> other;  // numbers of the language model's that are to be others
  std::filesystem::path folder;               // made; files of at most 4 GB
};

// The bytes of all tensors.
Result<std::int64_t> write_random_checkpoint(const RandomCheckpoint& what);

}  // namespace tessera::bench
