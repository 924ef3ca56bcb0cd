// HTTP as far as a forge's API needs it. The real client is libcurl; tests talk to a server of their own
// through the same one.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/result.h"

namespace tessera::stack {

struct HttpRequest {
  std::string method = "GET";
  std::string url;
  std::vector<std::string> headers{};  // "Name: value"; may hold a secret, so never printed
  std::string body{};
};

struct HttpResponse {
  int status = 0;
  std::map<std::string, std::string> headers{};  // names in lower case
  std::string body{};                            // at most 8 MiB
};

class HttpClient {
 public:
  virtual ~HttpClient() = default;
  // An error when no answer came; any status is an answer.
  virtual Result<HttpResponse> send(const HttpRequest& request) = 0;
};

// http and https only; redirects are not followed, because they would carry the token elsewhere.
class CurlClient final : public HttpClient {
 public:
  Result<HttpResponse> send(const HttpRequest& request) override;
};

}  // namespace tessera::stack
