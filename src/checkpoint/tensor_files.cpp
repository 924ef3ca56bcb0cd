#include "checkpoint/tensor_files.h"

#include <algorithm>
#include <set>
#include <system_error>

#include "checkpoint/json_cursor.h"

namespace tessera {
namespace {

constexpr std::string_view kIndexName = "model.safetensors.index.json";
constexpr std::size_t kMaxIndexBytes = std::size_t{256} << 20;

// model.safetensors.index.json: {"metadata": {"total_size": N}, "weight_map": {"tensor": "file", …}}
struct ShardIndex {
  struct Item {
    std::string tensor;
    std::string_view file;  // in `files`
  };
  std::vector<Item> items;
  std::set<std::string, std::less<>> files;
};

Error bad_index(ErrorKind kind, std::string what) { return {kind, std::string(kIndexName), std::move(what)}; }

bool is_plain_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == name.npos &&
         std::ranges::none_of(name, [](char c) { return static_cast<unsigned char>(c) < 0x20; });
}

Result<std::string> plain(const JsonCursor::String& text) {
  if (!text.escaped) return std::string(text.raw);
  auto unescaped = unescape(text.raw);
  if (!unescaped) return bad_index(ErrorKind::kCorrupt, "A name holds a malformed escape.");
  return *std::move(unescaped);
}

Result<void> parse_weight_map(JsonCursor& cursor, ShardIndex& index) {
  if (!cursor.take('{', "'{' of weight_map") || cursor.take_if('}')) return {};
  do {
    const auto tensor = cursor.take_string("a tensor's name");
    if (!tensor || !cursor.take(':', "':' after a tensor's name")) return {};
    const auto file = cursor.take_string("a file's name");
    if (!file) return {};
    TS_TRY(std::string tensor_name, plain(*tensor));
    auto known = index.files.find(file->raw);
    if (known == index.files.end()) {
      TS_TRY(const std::string file_name, plain(*file));
      if (!is_plain_name(file_name)) {
        return bad_index(
            ErrorKind::kInvalidArgument,
            "Shards must lie in the same folder, but one is named \"" + std::string(file->raw) + "\".");
      }
      known = index.files.insert(file_name).first;
    }
    index.items.push_back({std::move(tensor_name), *known});
  } while (cursor.take_if(','));
  cursor.take('}', "',' or '}' in weight_map");
  return {};
}

Result<ShardIndex> parse_index(std::string_view json) {
  ShardIndex index;
  JsonCursor cursor(json);
  bool has_map = false;
  if (cursor.take('{', "'{'") && !cursor.take_if('}')) {
    do {
      const auto key = cursor.take_string("a key");
      if (!key || !cursor.take(':', "':' after a key")) break;
      if (key->raw == "weight_map" && !has_map) {
        has_map = true;
        TS_TRY(parse_weight_map(cursor, index));
      } else if (!cursor.skip_value()) {
        break;
      }
    } while (cursor.take_if(','));
    cursor.take('}', "',' or '}'");
  }
  if (cursor.failed()) return bad_index(ErrorKind::kCorrupt, "Not valid at " + cursor.problem() + ".");
  if (!cursor.at_end()) return bad_index(ErrorKind::kCorrupt, "There is text after the closing brace.");
  if (!has_map) return bad_index(ErrorKind::kCorrupt, "There is no weight_map.");
  return index;
}

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

}  // namespace

Result<TensorFiles> TensorFiles::open(const std::filesystem::path& folder) {
  TensorFiles result;
  TS_TRY(std::vector<std::string> present, list_safetensors(folder));
  std::vector<std::string> names = present;
  std::optional<ShardIndex> index;
  MappedFile index_map;
  if (std::filesystem::exists(folder / kIndexName)) {
    TS_TRY(index_map, MappedFile::open(folder / kIndexName));
    const auto bytes = index_map.bytes();
    if (bytes.size() > kMaxIndexBytes) {
      return bad_index(ErrorKind::kTooLarge, "The index has " + std::to_string(bytes.size()) +
                                                 " bytes, over the limit of " +
                                                 std::to_string(kMaxIndexBytes) + ".");
    }
    TS_TRY(index, parse_index({reinterpret_cast<const char*>(bytes.data()), bytes.size()}));
    names.assign(index->files.begin(), index->files.end());
    for (const std::string& name : present) {
      if (!index->files.contains(name)) {
        result.notes_.push_back(name + " is not named by " + std::string(kIndexName) + " and is not read");
      }
    }
  }
  if (names.empty()) {
    return Error{ErrorKind::kNotFound, folder.string(),
                 "There is no *.safetensors file in the folder; PyTorch .bin and GGUF files are not read."};
  }

  std::size_t count = 0;
  for (const std::string& name : names) {
    if (index && !std::filesystem::exists(folder / name)) {
      return Error{ErrorKind::kNotFound, name,
                   "The file is named by " + std::string(kIndexName) + " but is not in the folder."};
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

  if (index) {
    for (const ShardIndex::Item& item : index->items) {
      const auto found = result.tensors_.find(item.tensor);
      if (found != result.tensors_.end() && result.file(found->second).name == item.file) continue;
      return Error{
          ErrorKind::kNotFound, std::string(item.file) + ": " + item.tensor,
          "The tensor is missing: " + std::string(kIndexName) + " lists it in this file" +
              (found == result.tensors_.end() ? "."
                                              : ", but it is in " + result.file(found->second).name + ".")};
    }
    if (index->items.size() != result.tensors_.size()) {
      std::set<std::string_view> listed;
      for (const ShardIndex::Item& item : index->items) {
        if (!listed.insert(item.tensor).second) {
          return bad_index(ErrorKind::kCorrupt, "weight_map lists " + item.tensor + " twice.");
        }
      }
      for (const TensorFile& file : result.files_) {
        for (const TensorEntry& entry : file.header.entries) {
          if (listed.contains(entry.name)) continue;
          return Error{ErrorKind::kMismatch, file.name + ": " + std::string(entry.name),
                       "The tensor is unexpected: " + std::string(kIndexName) + " does not list it."};
        }
      }
    }
  }
  return result;
}

}  // namespace tessera
