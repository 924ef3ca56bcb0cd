// The back-end's stream as others see it, and waiting for it with a deadline (comm/device_stream.h).
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <string>
#include <vector>

#include "backend/cuda/device.h"
#include "comm/device_stream.h"

namespace tessera::cuda {

class StreamWait final : public DeviceStream {
 public:
  // patience: how long one wait may take; 0: as long as it takes. With parties, whatever it is, they are
  // asked.
  StreamWait(int device, cudaStream_t stream, std::chrono::milliseconds patience)
      : device_(device), stream_(stream), patience_(patience) {}

  int device() const override { return device_; }
  void enter() const override { TS_CUDA(cudaSetDevice(device_)); }
  void* handle() const override { return stream_; }
  void enqueued(const std::string& what) override { last_ = &what; }
  void join(Party& party) override { parties_.push_back(&party); }
  void leave(Party& party) override;
  void wait() override;

  void replayed() { last_ = nullptr; }  // a graph, collectives and all

 private:
  [[noreturn]] void give_up(const std::string& why);

  int device_;
  cudaStream_t stream_;
  std::chrono::milliseconds patience_;
  const std::string* last_ = nullptr;  // enqueued; null: a recorded step
  std::vector<Party*> parties_;
};

}  // namespace tessera::cuda
