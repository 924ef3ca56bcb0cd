// Where requests go.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace tessera::bench {

struct HttpTarget {
  std::string host;
  std::string port;
  std::string base;     // of every path, without the slash at its end
  std::string api_key;  // sent as a bearer token; empty: none

  std::string url() const { return "http://" + host + ":" + port + base; }
};

// "http://host[:port][/base]"; an ending "/v1", which clients are configured with, is dropped.
Result<HttpTarget> parse_target(std::string_view url);

}  // namespace tessera::bench
