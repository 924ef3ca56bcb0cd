// Graphics cards by name, and how a command line names them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tessera {

struct GpuCard {
  std::string name;
  double visible_gib = 0;  // what CUDA reports as total memory, less than the label says
  std::int32_t multiprocessors = 0;
  std::int32_t capability = 0;  // 90 for 9.0

  std::int64_t visible_bytes() const {
    return static_cast<std::int64_t>(visible_gib * static_cast<double>(std::int64_t{1} << 30));
  }
};

std::vector<GpuCard> known_cards();

struct GpuSet {
  GpuCard card;
  std::int32_t count = 1;
  bool is_known = true;  // false: taken as the user describes it
};

// "NAME:COUNT[:GiB]", e.g. "rtx-pro-6000:8", "H200:4:139.8"; case, spaces, dashes and underscores in the name
// do not matter. A name that is not in the table needs its GiB.
Result<GpuSet> parse_gpus(std::string_view text);

}  // namespace tessera
