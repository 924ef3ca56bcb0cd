// Collectives between the ranks of one group. The only protocol between ranks besides the plan.
//
// Every rank of a group calls the same operations in the same order with the same sizes. Sums run in rank
// order 0, 1, 2, … in f32 on every rank and in every implementation, so all ranks hold the same bits, and
// threads, processes and nodes agree. A rank that waits longer than the group's deadline throws CommError,
// which names the operation and the ranks that did not come; a group that has failed once fails every later
// call.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>

#include "tensor/dtype.h"

namespace tessera {

class CommError : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string name() const = 0;  // "tp of 4 ranks over threads", for logs and errors

  // data[i] = sum over ranks of data[i], in place. kF32 or kBF16 (summed in f32, rounded once).
  virtual void all_reduce(void* data, DType dtype, std::int64_t count) = 0;
  // out = in of rank 0, in of rank 1, …: `bytes` from each.
  virtual void all_gather(const void* in, void* out, std::size_t bytes) = 0;
  // out = sum over ranks of in's part `rank()`; in has size() parts of `count` elements.
  virtual void reduce_scatter(const void* in, void* out, DType dtype, std::int64_t count) = 0;
  // Part j of in goes to rank j, which finds it as part rank() of its out; parts of `bytes`.
  virtual void all_to_all(const void* in, void* out, std::size_t bytes) = 0;
  virtual void broadcast(void* data, std::size_t bytes, int root) = 0;
  virtual void barrier() = 0;

  // A group of the ranks that name the same colour, in order of rank. Every rank of this group must call it.
  virtual std::unique_ptr<Communicator> split(int colour, const std::string& name) = 0;
};

}  // namespace tessera
