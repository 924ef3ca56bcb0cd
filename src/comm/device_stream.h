// The stream on which a rank's device computes, as communicators between devices see it: where they enqueue,
// whom they tell what they have enqueued, and who waits. Without CUDA's types.
//
// Nobody but the host's waiting thread can notice that a device will never finish: a collective that a peer
// does not join spins on the device for ever. So communicators register themselves, the thread that waits
// asks them now and then, and at the deadline it ends their collectives before it throws.
#pragma once

#include <optional>
#include <string>

namespace tessera {

class DeviceStream {
 public:
  // What wants to be asked while the host waits.
  class Party {
   public:
    virtual ~Party() = default;
    // A sentence when something is wrong: it names group and operation.
    virtual std::optional<std::string> trouble() = 0;
    // Ends whatever this party has enqueued, so that the device becomes idle. Must not wait for peers.
    virtual void end_collectives() = 0;
  };

  virtual ~DeviceStream() = default;

  virtual int device() const = 0;    // as CUDA numbers it
  virtual void enter() const = 0;    // makes the device the calling thread's current one
  virtual void* handle() const = 0;  // cudaStream_t
  // `what` ("all-reduce in tp of 4 GPUs") has been enqueued; it is named if the device does not finish. Must
  // stay where it is until the party leaves.
  virtual void enqueued(const std::string& what) = 0;
  virtual void join(Party& party) = 0;
  virtual void leave(Party& party) = 0;
  // Until everything enqueued is done. Throws CommError when a party is in trouble or the deadline passes.
  virtual void wait() = 0;
};

}  // namespace tessera
