// A value or an Error, which the compiler forbids to ignore. May become std::expected one day.
#pragma once

#include <optional>
#include <utility>
#include <variant>

#include "base/check.h"
#include "base/error.h"

namespace tessera {

template <class T>
class [[nodiscard]] Result {
 public:
  using value_type = T;

  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}

  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }

  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(value()); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

  const Error& error() const& {
    TS_CHECK(!ok());
    return std::get<1>(state_);
  }
  Error&& error() && {
    TS_CHECK(!ok());
    return std::get<1>(std::move(state_));
  }

 private:
  T& value() {
    TS_CHECK(ok(), std::get<1>(state_).message());
    return std::get<0>(state_);
  }
  const T& value() const {
    TS_CHECK(ok(), std::get<1>(state_).message());
    return std::get<0>(state_);
  }

  std::variant<T, Error> state_;
};

// Success without a value, or an Error.
template <>
class [[nodiscard]] Result<void> {
 public:
  using value_type = void;

  Result() = default;
  Result(Error error) : error_(std::move(error)) {}

  bool ok() const { return !error_.has_value(); }
  explicit operator bool() const { return ok(); }
  const Error& error() const& {
    TS_CHECK(!ok());
    return *error_;
  }
  Error&& error() && {
    TS_CHECK(!ok());
    return std::move(*error_);
  }

 private:
  std::optional<Error> error_;
};

}  // namespace tessera

// TS_TRY(const int port, parse_port(text));   declares and takes the value, or returns the error to our caller
// TS_TRY(save(file));                         the same for Result<void>
#define TS_TRY_CAT2(a, b) a##b
#define TS_TRY_CAT(a, b) TS_TRY_CAT2(a, b)
#define TS_TRY_1(call) \
  if (auto ts_try_result = (call); !ts_try_result) return std::move(ts_try_result).error()
#define TS_TRY_2(declaration, call) TS_TRY_3(declaration, call, TS_TRY_CAT(ts_try_, __COUNTER__))
#define TS_TRY_3(declaration, call, name)        \
  auto name = (call);                            \
  if (!name) return std::move(name).error();     \
  declaration = *std::move(name)
#define TS_TRY_PICK(_1, _2, picked, ...) picked
// A declaration or a call whose template arguments hold a comma goes in parentheses or behind `auto`.
#define TS_TRY(...) TS_TRY_PICK(__VA_ARGS__, TS_TRY_2, TS_TRY_1, )(__VA_ARGS__)
