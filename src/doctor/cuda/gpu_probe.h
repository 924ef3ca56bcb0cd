// GPUs as they are found to be: each alone, every pair, and all of them summing.
#pragma once

#include <functional>
#include <string>

#include "doctor/measured.h"

namespace tessera::doctor {

// Adds what it finds; says on the way what is being measured. A GPU that does not answer within seconds ends
// it, with the reason in `unavailable` or in the pair's `damage`.
void probe_gpus(Measured& measured, const std::function<void(const std::string&)>& say);

}  // namespace tessera::doctor
