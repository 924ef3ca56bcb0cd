// For tests of time: what a sanitizer makes of it.
#pragma once

namespace tessera {

#ifdef TESSERA_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// How many times longer than elsewhere this build may take, generously.
inline constexpr int kSlowdown = kSanitized ? 10 : 1;

}  // namespace tessera
