#include "doctor/cuda/pair_probe.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

#include "backend/cuda/device.h"

namespace tessera::doctor {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kBytes = std::size_t{64} << 20;
constexpr std::size_t kFewBytes = 16;
constexpr std::chrono::seconds kPatience{5};

void allow(int from, int to) {
  TS_CUDA(cudaSetDevice(from));
  const cudaError_t status = cudaDeviceEnablePeerAccess(to, 0);
  if (status != cudaErrorPeerAccessAlreadyEnabled) TS_CUDA(status);
  (void)cudaGetLastError();
}

cuda::DeviceBytes memory_on(int device) {
  TS_CUDA(cudaSetDevice(device));
  return cuda::allocate_device(kBytes);
}

// False: it does not end.
bool wait_for(cudaStream_t stream) {
  const auto end = Clock::now() + kPatience;
  for (;;) {
    const cudaError_t status = cudaStreamQuery(stream);
    if (status == cudaSuccess) return true;
    if (status != cudaErrorNotReady) TS_CUDA(status);
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

std::vector<std::uint64_t> pattern(int from, int to) {
  std::vector<std::uint64_t> words(kBytes / 8);
  std::uint64_t state = 0x9e3779b97f4a7c15ULL + static_cast<std::uint64_t>(from * 64 + to);
  for (std::uint64_t& word : words) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    word = state;
  }
  return words;
}

}  // namespace

PairFigures probe_pair(int from, int to) {
  PairFigures pair{.from = from, .to = to, .damage = ""};
  int can = 0;
  TS_CUDA(cudaDeviceCanAccessPeer(&can, from, to));
  pair.can_reach = can != 0;
  if (pair.can_reach) {
    allow(from, to);
    allow(to, from);
  }
  cuda::DeviceBytes target = memory_on(to);
  cuda::DeviceBytes source = memory_on(from);  // last: its device is the current one
  cuda::Stream stream = cuda::make_stream();
  const std::vector<std::uint64_t> sent = pattern(from, to);
  TS_CUDA(cudaMemcpy(source.get(), sent.data(), kBytes, cudaMemcpyHostToDevice));
  TS_CUDA(cudaSetDevice(to));
  TS_CUDA(cudaMemset(target.get(), 0xff, kBytes));  // what does not arrive shows
  TS_CUDA(cudaDeviceSynchronize());
  TS_CUDA(cudaSetDevice(from));

  const auto copy = [&](std::size_t bytes) {
    TS_CUDA(cudaMemcpyPeerAsync(target.get(), to, source.get(), from, bytes, stream.get()));
  };
  copy(kBytes);
  if (!wait_for(stream.get())) {
    pair.damage = "nothing arrived within " + std::to_string(kPatience.count()) + " s";
    // Giving memory back would wait for the copy, for ever.
    (void)source.release();
    (void)target.release();
    (void)stream.release();
    return pair;
  }
  std::vector<std::uint64_t> arrived(sent.size());
  TS_CUDA(cudaMemcpy(arrived.data(), target.get(), kBytes, cudaMemcpyDeviceToHost));
  const auto [here, there] = std::ranges::mismatch(sent, arrived);
  if (here != sent.end()) {
    const auto at = static_cast<std::size_t>(here - sent.begin());
    std::size_t wrong = 0;
    for (std::size_t i = at; i < sent.size(); ++i) wrong += sent[i] != arrived[i] ? 1 : 0;
    pair.damage = std::to_string(wrong) + " of " + std::to_string(sent.size()) +
                  " words, the first at byte " + std::to_string(8 * at);
  }

  constexpr int kLargeTurns = 8;
  constexpr int kSmallTurns = 100;
  auto begin = Clock::now();
  for (int i = 0; i < kLargeTurns; ++i) copy(kBytes);
  TS_CUDA(cudaStreamSynchronize(stream.get()));
  pair.gb_s = static_cast<double>(kBytes) * kLargeTurns / 1e9 /
              std::chrono::duration<double>(Clock::now() - begin).count();
  begin = Clock::now();
  for (int i = 0; i < kSmallTurns; ++i) copy(kFewBytes);
  TS_CUDA(cudaStreamSynchronize(stream.get()));
  pair.latency_us = std::chrono::duration<double, std::micro>(Clock::now() - begin).count() / kSmallTurns;
  return pair;
}

}  // namespace tessera::doctor
