#include "doctor/host_probe.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "bench/step/ceilings.h"
#include "comm/thread_communicator.h"

namespace tessera::doctor {

void probe_host(Measured& measured) {
  const int threads = usable_cores();
  const auto backend = make_cpu_backend({.threads = threads});
  const bench::Ceilings ceilings = bench::measure_ceilings(*backend, threads);
  measured.cpu_read_gb_s = ceilings.read_gb_s;
  measured.cpu_tflop_s = ceilings.tflop_s;
}

void probe_thread_sums(int ranks, Measured& measured) {
  constexpr std::chrono::seconds kDeadline{60};
  auto groups = make_thread_communicators(ranks, "doctor", kDeadline);
  std::vector<AllReduceFigures> figures;  // rank 0's
  const auto run = [&figures](Communicator& group) {
    std::vector<float> values(kMostSum / sizeof(float), 1.0F);
    for (std::int64_t bytes = kLeastSum; bytes <= kMostSum; bytes *= 2) {
      const int turns = bytes <= (64 << 10) ? 50 : 5;
      std::array<double, 3> times{};
      for (double& one : times) {
        group.barrier();
        const auto begin = std::chrono::steady_clock::now();
        for (int i = 0; i < turns; ++i) group.all_reduce(values.data(), DType::kF32, bytes / 4);
        one = std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count() /
              turns;
      }
      std::ranges::sort(times);
      if (group.rank() == 0) figures.push_back({"host threads", bytes, times[1]});
    }
  };
  {
    std::vector<std::jthread> threads;
    for (const auto& group : groups) threads.emplace_back([&run, &group] { run(*group); });
  }
  measured.all_reduces.insert(measured.all_reduces.end(), figures.begin(), figures.end());
}

}  // namespace tessera::doctor
