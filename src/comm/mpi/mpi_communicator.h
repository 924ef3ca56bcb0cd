// Ranks over processes and nodes: each process that mpirun started runs several ranks as threads.
//
// rank = process * threads + thread. The threads of a process meet in memory, the last to come exchanges one
// message with each other process, then every thread takes its part: one message a pair of processes and
// collective, two for a large all-reduce. Results equal those of the thread communicator to the bit.
//
// A rank waits at most the deadline for the ranks of its own process, then at most the deadline for other
// processes. A rank that leaves is noticed at once inside its process, and at the deadline elsewhere.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "comm/communicator.h"
#include "comm/mpi/mpi_session.h"

namespace tessera {

// Every process calls it, in the same order with the same number of threads: element t goes to the thread
// that is rank process * threads + t. Refused when the processes disagree on the number of threads, or when
// one does not come within the deadline. `session` outlives the communicators and what is split from them.
Result<std::vector<std::unique_ptr<Communicator>>> make_mpi_communicators(MpiSession& session, int threads,
                                                                          const std::string& name,
                                                                          std::chrono::milliseconds deadline);

}  // namespace tessera
