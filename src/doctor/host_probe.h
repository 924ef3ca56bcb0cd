// The host's own figures: its memory and arithmetic, and sums over ranks that are threads.
#pragma once

#include "doctor/measured.h"

namespace tessera::doctor {

inline constexpr std::int64_t kLeastSum = 1 << 10;  // bytes of an all-reduce that is timed
inline constexpr std::int64_t kMostSum = 16 << 20;  // doubling from one to the other

void probe_host(Measured& measured);
// All-reduces of `ranks` threads.
void probe_thread_sums(int ranks, Measured& measured);

}  // namespace tessera::doctor
