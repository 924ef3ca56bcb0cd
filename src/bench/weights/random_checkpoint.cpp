#include "bench/weights/random_checkpoint.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "bench/step/random_weights.h"
#include "checkpoint/checkpoint.h"

namespace tessera::bench {
namespace {

constexpr std::int64_t kPoolBytes = std::int64_t{64} << 20;
constexpr std::int64_t kFileBytes = 4'000'000'000;

struct FileTensor {
  std::string name;
  const char* dtype;
  std::vector<std::int64_t> shape;
  std::int64_t bytes = 0;
};

std::vector<FileTensor> tensors_of(const BoundParameter& bound, const std::string& prefix) {
  const Parameter& p = bound.parameter;
  const std::string name = prefix + p.name;
  if (!p.is_matrix()) return {{name + (p.has_weight_suffix ? ".weight" : ""), "F32", {p.rows}, p.rows * 4}};
  switch (bound.weight.format) {
    case WeightFormat::kF32:
      return {{name + ".weight", "F32", {p.rows, p.cols}, p.rows * p.cols * 4}};
    case WeightFormat::kBF16:
      return {{name + ".weight", "BF16", {p.rows, p.cols}, p.rows * p.cols * 2}};
    case WeightFormat::kFp8Block128: {
      const std::int64_t rows = (p.rows + 127) / 128;
      const std::int64_t cols = (p.cols + 127) / 128;
      return {{name + ".weight", "F8_E4M3", {p.rows, p.cols}, p.rows * p.cols},
              {name + ".weight_scale_inv", "F32", {rows, cols}, rows * cols * 4}};
    }
    case WeightFormat::kInt4Group32:
      return {{name + ".weight_packed", "I32", {p.rows, p.cols / 8}, p.rows * p.cols / 2},
              {name + ".weight_scale", "BF16", {p.rows, p.cols / 32}, p.rows * p.cols / 16},
              {name + ".weight_shape", "I32", {p.rows, p.cols}, 8}};  // its values; its shape is [2]
  }
  return {};
}

bool is_shape(const FileTensor& tensor) { return tensor.name.ends_with(".weight_shape"); }

void write_file(const std::filesystem::path& path, std::span<const FileTensor> tensors,
                std::span<const std::byte> pool) {
  nlohmann::ordered_json header;
  std::int64_t at = 0;
  for (const FileTensor& tensor : tensors) {
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", is_shape(tensor) ? std::vector<std::int64_t>{2} : tensor.shape},
                           {"data_offsets", {at, at + tensor.bytes}}};
    at += tensor.bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + 63) / 64 * 64 - 8 + 64, ' ');  // with its length: tensors begin at a line
  const std::uint64_t length = text.size();
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(&length), sizeof length);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  std::int64_t from = 0;  // moves on by an odd number of pages, so that tensors differ
  for (const FileTensor& tensor : tensors) {
    if (is_shape(tensor)) {
      const std::int32_t values[2] = {static_cast<std::int32_t>(tensor.shape[0]),
                                      static_cast<std::int32_t>(tensor.shape[1])};
      file.write(reinterpret_cast<const char*>(values), sizeof values);
      continue;
    }
    for (std::int64_t left = tensor.bytes; left > 0;) {
      const std::int64_t now = std::min(left, kPoolBytes - from);
      file.write(reinterpret_cast<const char*>(pool.data()) + from, now);
      left -= now;
      from = (from + 4096 * 37) % kPoolBytes;
    }
  }
}

}  // namespace

Result<std::int64_t> write_random_checkpoint(const RandomCheckpoint& what) {
  std::filesystem::create_directories(what.folder);
  nlohmann::ordered_json config;
  std::ifstream(what.config) >> config;
  const bool is_wrapped = config.contains("text_config");
  nlohmann::ordered_json& text = is_wrapped ? config["text_config"] : config;
  for (const auto& [key, value] : what.other) text[key] = value;
  std::ofstream(what.folder / "config.json") << config.dump(2);
  TS_TRY(const ModelConfig model, read_model_config(what.folder));
  TS_TRY(const Checkpoint outline, Checkpoint::outline(model));
  RandomBytes random;
  const std::vector<std::byte> pool = random.words(kPoolBytes);

  std::vector<FileTensor> tensors;
  std::int64_t in_file = 0;
  std::int64_t all = 0;
  int files = 0;
  const auto flush = [&] {
    if (!tensors.empty())
      write_file(what.folder / ("model-" + std::to_string(++files) + ".safetensors"), tensors, pool);
    all += in_file;
    in_file = 0;
    tensors.clear();
  };
  for (const BoundParameter& bound : outline.binding().parameters) {
    for (FileTensor& tensor : tensors_of(bound, is_wrapped ? "language_model." : "")) {
      if (in_file > 0 && in_file + tensor.bytes > kFileBytes) flush();
      in_file += tensor.bytes;
      tensors.push_back(std::move(tensor));
    }
  }
  flush();
  return all;
}

}  // namespace tessera::bench
