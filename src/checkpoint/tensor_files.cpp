#include "checkpoint/tensor_files.h"

#include <algorithm>
#include <optional>
#include <set>
#include <system_error>

#include "checkpoint/shard_index.h"

namespace tessera {
namespace {

Result<std::vector<std::string>> list_safetensors(const std::filesystem::path& folder) {
  std::error_code code;
  std::vector<std::string> names;
  for (std::filesystem::directory_iterator it(folder, code), end; !code && it != end; it.increment(code)) {
    if (it->path().extension() == ".safetensors") names.push_back(it->path().filename().string());
  }
  if (code)
    return Error{ErrorKind::kNotFound, folder.string(), "Cannot list the folder: " + code.message() + "."};
  std::ranges::sort(names);
  return names;
}

Result<std::optional<ShardIndex>> read_index(const std::filesystem::path& folder) {
  if (!std::filesystem::exists(folder / kShardIndexName)) return std::optional<ShardIndex>();
  TS_TRY(const MappedFile map, MappedFile::open(folder / kShardIndexName));
  TS_TRY(ShardIndex index,
         parse_shard_index({reinterpret_cast<const char*>(map.bytes().data()), map.bytes().size()}));
  return std::optional(std::move(index));
}

// Each tensor of the index lies in the file that it says, and no other tensor does.
Result<void> compare_with_index(const TensorFiles& files, const ShardIndex& index) {
  for (const ShardIndex::Item& item : index.items) {
    const auto found = files.tensors().find(item.tensor);
    const bool is_somewhere = found != files.tensors().end();
    if (is_somewhere && files.file(found->second).name == item.file) continue;
    return Error{ErrorKind::kNotFound, std::string(item.file) + ": " + item.tensor,
                 "The tensor is missing: " + std::string(kShardIndexName) + " lists it in this file" +
                     (is_somewhere ? ", but it is in " + files.file(found->second).name + "." : ".")};
  }
  if (index.items.size() == files.tensors().size()) return {};
  std::set<std::string_view> listed;
  for (const ShardIndex::Item& item : index.items) {
    if (listed.insert(item.tensor).second) continue;
    return Error{ErrorKind::kCorrupt, std::string(kShardIndexName),
                 "weight_map lists " + item.tensor + " twice."};
  }
  for (const TensorFile& file : files.files()) {
    for (const TensorEntry& entry : file.header.entries) {
      if (listed.contains(entry.name)) continue;
      return Error{ErrorKind::kMismatch, file.name + ": " + std::string(entry.name),
                   "The tensor is unexpected: " + std::string(kShardIndexName) + " does not list it."};
    }
  }
  return {};
}

}  // namespace

bool TensorFiles::are_in(const std::filesystem::path& folder) {
  const auto names = list_safetensors(folder);
  return std::filesystem::exists(folder / kShardIndexName) || (names.ok() && !names->empty());
}

Result<TensorFiles> TensorFiles::open(const std::filesystem::path& folder) {
  TensorFiles result;
  TS_TRY(std::vector<std::string> names, list_safetensors(folder));
  TS_TRY(const std::optional<ShardIndex> index, read_index(folder));
  if (index) {
    for (const std::string& name : names) {
      if (index->files.contains(name)) continue;
      result.notes_.push_back(name + " is not named by " + std::string(kShardIndexName) + " and is not read");
    }
    names.assign(index->files.begin(), index->files.end());
  }
  if (names.empty()) {
    return Error{ErrorKind::kNotFound, folder.string(),
                 "There is no *.safetensors file in the folder; PyTorch .bin and GGUF files are not read."};
  }

  std::size_t count = 0;
  for (const std::string& name : names) {
    if (index && !std::filesystem::exists(folder / name)) {
      return Error{ErrorKind::kNotFound, name,
                   "The file is named by " + std::string(kShardIndexName) + " but is not in the folder."};
    }
    TensorFile file{.name = name, .map = {}, .header = {}};
    TS_TRY(file.map, MappedFile::open(folder / name));
    TS_TRY(file.header, parse_safetensors(file.map.bytes(), name));
    count += file.header.entries.size();
    result.files_.push_back(std::move(file));
  }

  result.tensors_.reserve(count);
  for (std::size_t f = 0; f < result.files_.size(); ++f) {
    const TensorFile& file = result.files_[f];
    for (std::size_t e = 0; e < file.header.entries.size(); ++e) {
      const std::string_view name = file.header.entries[e].name;
      const auto [at, is_new] = result.tensors_.try_emplace(
          name, Ref{.file = static_cast<std::int32_t>(f), .entry = static_cast<std::int32_t>(e)});
      if (is_new) continue;
      const std::string& first = result.file(at->second).name;
      return Error{
          ErrorKind::kCorrupt, file.name + ": " + std::string(name),
          first == file.name ? "The tensor is in the header twice." : "The tensor is in " + first + " too."};
    }
  }
  if (index) TS_TRY(compare_with_index(result, *index));
  return result;
}

}  // namespace tessera
