// What every generation of image archive shares: the request, and the config document with its history.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "stack/object/checked_json.h"
#include "stack/source/image_plan.h"

namespace tessera::stack {

struct ImageRequest {
  const Container& container;
  const std::string& location;
  const std::string& ref;
  const ReadOptions& options;
};

// Fills diff ids, build steps, environment and labels; the layers themselves must be there already.
void read_config(const nlohmann::json& config, ImagePlan& plan);
Result<void> check_layer_count(const nlohmann::json& config, const ImagePlan& plan,
                               const std::string& location);
Result<void> check_same_image(const ImagePlan& oci, const ImagePlan& docker, const std::string& location);

}  // namespace tessera::stack
