// Sampling values for requests that name none: what the checkpoint's generation_config.json recommends.
#pragma once

#include <filesystem>

#include "base/result.h"
#include "engine/sampling_params.h"

namespace tessera {

// `mode` "auto" reads the file where there is one; "vllm" keeps the protocol's own defaults. `over` is a JSON
// object of the same fields, which go before the file's.
Result<SamplingParams> generation_defaults(const std::filesystem::path& model_folder, const std::string& mode,
                                           const std::string& over = "{}");

}  // namespace tessera
