#include "bench/load/http_target.h"

#include <algorithm>

namespace tessera::bench {

Result<HttpTarget> parse_target(std::string_view url) {
  const auto bad = [&](std::string what) {
    return Error{ErrorKind::kInvalidArgument, "--url", "is '" + std::string(url) + "'" + std::move(what)};
  };
  constexpr std::string_view kScheme = "http://";
  if (url.starts_with("https://"))
    return bad("; TLS is not spoken here: a proxy in between would be measured too. Give the http address.");
  if (!url.starts_with(kScheme)) return bad("; it must be http://HOST[:PORT][/BASE].");
  std::string_view rest = url.substr(kScheme.size());
  HttpTarget target;
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  target.base = rest.substr(slash);
  rest = rest.substr(0, slash);
  while (target.base.ends_with('/')) target.base.pop_back();
  if (target.base.ends_with("/v1")) target.base.resize(target.base.size() - 3);
  std::size_t colon = rest.rfind(':');
  if (rest.starts_with('[')) {  // IPv6
    const std::size_t end = rest.find(']');
    if (end == std::string_view::npos) return bad(", whose '[' is not closed.");
    target.host = rest.substr(1, end - 1);
    colon = end + 1 < rest.size() && rest[end + 1] == ':' ? end + 1 : std::string_view::npos;
  } else {
    target.host = rest.substr(0, colon);
  }
  target.port = colon == std::string_view::npos ? "80" : std::string(rest.substr(colon + 1));
  const bool is_number = std::ranges::all_of(target.port, [](char c) { return c >= '0' && c <= '9'; });
  if (target.host.empty()) return bad(", which names no host.");
  if (target.port.empty() || target.port.size() > 5 || !is_number || std::stoi(target.port) > 65535)
    return bad(", whose port '" + target.port + "' is no number from 0 to 65535.");
  return target;
}

}  // namespace tessera::bench
