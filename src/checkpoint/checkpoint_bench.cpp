// Opening a checkpoint of the size of Kimi-K2.6 (hollow: right headers over sparse files), and reading
// weights.
//
//   build/bench/bin/checkpoint_bench
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <map>
#include <thread>

#include "base/scratch_folder.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/inspect.h"
#include "checkpoint/synthetic_checkpoint.h"

namespace tessera {
namespace {

struct HollowTensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::int64_t bytes;
  std::array<std::int32_t, 2> contents{};  // of a weight_shape
};

// Header over a hole of the right length. The weight_shape tensors lie among the others, a page each, as bad
// as it gets.
void write_hollow(const std::filesystem::path& path, const std::vector<HollowTensor>& tensors) {
  std::string header = "{";
  std::int64_t at = 0;
  for (const HollowTensor& t : tensors) {
    header += (header.size() > 1 ? ",\"" : "\"") + t.name + "\":{\"dtype\":\"" + t.dtype + "\",\"shape\":[";
    for (std::size_t i = 0; i < t.shape.size(); ++i) header += (i ? "," : "") + std::to_string(t.shape[i]);
    header += "],\"data_offsets\":[" + std::to_string(at) + "," + std::to_string(at + t.bytes) + "]}";
    at += t.bytes;
  }
  header += "}";
  while (header.size() % 8 != 0) header += ' ';
  synthetic::write_file(path, synthetic::safetensors(header, ""));
  const auto data_start = static_cast<std::int64_t>(8 + header.size());
  const int file = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  TS_CHECK(file >= 0 && ::ftruncate(file, data_start + at) == 0, path);
  at = data_start;
  for (const HollowTensor& t : tensors) {
    if (t.contents[0] != 0) TS_CHECK(::pwrite(file, t.contents.data(), 8, at) == 8, path);
    at += t.bytes;
  }
  ::close(file);
}

std::vector<HollowTensor> hollow_tensors(const Parameter& p, const std::string& name) {
  const auto rows = p.rows;
  const auto cols = p.cols;
  if (p.module_class == ModuleClass::kRoutedExpert) {
    return {{name + ".weight_packed", "I32", {rows, cols / 8}, rows * cols / 2},
            {name + ".weight_scale", "BF16", {rows, cols / 32}, rows * cols / 16},
            {name + ".weight_shape",
             "I32",
             {2},
             8,
             {static_cast<std::int32_t>(rows), static_cast<std::int32_t>(cols)}}};
  }
  if (!p.has_weight_suffix) return {{name, "F32", {rows}, rows * 4}};
  if (!p.is_matrix()) return {{name + ".weight", "BF16", {rows}, rows * 2}};
  return {{name + ".weight", "BF16", {rows, cols}, rows * cols * 2}};
}

// 64 shards and their index: a layer each, embedding, head, vision part. Returns the number of tensors.
std::size_t write_kimi(const std::filesystem::path& folder) {
  const std::string config_file = std::string(TESSERA_SOURCE_DIR) + "/models/configs/kimi-k2.6.json";
  std::filesystem::copy_file(config_file, folder / "config.json");
  const auto config = read_model_config(config_file);
  TS_CHECK(config.ok());
  std::map<std::string, std::vector<HollowTensor>> shards;
  for (const Parameter& p : parameters_of(*config)) {
    const int shard = p.layer >= 0 ? p.layer : p.module_class == ModuleClass::kHead ? 62 : 61;
    auto& tensors = shards["model-" + std::to_string(shard) + ".safetensors"];
    for (HollowTensor& t : hollow_tensors(p, "language_model." + p.name)) tensors.push_back(std::move(t));
  }
  for (int i = 0; i < 335; ++i) {
    const std::string part = i < 329 ? "vision_tower.t" : "mm_projector.t";
    shards["model-63.safetensors"].push_back(
        {part + std::to_string(i) + ".weight", "BF16", {1152, 1152}, 1152 * 1152 * 2});
  }
  std::size_t count = 0;
  std::string map;
  for (const auto& [name, tensors] : shards) {
    write_hollow(folder / name, tensors);
    count += tensors.size();
    for (const HollowTensor& t : tensors)
      map += (map.empty() ? "\"" : ",\"") + t.name + "\":\"" + name + "\"";
  }
  synthetic::write_file(folder / "model.safetensors.index.json",
                        R"({"metadata":{},"weight_map":{)" + map + "}}");
  return count;
}

void open_kimi_k26(benchmark::State& state) {
  const ScratchFolder folder;
  const std::size_t tensors = write_kimi(folder.path());
  TS_CHECK(tensors == 208'550, tensors);
  for (auto _ : state) {
    auto checkpoint = Checkpoint::open(folder.path());
    TS_CHECK(checkpoint.ok(), checkpoint.error().message());
    benchmark::DoNotOptimize(checkpoint->total_bytes());
  }
  state.counters["tensors"] = static_cast<double>(tensors);
}
BENCHMARK(open_kimi_k26)
    ->Name("open/kimi-k2.6/tensors:208550")
    ->Unit(benchmark::kMillisecond)
    ->Iterations(5)
    ->UseRealTime();

void headers_of_kimi_k26(benchmark::State& state) {
  const ScratchFolder folder;
  write_kimi(folder.path());
  for (auto _ : state) {
    auto files = TensorFiles::open(folder.path());
    TS_CHECK(files.ok(), files.error().message());
    benchmark::DoNotOptimize(files->tensors().size());
  }
}
BENCHMARK(headers_of_kimi_k26)
    ->Name("headers/kimi-k2.6/tensors:208550")
    ->Unit(benchmark::kMillisecond)
    ->Iterations(5)
    ->UseRealTime();

void inspect_config_of_kimi_k26(benchmark::State& state) {
  const auto config = read_model_config(std::string(TESSERA_SOURCE_DIR) + "/models/configs/kimi-k2.6.json");
  for (auto _ : state) benchmark::DoNotOptimize(inspect(*config).bytes);
}
BENCHMARK(inspect_config_of_kimi_k26)->Name("inspect/kimi-k2.6/config")->Unit(benchmark::kMillisecond);

// 512 MiB of weights in 64 pieces, read and added up by threads, as ranks convert weights. cold:1 asks the
// kernel to forget the file first, so that the disk is read. sequential:1 advises the kernel as a checkpoint
// does.
void read_weights(benchmark::State& state) {
  constexpr std::size_t kBytes = std::size_t{512} << 20;
  constexpr std::size_t kPieces = 64;
  const ScratchFolder folder;
  const auto path = folder.path() / "weights";
  {
    std::vector<std::uint64_t> block((std::size_t{16} << 20) / 8);
    std::mt19937_64 random(1);
    std::ofstream file(path, std::ios::binary);
    for (std::size_t at = 0; at < kBytes; at += block.size() * 8) {
      for (std::uint64_t& word : block) word = random();
      file.write(reinterpret_cast<const char*>(block.data()), static_cast<std::streamsize>(block.size() * 8));
    }
  }
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ::fsync(file);
  for (auto _ : state) {
    state.PauseTiming();
    if (state.range(0) != 0) (void)::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
    state.ResumeTiming();
    auto map = MappedFile::open(path);
    TS_CHECK(map.ok());
    if (state.range(2) != 0) advise_sequential(map->bytes());
    std::atomic<std::size_t> next{0};
    std::atomic<std::uint64_t> sum{0};
    {
      std::vector<std::jthread> threads;
      for (std::int64_t t = 0; t < state.range(1); ++t) {
        threads.emplace_back([&] {
          for (std::size_t i = next++; i < kPieces; i = next++) {
            const auto piece = map->bytes().subspan(i * (kBytes / kPieces), kBytes / kPieces);
            std::uint64_t local = 0;
            const auto* words = reinterpret_cast<const std::uint64_t*>(piece.data());
            for (std::size_t w = 0; w < piece.size() / 8; ++w) local += words[w];
            sum += local;
          }
        });
      }
    }
    benchmark::DoNotOptimize(sum.load());
  }
  ::close(file);
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(kBytes));
}
BENCHMARK(read_weights)
    ->Name("read_weights")
    ->ArgNames({"cold", "threads", "sequential"})
    ->ArgsProduct({{0, 1}, {1, 2}, {0, 1}})
    ->Unit(benchmark::kMillisecond)
    ->Iterations(3)
    ->UseRealTime();

}  // namespace
}  // namespace tessera
