// tessera-weights-bench: a checkpoint from disk, or from the page cache, onto one GPU.
//
//   tessera-weights-bench write FOLDER models/configs/kimi-k2.6.json num_hidden_layers=2 n_routed_experts=128
//   tessera-weights-bench load FOLDER THREADS [cold]
//   tessera-weights-bench copy                          (the bus alone: pinned memory to the device)
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "bench/weights/pinned_copy.h"
#include "bench/weights/random_checkpoint.h"
#include "checkpoint/load_progress.h"
#include "model/model.h"

namespace tessera::bench {
namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

int fail(const Error& error) {
  std::fprintf(stderr, "%s\n", error.message().c_str());
  return 1;
}

int write(const std::vector<std::string>& arguments) {
  RandomCheckpoint what{.config = arguments[2], .other = {}, .folder = arguments[1]};
  for (std::size_t i = 3; i < arguments.size(); ++i) {
    const std::size_t equals = arguments[i].find('=');
    what.other[arguments[i].substr(0, equals)] = std::atoll(arguments[i].c_str() + equals + 1);
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto bytes = write_random_checkpoint(what);
  if (!bytes) return fail(bytes.error());
  std::printf("wrote %.2f GB in %.1f s\n", static_cast<double>(*bytes) / 1e9, seconds_since(begin));
  return 0;
}

// The page cache forgets the folder's files.
void evict(const std::filesystem::path& folder) {
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const int file = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) continue;
    (void)::fdatasync(file);
    (void)::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    ::close(file);
  }
}

int load(const std::string& folder, int threads, bool cold) {
  auto backend = make_cuda_backend({.load_threads = threads});
  if (!backend) return fail(backend.error());
  if (cold) evict(folder);
  const auto begin = std::chrono::steady_clock::now();
  const auto checkpoint = Checkpoint::open(folder);
  if (!checkpoint) return fail(checkpoint.error());
  const double opened = seconds_since(begin);
  LoadProgress progress({.total_bytes = checkpoint->total_bytes(), .clock = {}, .sink = {}});
  double read = 0;  // when the last byte was
  const auto model = load_model(
      *checkpoint, **backend,
      {.limits = {.tokens = 1024, .decode_tokens = 8, .seqs = 8, .logit_rows = 8, .positions = 4096},
       .on_bytes = [&](std::int64_t bytes) {
         progress.add(bytes);
         read = seconds_since(begin);
       }});
  if (!model) return fail(model.error());
  (*backend)->synchronise();
  const double ready = seconds_since(begin);
  const double gigabytes = static_cast<double>(progress.done_bytes()) / 1e9;
  std::printf("%-4s %2d threads: %.2f GB, opened %.2f s, read %.2f s, ready %.2f s, %.2f GB/s\n",
              cold ? "cold" : "warm", threads, gigabytes, opened, read, ready, gigabytes / ready);
  return 0;
}

int run(const std::vector<std::string>& arguments) {
  const std::string_view verb = arguments.empty() ? "" : arguments[0];
  if (verb == "write" && arguments.size() >= 3) return write(arguments);
  if (verb == "load" && arguments.size() >= 3)
    return load(arguments[1], std::max(1, std::atoi(arguments[2].c_str())), arguments.size() > 3);
  if (verb == "copy") {
    std::printf("pinned memory to the device: %.1f GB/s\n", pinned_copy_gb_s(0));
    return 0;
  }
  std::fprintf(stderr, "tessera-weights-bench write|load|copy; the head of its source says how\n");
  return 2;
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  try {
    return tessera::bench::run({argv + 1, argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
