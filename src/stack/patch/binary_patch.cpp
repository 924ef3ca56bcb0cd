#include "stack/patch/binary_patch.h"

#include <zlib.h>

#include <array>
#include <optional>

namespace tessera::stack {
namespace {

constexpr std::string_view kAlphabet =
    "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~";

Error damaged(const char* what) { return Error{ErrorKind::kCorrupt, "binary patch", what}; }

constexpr std::array<std::int8_t, 256> kValues = [] {
  std::array<std::int8_t, 256> out{};
  for (auto& value : out) value = -1;
  for (std::size_t i = 0; i < kAlphabet.size(); ++i)
    out[static_cast<unsigned char>(kAlphabet[i])] = static_cast<std::int8_t>(i);
  return out;
}();

}  // namespace

Result<std::string> decode_base85(std::string_view text, std::size_t bytes) {
  if (text.size() != (bytes + 3) / 4 * 5)
    return damaged("A line of it has not as many characters as its length says.");
  std::string out;
  for (std::size_t i = 0; i < text.size(); i += 5) {
    std::uint64_t value = 0;
    for (std::size_t j = i; j < i + 5; ++j) {
      const int digit = kValues[static_cast<unsigned char>(text[j])];
      if (digit < 0) return damaged("A line of it holds a character that is not of base 85.");
      value = value * 85 + static_cast<std::uint64_t>(digit);
    }
    if (value > 0xFFFFFFFFULL) return damaged("A group of it is larger than four bytes.");
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>((value >> shift) & 0xFF);
  }
  out.resize(bytes);
  return out;
}

std::string encode_base85(std::string_view bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 4) {
    std::uint64_t value = 0;
    for (std::size_t j = i; j < i + 4; ++j) {
      value = value << 8 | (j < bytes.size() ? static_cast<unsigned char>(bytes[j]) : 0U);
    }
    std::array<char, 5> group;
    for (std::size_t j = 5; j-- > 0; value /= 85) group[j] = kAlphabet[value % 85];
    out.append(group.data(), group.size());
  }
  return out;
}

Result<std::string> inflate_exactly(std::string_view packed, std::uint64_t size) {
  z_stream stream{};
  if (inflateInit(&stream) != Z_OK) return Error{ErrorKind::kInternal, "zlib", "It could not be started."};
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string out;
  std::array<char, 1 << 14> buffer;
  int status = Z_OK;
  while (status == Z_OK && out.size() <= size) {
    stream.next_out = reinterpret_cast<Bytef*>(buffer.data());
    stream.avail_out = buffer.size();
    status = inflate(&stream, Z_NO_FLUSH);
    const std::size_t got = buffer.size() - stream.avail_out;
    out.append(buffer.data(), got);
    if (status == Z_BUF_ERROR || (status == Z_OK && got == 0)) break;
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END || out.size() != size)
    return damaged("It does not unpack to the size that it states.");
  return out;
}

std::string deflate(std::string_view bytes) {
  uLongf size = compressBound(static_cast<uLong>(bytes.size()));
  std::string out(size, '\0');
  compress2(reinterpret_cast<Bytef*>(out.data()), &size, reinterpret_cast<const Bytef*>(bytes.data()),
            static_cast<uLong>(bytes.size()), Z_DEFAULT_COMPRESSION);
  out.resize(size);
  return out;
}

Result<std::string> apply_delta(std::string_view source, std::string_view delta, std::uint64_t limit) {
  const auto take = [&]() -> std::optional<std::uint8_t> {
    if (delta.empty()) return std::nullopt;
    const auto byte = static_cast<std::uint8_t>(delta[0]);
    delta.remove_prefix(1);
    return byte;
  };
  const auto take_size = [&]() -> std::optional<std::uint64_t> {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 63; shift += 7) {
      const auto byte = take();
      if (!byte) return std::nullopt;
      value |= static_cast<std::uint64_t>(*byte & 0x7F) << shift;
      if ((*byte & 0x80) == 0) return value;
    }
    return std::nullopt;
  };
  const auto source_size = take_size();
  const auto result_size = take_size();
  if (!source_size || !result_size) return damaged("Its delta has no sizes.");
  if (*source_size != source.size()) return damaged("Its delta was made against a file of another size.");
  if (*result_size > limit)
    return Error{ErrorKind::kTooLarge, "binary patch", "Its result is over the limit."};
  std::string out;
  while (!delta.empty()) {
    const std::uint8_t command = *take();
    if ((command & 0x80) != 0) {
      std::uint64_t offset = 0, size = 0;
      for (int i = 0; i < 7; ++i) {
        if ((command & (1 << i)) == 0) continue;
        const auto byte = take();
        if (!byte) return damaged("Its delta ends inside a copy.");
        if (i < 4) {
          offset |= static_cast<std::uint64_t>(*byte) << (8 * i);
        } else {
          size |= static_cast<std::uint64_t>(*byte) << (8 * (i - 4));
        }
      }
      if (size == 0) size = 0x10000;
      if (offset + size > source.size()) return damaged("Its delta copies from behind the end.");
      out += source.substr(offset, size);
    } else {
      if (command == 0 || command > delta.size()) return damaged("Its delta ends inside new bytes.");
      out += delta.substr(0, command);
      delta.remove_prefix(command);
    }
    if (out.size() > *result_size) return damaged("Its delta makes more bytes than it states.");
  }
  if (out.size() != *result_size) return damaged("Its delta makes fewer bytes than it states.");
  return out;
}

}  // namespace tessera::stack
