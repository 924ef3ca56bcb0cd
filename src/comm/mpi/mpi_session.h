// This process among those that mpirun started, and messages between them that give up at a deadline.
//
// mpi_session.cpp is the only file that calls MPI. Calls are made one at a time, under a lock, from any
// thread; so MPI_THREAD_SERIALIZED is required, and start() refuses less. Nothing here blocks inside MPI:
// messages are posted, then polled.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace tessera {

class MpiSession {
 public:
  // Once per process, before anything else uses MPI. Without mpirun it is process 0 of 1.
  static Result<std::unique_ptr<MpiSession>> start();

  // Every process calls it at the end, when its communicators are gone. Waits for the others no longer than
  // the deadline; false: they did not come, and the destructor will end them.
  bool finish(std::chrono::milliseconds deadline);

  // Without a successful finish() it ends ALL processes (MPI_Abort, exit code 1), this one included: an
  // orderly end would wait for peers that may be gone.
  ~MpiSession();

  int process() const;    // 0 <= process() < processes()
  int processes() const;  // what mpirun -n said

  // The next group's message tag, which no other group that these processes share may use.
  // World groups: the same on every process, as long as all create them in the same order.
  int next_world_tag();
  // Reserves `count` tags on this process; no other process hands out the same ones. first, first +
  // processes(), …
  int reserve_tags(int count);

  // Keeps buffers that MPI may still write to, because an exchange over them was given up.
  void keep(std::shared_ptr<void> buffers);

 private:
  friend class MpiExchange;
  struct State;
  explicit MpiSession(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// One group's messages. Used by one thread at a time; allocates only until it has seen its largest exchange.
class MpiExchange {
 public:
  struct Outgoing {
    int process;
    std::span<const std::byte> bytes;
  };
  struct Incoming {
    int process;
    std::span<std::byte> bytes;  // filled entirely, or the exchange fails
  };

  // `session` outlives it. Messages of one tag between two processes arrive in the order of the exchanges.
  MpiExchange(MpiSession& session, int tag);
  ~MpiExchange();

  // Sends and receives everything, or returns the processes that did not take part within the deadline, in
  // order. After that, and after a throw, the spans must stay valid until the session ends, see
  // MpiSession::keep. Throws CommError when MPI reports an error or a peer sent another number of bytes.
  std::vector<int> run(std::span<const Outgoing> sends, std::span<const Incoming> receives,
                       std::chrono::milliseconds deadline);

 private:
  struct Requests;
  MpiSession& session_;
  int tag_;
  std::unique_ptr<Requests> requests_;
};

}  // namespace tessera
