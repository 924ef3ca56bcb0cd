// OCI image layouts: from index.json through nested indexes to one manifest, every document checked by size
// and digest.
#pragma once

#include "stack/source/image_config.h"

namespace tessera::stack {

Result<ImagePlan> plan_oci_layout(const ImageRequest& request);

// "linux/amd64" and the like for this machine.
std::string host_platform();

}  // namespace tessera::stack
