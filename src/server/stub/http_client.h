// A blocking HTTP/1.1 client for tests and measurements: one connection, answers read to their end. Trusts
// the server; on anything unexpected it aborts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tessera {

struct HttpAnswer {
  int status = 0;
  std::string head;  // status line and header lines
  std::string body;  // of a chunked answer the chunks' contents
  // The value of a header, or nothing.
  std::string header(std::string_view name) const;
};

class HttpClient {
 public:
  // To 127.0.0.1.
  explicit HttpClient(std::uint16_t port);
  ~HttpClient();
  HttpClient(const HttpClient&) = delete;
  HttpClient& operator=(const HttpClient&) = delete;

  void send(std::string_view bytes);
  HttpAnswer receive();
  HttpAnswer call(std::string_view method, std::string_view path, std::string_view body = {},
                  const std::vector<std::pair<std::string, std::string>>& headers = {});

 private:
  void read_more();

  int socket_;
  std::string input_;
};

}  // namespace tessera
