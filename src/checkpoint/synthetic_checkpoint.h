// For tests and benchmarks: writes small or hollow model folders, right ones and broken ones.
#pragma once


#include <array>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "checkpoint/parameters.h"

namespace tessera::synthetic {

inline void write_file(const std::filesystem::path& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  TS_CHECK(file.good(), path);
}

// Header length, header, data: whatever they say.
inline std::string safetensors(std::string_view header, std::string_view data) {
  const std::uint64_t length = header.size();
  std::string file(sizeof length, '\0');
  std::memcpy(file.data(), &length, sizeof length);
  return file.append(header).append(data);
}

struct Tensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::string data;
};

inline std::string header_of(const std::vector<Tensor>& tensors, bool pad = true) {
  std::string header = R"({"__metadata__":{"format":"pt"})";
  std::int64_t at = 0;
  for (const Tensor& tensor : tensors) {
    header += ",\"" + tensor.name + "\":{\"dtype\":\"" + tensor.dtype + "\",\"shape\":[";
    for (std::size_t i = 0; i < tensor.shape.size(); ++i)
      header += (i ? "," : "") + std::to_string(tensor.shape[i]);
    const std::int64_t end = at + static_cast<std::int64_t>(tensor.data.size());
    header += "],\"data_offsets\":[" + std::to_string(at) + "," + std::to_string(end) + "]}";
    at = end;
  }
  header += "}";
  while (pad && header.size() % 8 != 0) header += ' ';
  return header;
}

inline std::string file_of(const std::vector<Tensor>& tensors, bool pad = true) {
  std::string data;
  for (const Tensor& tensor : tensors) data += tensor.data;
  return safetensors(header_of(tensors, pad), data);
}

template <class T>
std::string bytes_of_values(const std::vector<T>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)};
}

// Seeded contents in the given format; the same seed gives the same bytes.
inline std::vector<Tensor> matrix_tensors(const std::string& module, WeightFormat format, std::int64_t rows,
                                          std::int64_t cols, unsigned seed) {
  std::mt19937 random(seed);
  const auto small = [&] { return static_cast<float>(random() % 401) / 200.0F - 1.0F; };
  const auto count = static_cast<std::size_t>(rows * cols);
  const auto floats = [&](std::size_t n) {
    std::vector<float> values(n);
    for (float& value : values) value = small();
    return bytes_of_values(values);
  };
  const auto halves = [&](std::size_t n) {
    std::vector<BF16> values(n);
    for (BF16& value : values) value = BF16(small());
    return bytes_of_values(values);
  };
  switch (format) {
    case WeightFormat::kF32:
      return {{module + ".weight", "F32", {rows, cols}, floats(count)}};
    case WeightFormat::kBF16:
      return {{module + ".weight", "BF16", {rows, cols}, halves(count)}};
    case WeightFormat::kFp8Block128: {
      std::vector<F8E4M3> values(count);
      for (F8E4M3& value : values) value = F8E4M3(small() * 100);
      const std::int64_t scale_rows = (rows + 127) / 128;
      const std::int64_t scale_cols = (cols + 127) / 128;
      return {{module + ".weight", "F8_E4M3", {rows, cols}, bytes_of_values(values)},
              {module + ".weight_scale_inv",
               "F32",
               {scale_rows, scale_cols},
               floats(static_cast<std::size_t>(scale_rows * scale_cols))}};
    }
    case WeightFormat::kInt4Group32: {
      std::vector<std::uint32_t> words(count / 8);
      for (std::uint32_t& word : words) word = static_cast<std::uint32_t>(random());
      return {{module + ".weight_packed", "I32", {rows, cols / 8}, bytes_of_values(words)},
              {module + ".weight_scale", "BF16", {rows, cols / 32}, halves(count / 32)},
              {module + ".weight_shape",
               "I32",
               {2},
               bytes_of_values(std::vector<std::int32_t>{static_cast<std::int32_t>(rows),
                                                         static_cast<std::int32_t>(cols)})}};
    }
  }
  return {};
}

using FormatOf = std::function<WeightFormat(const Parameter&)>;
using Spelling = std::function<std::string(const std::string&)>;

// Every tensor of a model; optional parameters are left out.
inline std::vector<Tensor> tensors_of_model(
    const ModelConfig& config, const FormatOf& format_of,
    const Spelling& spell = [](const std::string& name) { return name; }) {
  std::vector<Tensor> tensors;
  unsigned seed = 1;
  for (const Parameter& p : parameters_of(config)) {
    if (p.optional) continue;
    if (p.is_matrix()) {
      const WeightFormat format = p.role == ParameterRole::kLinear ? format_of(p) : WeightFormat::kBF16;
      for (Tensor& tensor : matrix_tensors(spell(p.name), format, p.rows, p.cols, seed++)) {
        tensors.push_back(std::move(tensor));
      }
    } else if (p.role == ParameterRole::kVector) {
      std::vector<float> values(static_cast<std::size_t>(p.rows));
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i) / 16.0F;
      tensors.push_back(
          {spell(p.name) + (p.has_weight_suffix ? ".weight" : ""), "F32", {p.rows}, bytes_of_values(values)});
    } else {
      std::vector<std::int64_t> offsets(static_cast<std::size_t>(p.rows), 1);
      tensors.push_back({spell(p.name), "I64", {p.rows}, bytes_of_values(offsets)});
    }
  }
  return tensors;
}

// A DeepSeek-V3 of a few kilobytes whose sides are no multiples of 128: ragged fp8 blocks everywhere.
inline constexpr std::string_view kSmallConfig = R"({
  "architectures": ["DeepseekV3ForCausalLM"], "model_type": "kimi_k2",
  "vocab_size": 48, "hidden_size": 160, "num_hidden_layers": 3, "num_attention_heads": 2,
  "q_lora_rank": 64, "kv_lora_rank": 128, "qk_nope_head_dim": 32, "qk_rope_head_dim": 32, "v_head_dim": 32,
  "intermediate_size": 192, "moe_intermediate_size": 64, "n_routed_experts": 4, "num_experts_per_tok": 2,
  "n_shared_experts": 1, "first_k_dense_replace": 1, "max_position_embeddings": 512, "rms_norm_eps": 1e-6,
  "eos_token_id": 7)";  // not closed: tests append what they need and a brace

// A model folder in memory, to be spoiled and written.
struct Model {
  std::string config = std::string(kSmallConfig) + "}";
  std::map<std::string, std::vector<Tensor>> files;  // by file name
  bool pad_headers = true;
  bool with_index = false;

  void write(const std::filesystem::path& folder) const {
    write_file(folder / "config.json", config);
    std::string map;
    for (const auto& [name, tensors] : files) {
      write_file(folder / name, file_of(tensors, pad_headers));
      for (const Tensor& tensor : tensors)
        map += (map.empty() ? "" : ",") + ("\"" + tensor.name + "\":\"" + name + "\"");
    }
    if (with_index) {
      write_file(folder / "model.safetensors.index.json",
                 R"({"metadata":{"total_size":1},"weight_map":{)" + map + "}}");
    }
  }
  Tensor& tensor(std::string_view name) {
    for (auto& [file, tensors] : files) {
      for (Tensor& tensor : tensors) {
        if (tensor.name == name) return tensor;
      }
    }
    TS_CHECK(false, name);
    return files.begin()->second.front();
  }
  void remove(std::string_view name) {
    for (auto& [file, tensors] : files)
      std::erase_if(tensors, [&](const Tensor& t) { return t.name == name; });
  }
};

}  // namespace tessera::synthetic
