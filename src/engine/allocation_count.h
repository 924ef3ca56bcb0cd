// For tests: how often the calling thread has allocated. The counting operator new is in allocation_test.cpp.
#pragma once

#include <cstdint>

namespace tessera {

std::int64_t allocations_of_this_thread();

}  // namespace tessera
