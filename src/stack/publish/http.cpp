#include "stack/publish/http.h"

#include <curl/curl.h>

#include <cctype>
#include <memory>

namespace tessera::stack {
namespace {

constexpr std::size_t kBodyLimit = 8 << 20;
constexpr long kConnectSeconds = 15;
constexpr long kTotalSeconds = 60;

struct Answer {
  HttpResponse response;
  bool too_large = false;
};

std::size_t take_body(char* bytes, std::size_t size, std::size_t count, void* self) {
  auto& answer = *static_cast<Answer*>(self);
  if (answer.response.body.size() + size * count > kBodyLimit) {
    answer.too_large = true;
    return 0;
  }
  answer.response.body.append(bytes, size * count);
  return size * count;
}

std::size_t take_header(char* bytes, std::size_t size, std::size_t count, void* self) {
  const std::string line(bytes, size * count);
  const std::size_t colon = line.find(':');
  if (colon != std::string::npos) {
    std::string name = line.substr(0, colon);
    for (char& c : name) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    const std::size_t first = line.find_first_not_of(" \t", colon + 1);
    const std::size_t last = line.find_last_not_of(" \t\r\n");
    static_cast<Answer*>(self)->response.headers[name] =
        first == std::string::npos || last < first ? "" : line.substr(first, last - first + 1);
  }
  return size * count;
}

}  // namespace

Result<HttpResponse> CurlClient::send(const HttpRequest& request) {
  const std::unique_ptr<CURL, decltype(&curl_easy_cleanup)> handle(curl_easy_init(), &curl_easy_cleanup);
  if (handle == nullptr) return Error{ErrorKind::kInternal, "libcurl", "It could not be started."};
  curl_slist* list = nullptr;
  for (const std::string& header : request.headers) list = curl_slist_append(list, header.c_str());
  const std::unique_ptr<curl_slist, decltype(&curl_slist_free_all)> headers(list, &curl_slist_free_all);
  Answer answer;
  CURL* curl = handle.get();
  curl_easy_setopt(curl, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(curl, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(curl, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(curl, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(curl, CURLOPT_TIMEOUT, kTotalSeconds);
  curl_easy_setopt(curl, CURLOPT_USERAGENT, "tessera-stack");
  curl_easy_setopt(curl, CURLOPT_HTTPHEADER, headers.get());
  curl_easy_setopt(curl, CURLOPT_CUSTOMREQUEST, request.method.c_str());
  if (request.method != "GET") {
    curl_easy_setopt(curl, CURLOPT_POSTFIELDS, request.body.data());
    curl_easy_setopt(curl, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  }
  curl_easy_setopt(curl, CURLOPT_WRITEFUNCTION, &take_body);
  curl_easy_setopt(curl, CURLOPT_WRITEDATA, &answer);
  curl_easy_setopt(curl, CURLOPT_HEADERFUNCTION, &take_header);
  curl_easy_setopt(curl, CURLOPT_HEADERDATA, &answer);
  const CURLcode status = curl_easy_perform(curl);
  if (answer.too_large) return Error{ErrorKind::kTooLarge, request.url, "The answer is larger than 8 MiB."};
  if (status != CURLE_OK) {
    return Error{ErrorKind::kIo, request.url,
                 std::string("No answer came: ") + curl_easy_strerror(status) + "."};
  }
  long code = 0;
  curl_easy_getinfo(curl, CURLINFO_RESPONSE_CODE, &code);
  answer.response.status = static_cast<int>(code);
  return std::move(answer.response);
}

}  // namespace tessera::stack
