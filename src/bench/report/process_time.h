// For benchmarks on machines that are shared: time that other programs do not stretch.
#pragma once

#include <ctime>

#include "base/check.h"

namespace tessera::bench {

// CPU time of all threads of this program, in seconds.
inline double process_seconds() {
  timespec time{};
  TS_CHECK(clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) == 0);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

}  // namespace tessera::bench
