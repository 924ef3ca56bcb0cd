#include "flag_values.h"

#include <nlohmann/json.hpp>

namespace tessera {

Result<void> check_json_object(const std::string& flag, const std::string& value) {
  if (nlohmann::json::parse(value, nullptr, false).is_object()) return {};
  return Error{ErrorKind::kInvalidArgument, flag,
               "is '" + value + "'; it must be a JSON object, e.g. '{\"thinking\": false}'."};
}

}  // namespace tessera
