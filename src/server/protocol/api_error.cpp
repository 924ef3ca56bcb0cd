#include "server/protocol/api_error.h"

#include "server/protocol/json_writer.h"
#include "tokenizer/unicode/utf8.h"

namespace tessera {

std::string ApiError::to_json() const {
  std::string out = R"({"error":{"message":)";
  append_json_string(out, repair_utf8(message));  // messages quote what clients sent, cut to some length
  out += R"(,"type":)";
  append_json_string(out, type);
  out += R"(,"param":)";
  append_json_string_or_null(out, repair_utf8(param));
  out += R"(,"code":)";
  append_json_string_or_null(out, code);
  out += "}}";
  return out;
}

ApiError bad_request(std::string param, std::string message, std::string code) {
  return {.message = std::move(message), .param = std::move(param), .code = std::move(code)};
}

ApiError from_error(const Error& error) {
  switch (error.kind) {
    case ErrorKind::kInvalidArgument:
    case ErrorKind::kUnsupported:
    case ErrorKind::kTooLarge:
    case ErrorKind::kCorrupt:
      return {.status = 400, .message = error.message()};
    case ErrorKind::kUnavailable:
      return {.status = 503,
              .message = error.message(),
              .type = "service_unavailable",
              .code = "overloaded",
              .retry_after_s = 1};
    case ErrorKind::kNotFound:
      return {.status = 404, .message = error.message()};
    default:
      return {.status = 500, .message = error.message(), .type = "server_error", .code = "internal_error"};
  }
}

}  // namespace tessera
