// For tests: what a sanitizer does to time, races and allocators.
#pragma once

namespace tessera {

#ifdef TESSERA_SANITIZED
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// The thread sanitizer keeps its own operator new and reports every race, intended ones too.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitized = true;
#elif defined(__has_feature)
inline constexpr bool kThreadSanitized = __has_feature(thread_sanitizer);
#else
inline constexpr bool kThreadSanitized = false;
#endif

// How many times longer than elsewhere this build may take, generously.
inline constexpr int kSlowdown = kSanitized ? 10 : 1;

}  // namespace tessera
