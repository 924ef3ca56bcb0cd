// How often the process has allocated, on any thread. Links a counting operator new into the test.
#pragma once

#include <cstdint>

namespace tessera::test {

std::int64_t allocations();

}  // namespace tessera::test
