// Messages from one process to all others, in order, and the knowledge that everybody is still there.
//
// While nothing is sent, the sender exchanges heartbeats with the receivers, so that a receiver may wait for
// a message as long as it takes, and a lost process is noticed on both sides within the channel's patience.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "comm/communicator.h"

namespace tessera {

// Process 0's end.
class MessageSender {
 public:
  virtual ~MessageSender() = default;  // tells the receivers that this was all
  // To every other process. No heartbeat is asked for until idle(): the receivers are at work. Throws
  // CommError, which names the processes that are lost.
  virtual void send(std::span<const std::byte> message) = 0;
  // The work that the last message asked for is done; receivers wait for the next.
  virtual void idle() = 0;
};

// The end of each other process.
class MessageReceiver {
 public:
  virtual ~MessageReceiver() = default;
  // The next message, valid until the next call; nothing when the sender has ended in order. Throws CommError
  // when process 0 is lost.
  virtual std::optional<std::span<const std::byte>> receive() = 0;
};

}  // namespace tessera
