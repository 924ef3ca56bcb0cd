// Start-up: host memory of the back-end's own kind, and weights in its layout.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/thread_pool.h"

namespace tessera {

Buffer allocate_zeroed(std::size_t bytes);

// What `count` matrices [out, in] take in this layout, scales included.
std::int64_t cpu_stack_bytes(WeightFormat format, std::int64_t count, std::int64_t out, std::int64_t in);

Weight prepare_weight(ThreadPool& pool, std::span<const HostMatrix> row_parts);
WeightStack prepare_weight_stack(ThreadPool& pool, std::int64_t count,
                                 const std::function<std::vector<HostMatrix>(std::int64_t)>& parts);
WeightStack prepare_stack_of_values(ThreadPool& pool, WeightFormat format, std::int64_t count,
                                    std::int64_t out, std::int64_t in, std::span<const float> values);
VectorWeight prepare_values(std::span<const float> values);

// The angle is f32(position) x f32(frequency), rounded to f32 as every reference does; its cosine and sine
// are accurate to the last bit of f32 and then multiplied.
RopeTable prepare_rope_table(ThreadPool& pool, std::int64_t positions, std::span<const float> frequencies,
                             float multiplier);

}  // namespace tessera
