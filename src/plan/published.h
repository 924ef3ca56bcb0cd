// Capacities that others have published for a layout that we can plan too.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "plan/gpu_plan.h"

namespace tessera {

struct PublishedCapacity {
  int context_ranks = 1;
  bool with_draft = false;
  std::int64_t kv_tokens = 0;
};

// Where the figures come from; printed beside them.
std::string_view published_source();
// Those that hold for this plan's model, cards, sizes and formats; empty for any other.
std::vector<PublishedCapacity> published_for(const ModelConfig& config, const GpuPlan& plan);
// What of the other stack's memory is known and has no place in our plan, in bytes a GPU.
struct PublishedPart {
  std::string what;
  std::int64_t bytes = 0;
};
std::vector<PublishedPart> known_parts(int context_ranks, bool with_draft);

}  // namespace tessera
