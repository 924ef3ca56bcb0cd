#include "server/stub/http_client.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

#include "base/check.h"

namespace tessera {

std::string HttpAnswer::header(std::string_view name) const {
  const std::size_t at = head.find("\r\n" + std::string(name) + ": ");
  if (at == std::string::npos) return {};
  const std::size_t begin = at + name.size() + 4;
  return head.substr(begin, head.find("\r\n", begin) - begin);
}

HttpClient::HttpClient(std::uint16_t port) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
  TS_CHECK(socket_ >= 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  TS_CHECK(connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0, port);
  const int on = 1;
  setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

HttpClient::~HttpClient() { close(socket_); }

void HttpClient::send(std::string_view bytes) {
  while (!bytes.empty()) {
    const auto sent = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    TS_CHECK(sent > 0, sent);
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
}

void HttpClient::read_more() {
  std::array<char, 65536> buffer;
  const auto got = recv(socket_, buffer.data(), buffer.size(), 0);
  TS_CHECK(got > 0, got);
  input_.append(buffer.data(), static_cast<std::size_t>(got));
}

HttpAnswer HttpClient::receive() {
  const auto take_until = [this](std::string_view end) {
    std::size_t at = 0;
    while ((at = input_.find(end)) == std::string::npos) read_more();
    std::string out = input_.substr(0, at + end.size());
    input_.erase(0, out.size());
    return out;
  };
  const auto take = [this](std::size_t bytes) {
    while (input_.size() < bytes) read_more();
    std::string out = input_.substr(0, bytes);
    input_.erase(0, bytes);
    return out;
  };
  HttpAnswer answer;
  answer.head = take_until("\r\n\r\n");
  answer.status = std::stoi(answer.head.substr(9, 3));
  if (answer.header("Transfer-Encoding") == "chunked") {
    while (const std::size_t bytes = std::stoul(take_until("\r\n"), nullptr, 16)) {
      answer.body += take(bytes);
      take(2);
    }
    take(2);
  } else if (const std::string length = answer.header("Content-Length"); !length.empty()) {
    answer.body = take(std::stoul(length));
  }
  return answer;
}

HttpAnswer HttpClient::call(std::string_view method, std::string_view path, std::string_view body,
                            const std::vector<std::pair<std::string, std::string>>& headers) {
  std::string text = std::string(method) + " " + std::string(path) + " HTTP/1.1\r\nHost: test\r\n";
  for (const auto& [name, value] : headers) text += name + ": " + value + "\r\n";
  text += "Content-Length: " + std::to_string(body.size()) + "\r\n\r\n";
  send(text.append(body));
  return receive();
}

}  // namespace tessera
