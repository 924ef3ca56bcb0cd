#include "checkpoint/shard_index.h"

#include <algorithm>
#include <utility>

#include "base/json_string.h"
#include "checkpoint/json_cursor.h"

namespace tessera {
namespace {

Error bad_index(ErrorKind kind, std::string what) {
  return {kind, std::string(kShardIndexName), std::move(what)};
}

// Text that may stand in a one-line message.
bool is_printable(std::string_view text) {
  return std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

bool is_plain_file_name(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == name.npos;
}

Result<std::string> plain(const JsonCursor::String& text) {
  if (!text.escaped) return std::string(text.raw);
  auto unescaped = json_unescaped(text.raw);
  if (!unescaped || !is_printable(*unescaped)) {
    return bad_index(ErrorKind::kCorrupt, "A name holds a malformed escape or a control character.");
  }
  return *std::move(unescaped);
}

// Syntax errors stay with the cursor.
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
      if (!is_plain_file_name(file_name)) {
        return bad_index(ErrorKind::kInvalidArgument,
                         "Shards must lie in the same folder, but one is named \"" + file_name + "\".");
      }
      known = index.files.insert(file_name).first;
    }
    index.items.push_back({std::move(tensor_name), *known});
  } while (cursor.take_if(','));
  cursor.take('}', "',' or '}' in weight_map");
  return {};
}

}  // namespace

Result<ShardIndex> parse_shard_index(std::string_view json) {
  if (json.size() > kMaxShardIndex) {
    return bad_index(ErrorKind::kTooLarge, "The index has " + std::to_string(json.size()) +
                                               " bytes, over the limit of " + std::to_string(kMaxShardIndex) +
                                               ".");
  }
  ShardIndex index;
  JsonCursor cursor(json);
  bool has_map = false;
  if (cursor.take('{', "'{'") && !cursor.take_if('}')) {
    do {
      const auto key = cursor.take_string("a key");
      if (!key || !cursor.take(':', "':' after a key")) break;
      if (key->raw == "weight_map") {
        if (std::exchange(has_map, true)) return bad_index(ErrorKind::kCorrupt, "weight_map is there twice.");
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

}  // namespace tessera
