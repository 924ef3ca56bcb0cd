// When recorded requests came, counted from the first: for asking them again at the same pace.
#pragma once

#include <span>
#include <vector>

#include "base/result.h"
#include "server/record/recorded_request.h"

namespace tessera {

// Seconds after the earliest, in the order of `records`. An `at` that is no UTC time is an error that names
// it.
Result<std::vector<double>> arrivals_of(std::span<const RecordedRequest> records);

}  // namespace tessera
