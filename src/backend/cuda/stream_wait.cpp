#include "backend/cuda/stream_wait.h"

#include <algorithm>
#include <thread>

#include "backend/cuda/device.h"
#include "comm/communicator.h"

namespace tessera::cuda {
namespace {

// A step takes milliseconds and ends to the microsecond, so the first stretch spins.
constexpr std::chrono::milliseconds kSpin{20};
constexpr std::chrono::microseconds kPause{50};
constexpr std::chrono::milliseconds kBetweenQuestions{10};

}  // namespace

void StreamWait::leave(Party& party) {
  std::erase(parties_, &party);
  last_ = nullptr;
}

void StreamWait::wait() {
  if (parties_.empty() && patience_.count() == 0) {
    TS_CUDA(cudaStreamSynchronize(stream_));
    return;
  }
  const auto begin = std::chrono::steady_clock::now();
  auto question = begin + kBetweenQuestions;
  for (;;) {
    const cudaError_t status = cudaStreamQuery(stream_);
    if (status == cudaSuccess) return;
    if (status != cudaErrorNotReady) TS_CUDA(status);
    (void)cudaGetLastError();  // "not ready" is no error that a later check of a launch should find
    const auto now = std::chrono::steady_clock::now();
    if (now >= question) {
      question = now + kBetweenQuestions;
      for (Party* party : parties_) {
        if (const auto trouble = party->trouble()) give_up(*trouble);
      }
      if (patience_.count() > 0 && now - begin > patience_) {
        give_up((last_ != nullptr ? *last_ : std::string("a recorded step")) +
                ": cuda:" + std::to_string(device_) + " did not finish within " +
                std::to_string(patience_.count()) + " ms");
      }
    }
    if (now - begin > kSpin) std::this_thread::sleep_for(kPause);
  }
}

void StreamWait::give_up(const std::string& why) {
  // First the collectives: until they have ended, freeing memory waits for them.
  for (Party* party : parties_) party->end_collectives();
  throw CommError(why);
}

}  // namespace tessera::cuda
