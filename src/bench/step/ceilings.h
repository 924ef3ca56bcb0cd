// What this machine can do at best, measured.
#pragma once

#include "bench/step/op_bench.h"

namespace tessera::bench {

// Reading memory: on the CPU a sum over cold memory with so many threads, on a device (0 threads) the faster of
// a large copy, bytes read and written, and of a large matrix that meets one row. Arithmetic: the best of a large bf16 product of this back-end.
Ceilings measure_ceilings(Backend& backend, int cpu_threads);

}  // namespace tessera::bench
