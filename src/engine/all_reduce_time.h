// What a sum over all ranks costs on this machine, before anything is served.
#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "comm/communicator.h"

namespace tessera {

// The median, in seconds, of a sum over `values` activations, one after the other without a pause between
// them. Every rank calls it; each has its own clock's answer.
double all_reduce_seconds(Backend& backend, Communicator& ranks, std::int64_t values);

}  // namespace tessera
