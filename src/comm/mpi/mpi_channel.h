// MessageSender and MessageReceiver between the processes that mpirun started.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "comm/message_channel.h"
#include "comm/mpi/mpi_session.h"

namespace tessera {

struct MpiChannelOptions {
  std::string name = "plans";
  std::chrono::milliseconds heartbeat{1'000};  // between two heartbeats while nothing is sent
  std::chrono::milliseconds patience{15'000};  // without a sign of life before a process is lost
  // Process 0: called once, on the heartbeat's thread, when a process is lost while nothing is sent.
  std::function<void(const std::string& message)> on_lost;
};

// Every process calls its own, in the same order as the making of all world groups. `session` outlives them.
std::unique_ptr<MessageSender> make_mpi_sender(MpiSession& session, MpiChannelOptions options);
std::unique_ptr<MessageReceiver> make_mpi_receiver(MpiSession& session, MpiChannelOptions options);

}  // namespace tessera
