#include "server/access.h"

#include <algorithm>
#include <cctype>

namespace tessera {
namespace {

bool equal_in_constant_time(std::string_view given, std::string_view key) {
  std::size_t difference = given.size() ^ key.size();
  for (std::size_t i = 0; i < given.size(); ++i) {
    difference |= static_cast<unsigned char>(given[i]) ^
                  static_cast<unsigned char>(key[key.empty() ? 0 : i % key.size()]);
  }
  return difference == 0 && !key.empty();
}

}  // namespace

bool has_key(std::string_view authorization, const std::vector<std::string>& keys) {
  if (keys.empty()) return true;
  constexpr std::string_view kScheme = "Bearer ";
  const bool is_bearer =
      authorization.size() > kScheme.size() &&
      std::ranges::equal(authorization.substr(0, kScheme.size()), kScheme, [](char a, char b) {
        return std::tolower(static_cast<unsigned char>(a)) == std::tolower(static_cast<unsigned char>(b));
      });
  const std::string_view given = is_bearer ? authorization.substr(kScheme.size()) : std::string_view();
  bool found = false;
  for (const std::string& key : keys) found |= equal_in_constant_time(given, key);  // all of them, always
  return found;
}

http::Headers cors_headers(const CorsPolicy& policy, std::string_view origin) {
  http::Headers out;
  if (origin.empty()) return out;
  for (const std::string& allowed : policy.origins) {
    if (allowed != "*" && allowed != origin) continue;
    const bool is_named = allowed != "*" || policy.credentials;
    out.emplace_back("Access-Control-Allow-Origin", is_named ? std::string(origin) : "*");
    out.emplace_back("Access-Control-Expose-Headers", "X-Request-Id");
    if (policy.credentials) out.emplace_back("Access-Control-Allow-Credentials", "true");
    if (is_named) out.emplace_back("Vary", "Origin");
    break;
  }
  return out;
}

bool is_clean_id(std::string_view id) {
  return !id.empty() && id.size() <= 128 && std::ranges::all_of(id, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == ':';
  });
}

std::string printable(std::string_view text) {
  std::string out(text.substr(0, 200));
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x21 || static_cast<unsigned char>(c) > 0x7e || c == '"') c = '?';
  }
  return out;
}

}  // namespace tessera
