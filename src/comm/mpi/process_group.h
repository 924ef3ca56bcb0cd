// One process's share of a group of ranks: where its threads meet, and the buffers that they then read.
//
// Every collective is one meeting: each thread publishes a pointer and waits; the last to come copies
// everybody's data, exchanges messages with the other processes, and wakes the rest. The results stay valid
// until this thread enters its next collective, because the next exchange needs everybody's arrival. MPI sees
// these buffers alone, never the callers' memory, so a collective that fails may be unwound at once.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/mpi/mpi_session.h"

namespace tessera {

// Which ranks live where. Ranks of a process are neighbours, and processes stand in ascending order.
struct GroupLayout {
  std::vector<int> processes;  // those with ranks in the group, as MpiSession numbers them
  std::vector<int> first;      // [processes + 1] first rank of each; the last entry is the group's size
  int here = 0;                // this process's place in `processes`

  int size() const { return first.back(); }
  int first_here() const { return first[static_cast<std::size_t>(here)]; }
  int ranks_of(std::size_t place) const { return first[place + 1] - first[place]; }
  int ranks_here() const { return ranks_of(static_cast<std::size_t>(here)); }
};

// The ranks that named `colour`, as a group of their own. Precondition: one of them lives in this process.
GroupLayout layout_of_colour(const GroupLayout& parent, const std::vector<int>& colours, int colour);

class ProcessGroup : public std::enable_shared_from_this<ProcessGroup> {
 public:
  ProcessGroup(MpiSession& session, GroupLayout layout, std::string name, int tag,
               std::chrono::milliseconds deadline);

  const GroupLayout& layout() const { return layout_; }
  const std::string& name() const { return name_; }

  // `local` counts this process's ranks from 0. Each throws CommError, see Communicator.
  void gather(int local, const void* in, std::size_t bytes, const char* operation);
  const std::byte* gathered(int rank, std::size_t bytes) const {
    return received_.data() + static_cast<std::size_t>(rank) * bytes;
  }

  // in: [size] parts of `bytes`, one for each rank.
  void exchange_parts(int local, const void* in, std::size_t bytes, const char* operation);
  const std::byte* part(int from_rank, int to_local, std::size_t bytes) const {
    return received_.data() + static_cast<std::size_t>(from_rank * layout_.ranks_here() + to_local) * bytes;
  }

  // Afterwards gathered(0, bytes) is the root's data.
  void broadcast(int local, const void* data, std::size_t bytes, int root);

  struct Child {
    std::shared_ptr<ProcessGroup> group;
    int local = 0;
  };
  Child split(int local, int colour, const std::string& name);

  // A rank has gone: its neighbours' waiting and later calls fail.
  void leave(int local);

 private:
  template <class Work>
  void meet(int local, const void* published, const char* operation, const Work& work);
  void exchange(const char* operation);  // sends_ and receives_, by the thread that came last
  void fail(std::string why);            // under the lock; the first reason stays
  std::string left_message() const;

  MpiSession& session_;
  const GroupLayout layout_;
  const std::string name_;
  const std::chrono::milliseconds deadline_;

  // The meeting. A round is complete when its work is done.
  std::mutex mutex_;
  std::condition_variable all_came_;
  std::vector<std::uint64_t> here_;  // [local ranks] rounds that each has entered
  std::uint64_t started_ = 0;        // the round that everybody has entered
  std::uint64_t round_ = 0;          // rounds that are complete
  int waiting_ = 0;
  int left_ = -1;        // a local rank that has gone
  std::string failure_;  // why the group is unusable; empty while it is fine

  // Written by the thread that came last, while all others wait; read by all between two meetings.
  std::vector<const void*> in_;  // [local ranks] what each published
  std::vector<std::byte> sent_;
  std::vector<std::byte> received_;
  std::vector<MpiExchange::Outgoing> sends_;
  std::vector<MpiExchange::Incoming> receives_;
  std::vector<Child> children_;  // [local ranks] while a split is under way
  MpiExchange messages_;
};

}  // namespace tessera
