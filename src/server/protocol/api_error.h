// A refusal as API clients see it: OpenAI's shape {"error":{message,type,param,code}} and an HTTP status.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/error.h"

namespace tessera {

struct ApiError {
  int status = 400;
  std::string message;
  std::string type = "invalid_request_error";
  std::string param = {};  // the field at fault: "messages[2].role"; empty: null in the answer
  std::string code = {};   // machine-readable: "context_length_exceeded"; empty: null in the answer
  int retry_after_s = 0;   // Retry-After, when the same request may succeed later

  std::string to_json() const;
  friend bool operator==(const ApiError&, const ApiError&) = default;
};

ApiError bad_request(std::string param, std::string message, std::string code = {});
// What the engine or the tokenizer refused.
ApiError from_error(const Error& error);

// A value or an ApiError; works with TS_TRY inside functions that return ApiResult.
template <class T>
class [[nodiscard]] ApiResult {
 public:
  ApiResult(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  ApiResult(ApiError error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& operator*() & { return value(); }
  const T& operator*() const& { return const_cast<ApiResult*>(this)->value(); }
  T&& operator*() && { return std::move(value()); }
  T* operator->() { return &value(); }
  const ApiError& error() const& { return std::get<1>(state_); }
  ApiError&& error() && { return std::get<1>(std::move(state_)); }

 private:
  T& value() {
    TS_CHECK(ok(), std::get<1>(state_).message);
    return std::get<0>(state_);
  }
  std::variant<T, ApiError> state_;
};

}  // namespace tessera
