// The safetensors files of a folder as one table of tensors: `model.safetensors.index.json` with its shards,
// or every *.safetensors file there is.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/result.h"
#include "checkpoint/mapped_file.h"
#include "checkpoint/safetensors.h"

namespace tessera {

struct TensorFile {
  std::string name;  // within the folder
  MappedFile map;
  SafetensorsHeader header;

  const std::byte* data_of(const TensorEntry& entry) const {
    return map.bytes().data() + header.data_start + entry.begin;
  }
};

// Movable: entries and names stay where they are.
class TensorFiles {
 public:
  struct Ref {
    std::int32_t file = 0;
    std::int32_t entry = 0;
  };

  // Maps the files and reads their headers; every tensor name occurs once and, with an index, where the index
  // says.
  static Result<TensorFiles> open(const std::filesystem::path& folder);
  // Whether there is anything to open: an index, or any *.safetensors file.
  static bool are_in(const std::filesystem::path& folder);

  const std::vector<TensorFile>& files() const { return files_; }
  const std::unordered_map<std::string_view, Ref>& tensors() const { return tensors_; }
  const TensorEntry& entry(Ref ref) const {
    return files_[static_cast<std::size_t>(ref.file)].header.entries[static_cast<std::size_t>(ref.entry)];
  }
  const TensorFile& file(Ref ref) const { return files_[static_cast<std::size_t>(ref.file)]; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  std::vector<TensorFile> files_;
  std::unordered_map<std::string_view, Ref> tensors_;  // names live in the headers
  std::vector<std::string> notes_;
};

}  // namespace tessera
