// Reading the fields of a JSON object with their types and ranges. The first thing that is wrong is kept,
// what is read afterwards does not matter: readers list all fields and look at error() once.
//
//   Fields in(body, slot);
//   request.n = in.integer("n", 1, 128).value_or(1);
//   if (slot.error) return *slot.error;
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "server/protocol/api_error.h"

namespace tessera {

using Json = nlohmann::ordered_json;

struct ErrorSlot {
  std::optional<ApiError> error;
  void set(ApiError found) {
    if (!error) error = std::move(found);
  }
};

// "an object", "the number 3", "the string \"abc…\"": for messages.
std::string describe(const Json& value);

class Fields {
 public:
  // Borrows both. `path` names the object in messages: "stream_options", "messages[2]"; empty for the body.
  Fields(const Json& object, ErrorSlot& slot, std::string path = {});

  // Absent and null are the same: nothing.
  const Json* find(std::string_view name) const;
  std::optional<bool> boolean(std::string_view name);
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t low, std::int64_t high);
  std::optional<double> number(std::string_view name, double low, double high);
  std::optional<std::string> string(std::string_view name);
  const Json* object(std::string_view name);
  const Json* array(std::string_view name);

  std::string path_of(std::string_view name) const;
  void refuse(std::string_view name, std::string message, std::string code = {});
  // "must be WANTED, not FOUND"
  void refuse_type(std::string_view name, std::string_view wanted, const Json& found);

 private:
  const Json& object_;
  ErrorSlot& slot_;
  std::string path_;
};

}  // namespace tessera
