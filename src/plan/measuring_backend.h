// A back-end that only counts: the code that loads a model and makes a runner can be run on it to learn what
// a real device would hold. Computing on it is our own mistake and aborts.
#pragma once

#include <memory>

#include "plan/device_model.h"

namespace tessera {

// Bytes on the device.
struct Measured {
  std::int64_t weights = 0;      // matrices and vectors
  std::int64_t rope_tables = 0;  // cosines and sines of every position
  std::int64_t buffers = 0;      // allocate(): activations, step inputs, the KV pool
  std::int64_t reserved = 0;     // the back-end's own scratch
};

// `measured` is counted up while the back-end lives, and outlives it.
std::unique_ptr<Backend> make_measuring_backend(DeviceModel device, Measured& measured);

}  // namespace tessera
