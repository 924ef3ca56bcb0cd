// What a rank prepares in each step to prefill sequences whose rows are spread over a decode context parallel
// group: where the chunk's own rows go in a pool of their own, and in which rounds the group gathers the
// earlier rows. All of it is computed once a step and serves every layer.
//
// A round takes blocks of the sequences in order of position, until some rank has blocks_each of them to
// send. In the gathered part of the pool block k of rank r is block r * blocks_each + k; a sequence's table
// lists them in order of position, so that its last block, which may be partly filled, comes last.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "engine/step_plan.h"
#include "model/model.h"

namespace tessera {

class StagedContext {
 public:
  struct Limits {
    std::int32_t ranks = 0;
    std::int32_t rank = 0;
    std::int64_t tokens = 0;       // query tokens in a step
    std::int64_t seqs = 0;         // sequences in a step
    std::int64_t positions = 0;    // of the longest sequence
    std::int64_t gather_rows = 0;  // that a rank sends in a round at most
  };
  // `like` is any layer of the rank's pool.
  StagedContext(Backend& backend, const KvLayer& like, const Limits& limits);

  // `works` are the plan's sharded prefills, `batch` how they lie in the step; stands until the next call.
  const StagedPrefill& stage(Backend& backend, const StepPlan& plan, std::span<const SequenceWork> works,
                             const AttentionBatch& batch);

 private:
  // Arrays of 32 and 64 bits that are filled on the host and then lie on the device.
  class Lists {
   public:
    void allocate(Backend& backend, std::size_t bytes);
    void clear() { used_ = 0; }
    template <class T>
    std::span<T> take(std::size_t count);
    template <class T>
    const T* on_device(std::span<T> taken) const;
    void upload(Backend& backend) { backend.copy_to_device(device_.get(), host_.data(), used_); }

   private:
    std::vector<std::byte> host_;
    Buffer device_;
    std::size_t used_ = 0;
  };
  // Blocks [first, last) of one sequence's earlier ones, in one round.
  struct Piece {
    std::size_t work = 0;
    std::int32_t first = 0;
    std::int32_t last = 0;
  };

  void stage_own(std::span<const SequenceWork> works, const AttentionBatch& batch);
  void stage_rounds(const StepPlan& plan, std::span<const SequenceWork> works);
  void close_round(const StepPlan& plan, std::span<const SequenceWork> works);

  Limits limits_;
  Buffer pool_;
  Buffer sent_;
  std::int32_t own_blocks_ = 0;
  std::size_t most_rounds_ = 0;
  Lists lists_;
  StagedPrefill staged_;
  std::vector<ContextRound> rounds_;
  // Of the round that is being filled.
  std::vector<Piece> pieces_;
  std::vector<std::int32_t> next_place_;  // [ranks] blocks of the round that each rank sends so far
};

}  // namespace tessera
