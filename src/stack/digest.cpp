#include "stack/digest.h"

#include <openssl/evp.h>

#include <algorithm>

#include "base/check.h"
#include "stack/object_id.h"

namespace tessera::stack {

struct Digest::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  ~State() { EVP_MD_CTX_free(context); }
};

Digest::Digest(HashKind kind) : state_(std::make_unique<State>()) {
  const EVP_MD* md = kind == HashKind::kSha1 ? EVP_sha1() : EVP_sha256();
  TS_CHECK(state_->context != nullptr && EVP_DigestInit_ex(state_->context, md, nullptr) == 1);
}
Digest::Digest(Digest&&) noexcept = default;
Digest& Digest::operator=(Digest&&) noexcept = default;
Digest::~Digest() = default;

void Digest::add(std::string_view bytes) {
  TS_CHECK(EVP_DigestUpdate(state_->context, bytes.data(), bytes.size()) == 1);
}

std::string Digest::raw() {
  unsigned char out[EVP_MAX_MD_SIZE];
  unsigned int size = 0;
  TS_CHECK(EVP_DigestFinal_ex(state_->context, out, &size) == 1);
  return std::string(reinterpret_cast<const char*>(out), size);
}

std::string Digest::hex() {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char c : raw()) {
    const auto byte = static_cast<unsigned char>(c);
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string sha256_hex(std::string_view bytes) {
  Digest digest(HashKind::kSha256);
  digest.add(bytes);
  return digest.hex();
}

std::string tree_digest(std::span<const TreeEntry> entries) {
  Digest digest(HashKind::kSha256);
  for (const TreeEntry& entry : entries) {
    std::string line(octal_of(entry.mode));
    line += ' ';
    line += entry.path;
    line += '\0';
    line += to_hex(entry.oid);
    line += '\n';
    digest.add(line);
  }
  return "sha256:" + digest.hex();
}

void finish_tree(Tree& tree) {
  std::ranges::sort(tree.entries, {}, &TreeEntry::path);
  tree.digest = tree_digest(tree.entries);
}

}  // namespace tessera::stack
