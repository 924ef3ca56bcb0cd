// The way of weights from the host to the device, as a ring of pinned blocks: reader threads fill one while
// earlier ones are copied and rearranged.
//
//   readers ─► block, pinned ─► copy stream ─► block, on the device ─► work stream: repack ─► weight
//
// Nobody waits for the device, except for a block that is to be filled again. The memory and the threads are
// there from the first use until release().
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backend/cuda/device.h"
#include "backend/cuda/weight_repack.h"
#include "checkpoint/row_readers.h"

namespace tessera::cuda {

class WeightUpload {
 public:
  // Large enough that copies run at the bus's full rate; four of them keep readers, bus and device busy.
  static constexpr std::int64_t kBlockBytes = std::int64_t{32} << 20;
  static constexpr std::size_t kBlocks = 4;

  WeightUpload(cudaStream_t work, int readers) : work_(work), threads_(readers) {}
  ~WeightUpload();
  WeightUpload(const WeightUpload&) = delete;
  WeightUpload& operator=(const WeightUpload&) = delete;

  // What is left of the block that is being filled.
  std::int64_t room() const { return kBlockBytes - used_; }
  void next_block();
  // Takes `bytes` of it: where to read them to, and where they will be on the device.
  struct Place {
    std::byte* host = nullptr;
    const std::byte* device = nullptr;
  };
  Place take(std::int64_t bytes);
  void read(const RowCopy& copy) { readers_->read(copy, blocks_[at_].batch); }
  // When the block is on the device.
  void then(const RepackRows& repack) { blocks_[at_].repacks.push_back(repack); }

  // Everything has been read from the host's memory, and the rest is enqueued: what comes after it on the
  // work stream finds the weights.
  void finish();
  // When finish() cannot be reached: nothing reads the host's memory any more.
  void stop_reading();
  // Gives memory and threads back, when the device is done with them.
  void release();

 private:
  struct Block {
    PinnedBytes host;
    DeviceBytes device;
    Event copied;    // host may be filled again
    Event repacked;  // device may be copied to again
    std::int64_t bytes = 0;
    RowReaders::Batch batch;
    std::vector<RepackRows> repacks;
  };
  void open();
  void send(Block& block);

  cudaStream_t work_;
  int threads_;
  Stream copy_;
  std::array<Block, kBlocks> blocks_;
  std::size_t at_ = 0;                   // the block that is being filled
  std::int64_t used_ = 0;                // of it
  std::size_t waiting_ = 0;              // blocks before it that have not been sent
  std::unique_ptr<RowReaders> readers_;  // last: they write to blocks
};

}  // namespace tessera::cuda
