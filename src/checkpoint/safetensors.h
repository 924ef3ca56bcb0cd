// The header of a safetensors file: an 8-byte little-endian length, that many bytes of JSON, then the data.
//
//   {"__metadata__": {"format": "pt"}, "model.norm.weight": {"dtype": "BF16", "shape": [256],
//    "data_offsets": [0, 512]}, …}
//
// Parsed by hand: a shard of a large model lists thousands of tensors, and the grammar is small and strict.
// What is checked: length, syntax, keys, number ranges, that shape times dtype is the offsets' distance, that
// the tensors fill the data section without gap or overlap, and that the file holds all of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "tensor/dtype.h"

namespace tessera {

constexpr int kMaxTensorRank = 8;
constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;  // bytes; the limit of the format's own library

struct TensorEntry {
  std::string_view name;
  std::string_view stored_dtype;  // as written: "BF16"
  std::optional<DType> dtype;     // nothing for a type we only recognise (F64, U16, F8_E5M2, …)
  std::uint8_t rank = 0;
  std::int64_t shape[kMaxTensorRank] = {};
  std::int64_t begin = 0;  // bytes from the start of the data section
  std::int64_t end = 0;

  std::span<const std::int64_t> dims() const { return {shape, rank}; }
  std::int64_t bytes() const { return end - begin; }
};
std::string shape_text(std::span<const std::int64_t> dims);  // "[576, 256]"

struct SafetensorsHeader {
  std::vector<TensorEntry> entries;   // in the file's order of data; names point into the file or `unescaped`
  std::deque<std::string> unescaped;  // names that were written with backslashes
  std::int64_t data_start = 0;        // bytes from the start of the file
};

// `file` is the whole file (only its header is read) and outlives the result; `where` names it in errors.
Result<SafetensorsHeader> parse_safetensors(std::span<const std::byte> file, std::string_view where);

}  // namespace tessera
