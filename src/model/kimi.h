// DeepSeek-V3 and Kimi-K2: multi-head latent attention and sigmoid-routed experts.
#pragma once

#include <memory>

#include "model/model.h"

namespace tessera {

Result<std::unique_ptr<Model>> load_kimi(const Checkpoint& checkpoint, Backend& backend,
                                         const LoadOptions& options);

}  // namespace tessera
