// What a back-end holds on its device, counted where the memory is taken and given back.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace tessera {

// Owned device memory; freed when the last owner goes. unique_ptr with a deleter that knows the device.
using Buffer = std::unique_ptr<void, std::function<void(void*)>>;

struct DeviceMemory {            // bytes
  std::int64_t weights = 0;      // matrices and vectors
  std::int64_t rope_tables = 0;  // cosines and sines of every position
  std::int64_t buffers = 0;      // of allocate(): activations, step inputs, KV pools
  std::int64_t scratch = 0;      // the back-end's own: what reserve() took, and what has grown since

  std::int64_t sum() const { return weights + rope_tables + buffers + scratch; }
  friend DeviceMemory operator-(const DeviceMemory& a, const DeviceMemory& b) {
    return {a.weights - b.weights, a.rope_tables - b.rope_tables, a.buffers - b.buffers,
            a.scratch - b.scratch};
  }
  friend bool operator==(const DeviceMemory&, const DeviceMemory&) = default;
};

// Of a KV cache, in bytes.
struct CacheMemory {
  std::int64_t all = 0;
  std::int64_t block = 0;  // of one block, all layers
};

// Counts buffers while they live. Used by the thread that drives the back-end.
class BufferCount {
 public:
  using Item = std::int64_t DeviceMemory::*;

  Buffer count(Buffer buffer, std::int64_t bytes, Item item) {
    if (buffer == nullptr) return buffer;
    (*held_).*item += bytes;
    auto release = std::move(buffer.get_deleter());
    return Buffer(buffer.release(), [held = held_, bytes, item, release = std::move(release)](void* data) {
      release(data);
      (*held).*item -= bytes;
    });
  }
  // Weights, stacks, vectors and tables own their memory in a member `storage`.
  template <class Owner>
  Owner count_storage(Owner owner, std::int64_t bytes, Item item) {
    owner.storage = count(std::move(owner.storage), bytes, item);
    return owner;
  }

  const DeviceMemory& held() const { return *held_; }

 private:
  // Shared with the buffers' deleters: a buffer may be freed after the back-end that made it.
  std::shared_ptr<DeviceMemory> held_ = std::make_shared<DeviceMemory>();
};

}  // namespace tessera
