// What one rank holds on its device, item by item.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "checkpoint/parameters.h"

namespace tessera {

struct RankMemory {  // bytes
  std::array<std::int64_t, kModuleClasses> weights{};
  std::int64_t rope_tables = 0;
  std::int64_t activations = 0;    // of one step: logits included, and the states that a draft reads
  std::int64_t scratch = 0;        // the back-end's own: split attention, expansion, experts, sampling
  std::int64_t inputs = 0;         // what a step is told, block tables included; rows that prefills gather
  std::int64_t draft_weights = 0;  // without the embedding and head that a draft shares with its target
  std::int64_t draft_scratch = 0;  // its passes, its choices, its rope table
  std::int64_t kv_cache = 0;       // the pool; 0 where pools are planned apart
  std::int64_t draft_cache = 0;    // likewise

  std::int64_t kv_block = 0;        // of one block of kv_cache, all layers
  std::int64_t draft_kv_block = 0;  // of one block of draft_cache; a draft has one for each rank's blocks

  std::int64_t weight_sum() const;
  std::int64_t without_kv() const;
  friend bool operator==(const RankMemory&, const RankMemory&) = default;
};

struct MemoryItem {
  std::string key;   // one or two words, for programs
  std::string name;  // for tables
  std::int64_t bytes = 0;
};
// All items but the caches, zeros included, in the order of a table.
std::vector<MemoryItem> items_without_kv(const RankMemory& memory);
// With the caches.
std::vector<MemoryItem> items_of(const RankMemory& memory);

// Follows the start of a rank and sorts what its back-end has taken since into items. The same code on the
// back-end that only counts, which gives a plan, and on a real one, which gives what was really taken.
class MemoryLedger {
 public:
  explicit MemoryLedger(const Backend& backend) : backend_(backend), last_(backend.held()) {}

  // For LoadOptions::on_weight of the target.
  void add_weight(ModuleClass module_class, std::int64_t bytes) {
    memory_.weights[static_cast<std::size_t>(module_class)] += bytes;
  }
  void target_is_loaded();
  void runner_is_made(const CacheMemory& cache);
  void draft_is_loaded(const CacheMemory& cache);

  const RankMemory& memory() const { return memory_; }

 private:
  DeviceMemory take();  // since the last call

  const Backend& backend_;
  DeviceMemory last_;
  RankMemory memory_;
};

}  // namespace tessera
