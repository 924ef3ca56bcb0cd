// What members of a group must have in common before they start, and waiting for those that take longer.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>

#include "base/result.h"
#include "comm/communicator.h"

namespace tessera {

struct Fact {
  std::string name;   // "--max-model-len", "model"
  std::string value;  // as a person would read it
};

// Every member calls it with the same facts in the same order, or the first difference is an error that names
// both members (`member` says what they are: "process") and both values, on every member alike.
Result<void> check_agreement(Communicator& group, std::span<const Fact> facts, const std::string& member);

// For a phase that takes each member another time (loading weights): while it lasts, members tell each other
// that they are still at it, so that one that is lost is noticed within the group's deadline.
class Rendezvous {
 public:
  // `group` is used by the rendezvous alone while it lives.
  Rendezvous(Communicator& group, std::string member, std::chrono::milliseconds interval);
  ~Rendezvous();  // without arrive(): as if this member had failed

  // This member is done, in order or not. Waits for the others; fails when one of them did (naming it) or is
  // lost, or with `mine`.
  Result<void> arrive(Result<void> mine);

 private:
  void run();

  Communicator& group_;
  const std::string member_;
  const std::chrono::milliseconds interval_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::optional<Result<void>> mine_;
  Result<void> others_;  // written by the thread, read after it has ended
  std::thread thread_;   // last: starts when all else is there
};

}  // namespace tessera
