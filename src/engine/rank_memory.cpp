#include "engine/rank_memory.h"

#include <numeric>

#include "base/check.h"

namespace tessera {

std::int64_t RankMemory::weight_sum() const {
  return std::accumulate(weights.begin(), weights.end(), std::int64_t{0});
}

std::int64_t RankMemory::without_kv() const {
  return weight_sum() + rope_tables + activations + scratch + inputs + draft_weights + draft_scratch;
}

std::vector<MemoryItem> items_without_kv(const RankMemory& m) {
  std::vector<MemoryItem> items;
  for (int c = 0; c < kModuleClasses; ++c) {
    const std::string name(name_of(static_cast<ModuleClass>(c)));
    items.push_back({"weights " + name, "weights: " + name, m.weights[static_cast<std::size_t>(c)]});
  }
  items.push_back({"draft weights", "draft: weights", m.draft_weights});
  items.push_back({"draft scratch", "draft: scratch", m.draft_scratch});
  items.push_back({"rope tables", "rope tables", m.rope_tables});
  items.push_back({"activations", "activations and logits of a step", m.activations});
  items.push_back({"scratch", "kernel scratch", m.scratch});
  items.push_back({"inputs", "inputs, block tables, gathered rows", m.inputs});
  return items;
}

std::vector<MemoryItem> items_of(const RankMemory& memory) {
  std::vector<MemoryItem> items = items_without_kv(memory);
  items.push_back({"kv cache", "KV cache", memory.kv_cache});
  items.push_back({"draft cache", "draft: KV cache", memory.draft_cache});
  return items;
}

DeviceMemory MemoryLedger::take() {
  const DeviceMemory now = backend_.held();
  const DeviceMemory since = now - last_;
  last_ = now;
  return since;
}

void MemoryLedger::target_is_loaded() {
  const DeviceMemory taken = take();
  TS_CHECK(taken.weights == memory_.weight_sum(), taken.weights, memory_.weight_sum());
  memory_.rope_tables = taken.rope_tables;
  memory_.activations = taken.buffers;
  memory_.scratch = taken.scratch;
}

void MemoryLedger::runner_is_made(const CacheMemory& cache) {
  const DeviceMemory taken = take();
  TS_CHECK(taken.weights == 0 && taken.buffers >= cache.all, taken.weights, taken.buffers, cache.all);
  memory_.inputs = taken.buffers - cache.all;
  memory_.kv_cache = cache.all;
  memory_.kv_block = cache.block;
}

void MemoryLedger::draft_is_loaded(const CacheMemory& cache) {
  const DeviceMemory taken = take();
  memory_.draft_weights = taken.weights;
  memory_.draft_scratch = taken.sum() - taken.weights - cache.all;
  memory_.draft_cache = cache.all;
  memory_.draft_kv_block = cache.block;
}

}  // namespace tessera
