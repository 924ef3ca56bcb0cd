// The back-end for NVIDIA GPUs: sm_80 and newer.
//
//   const auto backend = make_cuda_backend({.device = 0});
#pragma once

#include <chrono>
#include <memory>

#include "backend/backend.h"
#include "base/result.h"
#include "comm/device_stream.h"

namespace tessera {

struct CudaOptions {
  int device = 0;
  // f32 activations and f32 rows, in plain loops: slow, for comparing with references. Else bf16 with sums in
  // f32.
  bool exact = false;
  // Only forms whose sums run in one order whatever else is in the batch. mla_prefill is not among them; the
  // engine's batch-invariant mode does not use it.
  bool batch_invariant = false;
  // Products of many rows and mla_prefill only in forms that run on every card since sm_80: to test these on
  // a card that has its own.
  bool portable = false;
  int load_threads = 4;  // that read weights from their files, while they are loaded
  // How long the device may take for what the host waits for; 0: as long as it takes. With several ranks: a
  // peer that does not come would keep it for ever.
  std::chrono::milliseconds patience{0};
};

// Fails where there is no such device, no driver, or one too old.
Result<std::unique_ptr<Backend>> make_cuda_backend(const CudaOptions& options);

// The stream of a back-end that make_cuda_backend made: for communicators between devices.
DeviceStream& cuda_stream_of(Backend& backend);

}  // namespace tessera
