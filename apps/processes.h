// The processes that mpirun started, as one server: each runs an equal share of the ranks, process 0 plans
// and listens, the others follow it.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "comm/agreement.h"
#include "comm/communicator.h"
#include "comm/message_channel.h"

namespace tessera {

class MpiSession;
struct ServeFlags;

class Processes {
 public:
  // Null when this process is alone. The environment that mpirun sets says whether it is not.
  static Result<std::unique_ptr<Processes>> join();
  // Without finish(): ends all processes, in order where the others come to their end too within 2 s.
  ~Processes();

  int process() const;
  int count() const;
  bool leads() const { return process() == 0; }
  // Processes on this machine, which share its cores.
  int on_this_machine() const { return local_; }
  // This one's place among them, from 0.
  int place_on_machine() const { return place_; }

  // Ranks of each process when there are `ranks` in all, or why they cannot be dealt out evenly.
  Result<int> ranks_each(int ranks) const;

  // What follows is called by every process, in the same order.
  Result<void> check_agreement(std::span<const Fact> facts);
  // The ranks of this process, in a group over all processes.
  Result<std::vector<std::unique_ptr<Communicator>>> communicators(int ranks_each,
                                                                   std::chrono::milliseconds deadline);
  std::unique_ptr<Rendezvous> loading();
  // What each process has, as many bytes from everybody, in order of process. Not while `loading()` lives.
  std::vector<std::byte> gather(std::span<const std::byte> mine);
  std::unique_ptr<MessageSender> sender(std::function<void(const std::string&)> on_lost);  // process 0
  std::unique_ptr<MessageReceiver> receiver();                                             // the others

  // Waits for the others to come to their end too. False: they did not.
  bool finish();

 private:
  Processes() = default;

  std::unique_ptr<MpiSession> session_;
  std::unique_ptr<Communicator> start_;  // a rank a process: agreement and loading
  int local_ = 1;
  int place_ = 0;
};

// What a process other than 0 does for `serve` and `generate`: loads its ranks and runs what process 0 plans.
// The exit status.
int run_follower(const ServeFlags& flags, Processes& processes);

}  // namespace tessera
