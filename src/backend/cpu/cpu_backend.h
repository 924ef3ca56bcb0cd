// The CPU back-end: complete, exact, and the reference for every other device.
//
// Activations are f32. Weights stay in their file's precision and are widened in registers; every product,
// sum and exponential is f32. A row of a result is the same bit for bit whatever else is in the call, and
// whatever the number of threads: each output element has one order of accumulation. (Machines with other
// vector widths may differ from each other in the last bits.)
#pragma once

#include <functional>
#include <memory>

#include "backend/backend.h"

namespace tessera {

int usable_cores();  // by this process

struct CpuOptions {
  int threads = 0;                         // 0: one for each core that this process may use
  std::function<void()> before_copy = {};  // between host and device; may wait. For tests
};

// One call at a time: a backend belongs to one rank's thread.
std::unique_ptr<Backend> make_cpu_backend(const CpuOptions& options = {});

}  // namespace tessera
