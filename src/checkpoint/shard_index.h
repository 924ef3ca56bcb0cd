// model.safetensors.index.json: which file of a folder holds which tensor.
//
//   {"metadata": {"total_size": 595141058560}, "weight_map": {"model.norm.weight":
//   "model-00064-of-00064.safetensors", …}}
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tessera {

constexpr std::string_view kShardIndexName = "model.safetensors.index.json";
constexpr std::size_t kMaxShardIndex = std::size_t{256} << 20;  // bytes; Kimi-K2.6 has some 20 MB

struct ShardIndex {
  struct Item {
    std::string tensor;
    std::string_view file;  // in `files`
  };
  std::vector<Item> items;                   // as listed; a tensor may be there twice
  std::set<std::string, std::less<>> files;  // names in the same folder, without any path
};

Result<ShardIndex> parse_shard_index(std::string_view json);

}  // namespace tessera
