#include "checkpoint/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "base/json_string.h"
#include "checkpoint/json_cursor.h"

namespace tessera {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are used as they lie in the file");

struct StoredType {
  std::string_view name;
  std::int64_t bits;
  std::optional<DType> dtype;
};
constexpr StoredType kStoredTypes[] = {
    {"BF16", 16, DType::kBF16},
    {"F32", 32, DType::kF32},
    {"I32", 32, DType::kI32},
    {"F8_E4M3", 8, DType::kF8E4M3},
    {"F16", 16, DType::kF16},
    {"I64", 64, DType::kI64},
    {"U8", 8, DType::kU8},
    {"BOOL", 8, DType::kBool},
    {"I8", 8, std::nullopt},
    {"I16", 16, std::nullopt},
    {"U16", 16, std::nullopt},
    {"U32", 32, std::nullopt},
    {"U64", 64, std::nullopt},
    {"F64", 64, std::nullopt},
    {"F8_E5M2", 8, std::nullopt},
    {"F8_E8M0", 8, std::nullopt},
    {"F4", 4, std::nullopt},
    {"F6_E2M3", 6, std::nullopt},
    {"F6_E3M2", 6, std::nullopt},
    {"C64", 64, std::nullopt},
    {"F8_E4M3FNUZ", 8, std::nullopt},
    {"F8_E5M2FNUZ", 8, std::nullopt},
};

const StoredType* find_type(std::string_view name) {
  for (const StoredType& type : kStoredTypes) {
    if (type.name == name) return &type;
  }
  return nullptr;
}

// A name is shown in one-line messages and compared byte by byte, so control characters are refused.
bool is_printable(std::string_view name) {
  return std::ranges::none_of(name, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
}

class Parser {
 public:
  Parser(std::string_view json, std::int64_t data_bytes, std::string_view where)
      : cursor_(json), data_bytes_(data_bytes), where_(where) {}

  Result<SafetensorsHeader> run() {
    bool has_metadata = false;
    if (cursor_.take('{', "'{' at the start of the header") && !cursor_.take_if('}')) {
      do {
        const auto key = cursor_.take_string("a tensor's name in quotes");
        if (!key || !cursor_.take(':', "':' after a tensor's name")) break;
        if (key->raw == "__metadata__") {
          if (std::exchange(has_metadata, true)) {
            return Error{ErrorKind::kCorrupt, std::string(where_), "The header has __metadata__ twice."};
          }
          if (!metadata()) break;
        } else {
          TS_TRY(const std::string_view name, name_from(*key));
          TS_TRY(entry(name));
          if (cursor_.failed()) break;
        }
      } while (cursor_.take_if(','));
      if (!cursor_.failed()) cursor_.take('}', "',' or '}' after a tensor");
    }
    if (!cursor_.failed() && !cursor_.at_end()) cursor_.fail("text after the header's closing brace");
    if (cursor_.failed()) return bad_syntax();
    return std::move(header_);
  }

 private:
  Error bad_syntax() const {
    return {ErrorKind::kCorrupt, std::string(where_),
            "The header is not valid at " + cursor_.problem() + "."};
  }
  Error bad_tensor(std::string_view name, ErrorKind kind, std::string what) const {
    return {kind, std::string(where_) + ": " + std::string(name), std::move(what)};
  }

  bool metadata() {  // an object of strings
    if (!cursor_.take('{', "'{' of __metadata__")) return false;
    if (cursor_.take_if('}')) return true;
    do {
      if (!cursor_.take_string("a key of __metadata__") || !cursor_.take(':', "':' after a key"))
        return false;
      if (!cursor_.take_string("a string as value in __metadata__")) return false;
    } while (cursor_.take_if(','));
    return cursor_.take('}', "',' or '}' in __metadata__");
  }

  Result<std::string_view> name_from(const JsonCursor::String& key) {
    std::string_view name = key.raw;
    if (key.escaped) {
      auto plain = json_unescaped(key.raw);
      if (!plain) {
        return Error{ErrorKind::kCorrupt, std::string(where_), "A tensor's name holds a malformed escape."};
      }
      name = header_.unescaped.emplace_back(*std::move(plain));
    }
    if (name.empty() || !is_printable(name)) {
      return Error{
          ErrorKind::kCorrupt, std::string(where_),
          name.empty() ? "A tensor has an empty name." : "A tensor's name holds a control character."};
    }
    return name;
  }

  // {"dtype": …, "shape": […], "data_offsets": [begin, end]}, keys in any order.
  Result<void> entry(std::string_view name) {
    TensorEntry entry;
    entry.name = name;
    bool has_dtype = false;
    bool has_shape = false;
    bool has_offsets = false;
    if (!cursor_.take('{', "'{' of a tensor")) return {};
    do {
      const auto key = cursor_.take_string("\"dtype\", \"shape\" or \"data_offsets\"");
      if (!key || !cursor_.take(':', "':' after a key")) return {};
      bool* seen = key->raw == "dtype"          ? &has_dtype
                   : key->raw == "shape"        ? &has_shape
                   : key->raw == "data_offsets" ? &has_offsets
                                                : nullptr;
      if (seen == nullptr || *seen) {
        cursor_.fail(seen == nullptr ? "a tensor has a key other than dtype, shape and data_offsets"
                                     : "a tensor has one key twice");
        return {};
      }
      *seen = true;
      if (seen == &has_dtype) {
        const auto type = cursor_.take_string("a dtype in quotes");
        if (!type) return {};
        entry.stored_dtype = type->raw;
      } else if (seen == &has_shape) {
        if (!shape(entry)) return {};
      } else {
        if (!offsets(entry)) return {};
      }
    } while (cursor_.take_if(','));
    if (!cursor_.take('}', "',' or '}' in a tensor")) return {};
    if (!has_dtype || !has_shape || !has_offsets) {
      return bad_tensor(name, ErrorKind::kCorrupt,
                        "The header gives no dtype, shape or data_offsets for it.");
    }
    TS_TRY(check(entry));
    header_.entries.push_back(entry);
    return {};
  }

  bool shape(TensorEntry& entry) {
    if (!cursor_.take('[', "'[' of a shape")) return false;
    if (cursor_.take_if(']')) return true;
    do {
      if (entry.rank == kMaxTensorRank) return cursor_.fail("a shape of more than 8 dimensions");
      const auto dim = cursor_.take_integer("a dimension");
      if (!dim) return false;
      entry.shape[entry.rank++] = *dim;
    } while (cursor_.take_if(','));
    return cursor_.take(']', "',' or ']' in a shape");
  }

  bool offsets(TensorEntry& entry) {
    if (!cursor_.take('[', "'[' of data_offsets")) return false;
    const auto begin = cursor_.take_integer("where the tensor begins");
    if (!begin || !cursor_.take(',', "',' between the two offsets")) return false;
    const auto end = cursor_.take_integer("where the tensor ends");
    if (!end) return false;
    entry.begin = *begin;
    entry.end = *end;
    return cursor_.take(']', "']' after two offsets");
  }

  Result<void> check(TensorEntry& entry) const {
    const StoredType* type = find_type(entry.stored_dtype);
    if (type == nullptr) {
      // Foreign text: shown only when it cannot break the line.
      return bad_tensor(entry.name, ErrorKind::kUnsupported,
                        entry.stored_dtype.size() <= 20 && is_printable(entry.stored_dtype)
                            ? "The dtype " + std::string(entry.stored_dtype) + " is not known."
                            : "The dtype is not known.");
    }
    entry.dtype = type->dtype;
    std::int64_t bits = type->bits;
    for (const std::int64_t dim : entry.dims()) {
      if (__builtin_mul_overflow(bits, dim, &bits)) {
        return bad_tensor(entry.name, ErrorKind::kCorrupt,
                          "The shape " + shape_text(entry.dims()) + " has more elements than any file.");
      }
    }
    if (entry.begin > entry.end) {
      return bad_tensor(entry.name, ErrorKind::kCorrupt,
                        "data_offsets end (" + std::to_string(entry.end) + ") before they begin (" +
                            std::to_string(entry.begin) + ").");
    }
    if (bits % 8 != 0 || bits / 8 != entry.bytes()) {
      return bad_tensor(entry.name, ErrorKind::kCorrupt,
                        "Shape " + shape_text(entry.dims()) + " of " + std::string(type->name) + " is " +
                            std::to_string(bits / 8) + " bytes, but data_offsets span " +
                            std::to_string(entry.bytes()) + ".");
    }
    if (entry.end > data_bytes_) {
      return bad_tensor(entry.name, ErrorKind::kCorrupt,
                        "Its data ends at byte " + std::to_string(entry.end) +
                            " of the data section, but the file holds " + std::to_string(data_bytes_) +
                            ": the file is truncated.");
    }
    return {};
  }

  JsonCursor cursor_;
  std::int64_t data_bytes_;
  std::string_view where_;
  SafetensorsHeader header_;
};

// The tensors, in the order of their data, follow each other without gap or overlap up to the end.
Result<void> check_layout(std::vector<TensorEntry>& entries, std::int64_t data_bytes,
                          std::string_view where) {
  const auto earlier = [](const TensorEntry& a, const TensorEntry& b) {
    return a.begin != b.begin ? a.begin < b.begin : a.end < b.end;
  };
  if (!std::ranges::is_sorted(entries, earlier)) std::ranges::sort(entries, earlier);
  std::int64_t at = 0;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const TensorEntry& entry = entries[i];
    if (entry.begin != at) {
      const std::string previous = i == 0 ? "the start" : std::string(entries[i - 1].name);
      return Error{ErrorKind::kCorrupt, std::string(where) + ": " + std::string(entry.name),
                   entry.begin < at ? "Its data overlaps that of " + previous + "."
                                    : "There are " + std::to_string(entry.begin - at) +
                                          " bytes of no tensor between " + previous + " and it."};
    }
    at = entry.end;
  }
  if (at != data_bytes) {
    return Error{ErrorKind::kCorrupt, std::string(where),
                 "The tensors end at byte " + std::to_string(at) +
                     " of the data section, but the file goes on to " + std::to_string(data_bytes) + "."};
  }
  return {};
}

}  // namespace

std::string shape_text(std::span<const std::int64_t> dims) {
  std::string text = "[";
  for (const std::int64_t dim : dims) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(dim);
  }
  return text + "]";
}

Result<SafetensorsHeader> parse_safetensors(std::span<const std::byte> file, std::string_view where) {
  const std::string_view text(reinterpret_cast<const char*>(file.data()), file.size());
  if (text.starts_with("version https://git-lfs")) {
    return Error{ErrorKind::kCorrupt, std::string(where),
                 "This is a Git LFS pointer, not the weights; run `git lfs pull` in the folder."};
  }
  if (file.size() < 8) {
    return Error{ErrorKind::kCorrupt, std::string(where),
                 "The file has " + std::to_string(file.size()) +
                     " bytes, too few for the 8 of a header length: it is truncated or no safetensors file."};
  }
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), sizeof length);
  if (length > kMaxSafetensorsHeader) {
    return Error{ErrorKind::kTooLarge, std::string(where),
                 "The header claims " + std::to_string(length) + " bytes, over the limit of " +
                     std::to_string(kMaxSafetensorsHeader) + "; this is probably no safetensors file."};
  }
  if (length > file.size() - 8) {
    return Error{ErrorKind::kCorrupt, std::string(where),
                 "The header claims " + std::to_string(length) + " bytes, but only " +
                     std::to_string(file.size() - 8) + " follow: the file is truncated."};
  }
  const auto data_bytes = static_cast<std::int64_t>(file.size() - 8 - length);
  TS_TRY(SafetensorsHeader header, Parser(text.substr(8, length), data_bytes, where).run());
  TS_TRY(check_layout(header.entries, data_bytes, where));
  header.data_start = static_cast<std::int64_t>(8 + length);
  return header;
}

}  // namespace tessera
