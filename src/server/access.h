// Who may talk to the server, and what of a client's own words is repeated: keys, origins, request ids,
// paths.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "server/http/exchange.h"

namespace tessera {

// `authorization` is the header's value. Every key is compared, each in a time that does not tell where texts
// differ. Without keys everybody may.
bool has_key(std::string_view authorization, const std::vector<std::string>& keys);

struct CorsPolicy {
  std::vector<std::string> origins;  // "*": all; none: no CORS headers
  bool credentials = false;  // browsers may send theirs; the origin is then named, since "*" would not do
};
// Of an answer to a request from that origin; nothing for an empty one.
http::Headers cors_headers(const CorsPolicy& policy, std::string_view origin);

// A client's request id that is repeated in answers and in the log: 1 to 128 harmless characters.
bool is_clean_id(std::string_view id);

// For the log, which must stay one line a request whatever the client sends.
std::string printable(std::string_view text);

}  // namespace tessera
