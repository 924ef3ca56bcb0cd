// Two GPUs: what one sends the other arrives, or not, and how fast.
#pragma once

#include "doctor/measured.h"

namespace tessera::doctor {

// Throws cuda::DeviceError where a call fails; nobody else may use the two meanwhile.
PairFigures probe_pair(int from, int to);

}  // namespace tessera::doctor
