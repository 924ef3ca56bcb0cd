// Random rows of each KV format, made on the device.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "tensor/kv_format.h"

namespace tessera::bench {

void fill_random_rows(KvFormat format, void* rows, std::size_t bytes, std::uint64_t seed,
                      cudaStream_t stream);
void spin(std::int64_t nanoseconds,
          cudaStream_t stream);  // keeps the stream busy while the host queues work behind it

}  // namespace tessera::bench
