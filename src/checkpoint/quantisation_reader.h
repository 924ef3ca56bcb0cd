// quantization_config of a config.json, for model_config.cpp.
#pragma once

#include <string>
#include <vector>

#include "checkpoint/config_reader.h"
#include "checkpoint/quantisation.h"

namespace tessera {

// Failures go to the reader; odd but harmless facts to `notes`.
QuantisationConfig read_quantisation(ConfigReader reader, std::vector<std::string>& notes);

}  // namespace tessera
