#include "backend/cuda/weight_upload.h"

#include "backend/cuda_layout/staging_layout.h"
#include "base/check.h"

namespace tessera::cuda {
namespace {

constexpr unsigned kAwaitedOnTheHost = cudaEventDisableTiming | cudaEventBlockingSync;

}  // namespace

WeightUpload::~WeightUpload() {
  readers_.reset();
  if (copy_) (void)cudaStreamSynchronize(copy_.get());
}

void WeightUpload::open() {
  if (readers_) return;
  copy_ = make_stream();
  for (Block& block : blocks_) {
    block.host = allocate_pinned(kBlockBytes);
    block.device = allocate_device(kBlockBytes);
    block.copied = make_event(kAwaitedOnTheHost);  // never recorded: waiting for it ends at once
    block.repacked = make_event(kAwaitedOnTheHost);
  }
  readers_ = std::make_unique<RowReaders>(threads_);
}

WeightUpload::Place WeightUpload::take(std::int64_t bytes) {
  open();
  TS_CHECK(bytes <= room() && bytes % kStagingAlign == 0, bytes, room());
  const Block& block = blocks_[at_];
  const std::int64_t first = used_;
  used_ += bytes;
  return {block.host.get() + first, block.device.get() + first};
}

void WeightUpload::next_block() {
  if (used_ == 0) return;
  blocks_[at_].bytes = used_;
  used_ = 0;
  ++waiting_;
  at_ = (at_ + 1) % kBlocks;
  while (waiting_ > 0) {
    Block& oldest = blocks_[(at_ + kBlocks - waiting_) % kBlocks];
    if (waiting_ < kBlocks && !readers_->is_done(oldest.batch)) break;
    send(oldest);
  }
  TS_CUDA(cudaEventSynchronize(blocks_[at_].copied.get()));
}

void WeightUpload::send(Block& block) {
  readers_->wait(block.batch);
  TS_CUDA(cudaStreamWaitEvent(copy_.get(), block.repacked.get(), 0));
  TS_CUDA(cudaMemcpyAsync(block.device.get(), block.host.get(), static_cast<std::size_t>(block.bytes),
                          cudaMemcpyHostToDevice, copy_.get()));
  TS_CUDA(cudaEventRecord(block.copied.get(), copy_.get()));
  TS_CUDA(cudaStreamWaitEvent(work_, block.copied.get(), 0));
  for (const RepackRows& repack : block.repacks) launch_repack(repack, work_);
  TS_CUDA(cudaEventRecord(block.repacked.get(), work_));
  block.repacks.clear();
  --waiting_;
}

void WeightUpload::finish() {
  next_block();
  while (waiting_ > 0) send(blocks_[(at_ + kBlocks - waiting_) % kBlocks]);
}

void WeightUpload::stop_reading() {
  if (!readers_) return;
  for (const Block& block : blocks_) readers_->wait(block.batch);
}

void WeightUpload::release() {
  if (!readers_) return;
  finish();
  TS_CUDA(cudaStreamSynchronize(copy_.get()));
  TS_CUDA(cudaStreamSynchronize(work_));
  readers_.reset();
  for (Block& block : blocks_) block = Block{};
  copy_.reset();
}

}  // namespace tessera::cuda
