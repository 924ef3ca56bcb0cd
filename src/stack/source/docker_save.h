// The two older forms of `docker save`: manifest.json (1.10 and later), and `repositories` with a chain of
// parents (before).
#pragma once

#include "stack/source/image_config.h"

namespace tessera::stack {

Result<ImagePlan> plan_docker_manifest(const ImageRequest& request);
Result<ImagePlan> plan_docker_repositories(const ImageRequest& request);

}  // namespace tessera::stack
