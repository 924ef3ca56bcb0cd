// How one token's keys and values lie in the cache: formats of rows, and the view of one layer's pool of
// blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tessera {

enum class KvFormat : std::uint8_t {
  kF32,         // exact; the default on the CPU
  kBF16,        // the default on a GPU
  kFp8,         // e4m3 of x / scale, one scale for the whole pool, saturating
  kFp8Grouped,  // MLA only: 512 e4m3, 4 x f32 scale (one for each 128), 64 bf16 rope values: 656 bytes
                // ("fp8_ds_mla")
};

constexpr std::string_view name_of(KvFormat format) {
  switch (format) {
    case KvFormat::kF32:
      return "f32";
    case KvFormat::kBF16:
      return "bf16";
    case KvFormat::kFp8:
      return "fp8";
    case KvFormat::kFp8Grouped:
      return "fp8_ds_mla";
  }
  return "?";
}

// What a row holds. MLA: one latent of `latent` values and one rotated key of `rope` values, shared by all
// heads. GQA: kv_heads keys of `head_dim`, then kv_heads values of `head_dim`.
struct KvRowShape {
  std::int32_t latent = 0;    // 0 for GQA
  std::int32_t rope = 0;      // 0 for GQA
  std::int32_t kv_heads = 0;  // 0 for MLA
  std::int32_t head_dim = 0;  // 0 for MLA

  static KvRowShape mla(std::int32_t latent, std::int32_t rope) { return {.latent = latent, .rope = rope}; }
  static KvRowShape gqa(std::int32_t kv_heads, std::int32_t head_dim) {
    return {.kv_heads = kv_heads, .head_dim = head_dim};
  }
  bool is_mla() const { return latent > 0; }
  std::int64_t values() const { return is_mla() ? latent + rope : std::int64_t{2} * kv_heads * head_dim; }
  friend bool operator==(const KvRowShape&, const KvRowShape&) = default;
};

// Bytes of one token in one layer; nothing when the format cannot hold the shape (fp8_ds_mla needs MLA and
// groups of 128).
constexpr std::optional<std::int64_t> kv_row_bytes(KvFormat format, const KvRowShape& shape) {
  switch (format) {
    case KvFormat::kF32:
      return shape.values() * 4;
    case KvFormat::kBF16:
      return shape.values() * 2;
    case KvFormat::kFp8:
      return shape.values();
    case KvFormat::kFp8Grouped:
      if (!shape.is_mla() || shape.latent % 128 != 0) return std::nullopt;
      return shape.latent + shape.latent / 128 * 4 + std::int64_t{2} * shape.rope;
  }
  return std::nullopt;
}

// One layer's pool: block b, offset o lives at data + (b * block_size + o) * row_bytes.
struct KvLayer {
  void* data = nullptr;
  KvFormat format = KvFormat::kF32;
  KvRowShape shape;
  std::int32_t blocks = 0;
  std::int32_t block_size = 0;  // tokens
  std::int64_t row_bytes = 0;
  float scale = 1.0F;  // kFp8: stored value x scale = the value
};

}  // namespace tessera
