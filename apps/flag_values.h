// Values of flags that are JSON.
#pragma once

#include <string>

#include "base/result.h"

namespace tessera {

// Refuses what is not a JSON object.
Result<void> check_json_object(const std::string& flag, const std::string& value);

}  // namespace tessera
