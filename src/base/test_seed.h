// For tests that draw random cases: one fixed seed, so that a commit is green or red for everybody alike;
// TESSERA_SEED explores others and repeats a failure.
#pragma once

#include <cstdlib>

namespace tessera {

inline unsigned test_seed() {
  const char* given = std::getenv("TESSERA_SEED");
  return given != nullptr ? static_cast<unsigned>(std::strtoul(given, nullptr, 10)) : 1U;
}

}  // namespace tessera
