#include "stack/object/digest.h"

#include <openssl/evp.h>

#include <array>

#include "base/check.h"

namespace tessera::stack {
namespace {

constexpr char kHexDigits[] = "0123456789abcdef";

int hex_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

std::string hex_of(const std::uint8_t* bytes, std::size_t count) {
  std::string out;
  out.reserve(2 * count);
  for (std::size_t i = 0; i < count; ++i) {
    out += kHexDigits[bytes[i] >> 4];
    out += kHexDigits[bytes[i] & 15];
  }
  return out;
}

}  // namespace

std::string to_hex(const Oid& oid) { return hex_of(oid.bytes.data(), oid.bytes.size()); }

std::optional<Oid> oid_from_hex(std::string_view hex) {
  Oid oid;
  if (hex.size() != 2 * oid.bytes.size()) return std::nullopt;
  for (std::size_t i = 0; i < oid.bytes.size(); ++i) {
    const int high = hex_value(hex[2 * i]);
    const int low = hex_value(hex[2 * i + 1]);
    if (high < 0 || low < 0) return std::nullopt;
    oid.bytes[i] = static_cast<std::uint8_t>(high * 16 + low);
  }
  return oid;
}

struct Hasher::State {
  std::unique_ptr<EVP_MD_CTX, decltype(&EVP_MD_CTX_free)> context{EVP_MD_CTX_new(), &EVP_MD_CTX_free};
  std::array<std::uint8_t, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;

  void finish() {
    TS_CHECK(size == 0, size);  // a second call would hash nothing
    TS_CHECK(EVP_DigestFinal_ex(context.get(), digest.data(), &size) == 1);
  }
};

Hasher::Hasher(Kind kind) : state_(std::make_unique<State>()) {
  TS_CHECK(state_->context != nullptr);
  const EVP_MD* method = kind == Kind::kSha1 ? EVP_sha1() : EVP_sha256();
  TS_CHECK(EVP_DigestInit_ex(state_->context.get(), method, nullptr) == 1);
}
Hasher::~Hasher() = default;
Hasher::Hasher(Hasher&&) noexcept = default;
Hasher& Hasher::operator=(Hasher&&) noexcept = default;

void Hasher::add(std::string_view bytes) {
  TS_CHECK(EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()) == 1);
}

std::string Hasher::hex() {
  state_->finish();
  return hex_of(state_->digest.data(), state_->size);
}

Oid Hasher::oid() {
  state_->finish();
  Oid oid;
  TS_CHECK(state_->size == oid.bytes.size(), state_->size);
  std::copy_n(state_->digest.begin(), oid.bytes.size(), oid.bytes.begin());
  return oid;
}

std::string sha256_digest(std::string_view bytes) {
  Hasher hasher(Hasher::Kind::kSha256);
  hasher.add(bytes);
  return "sha256:" + hasher.hex();
}

Hasher blob_hasher(std::uint64_t size) {
  Hasher hasher(Hasher::Kind::kSha1);
  const std::string header = "blob " + std::to_string(size);
  hasher.add(std::string_view(header.c_str(), header.size() + 1));  // git's header ends with a NUL
  return hasher;
}

Oid blob_oid(std::string_view bytes) {
  Hasher hasher = blob_hasher(bytes.size());
  hasher.add(bytes);
  return hasher.oid();
}

}  // namespace tessera::stack
