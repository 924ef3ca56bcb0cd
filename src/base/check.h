// Our own mistakes: a condition that cannot be false prints its values and aborts.
//
//   TS_CHECK(row < rows, row, rows);     always on
//   TS_DCHECK(row < rows, row, rows);    debug and sanitizer builds, for hot inner loops
#pragma once

#include <sstream>
#include <string>

namespace tessera::check_detail {

[[noreturn]] void fail(const char* condition, const char* names, const std::string& values, const char* file, int line);

inline std::string join() { return {}; }
template <class... Ts>
std::string join(const Ts&... values) {
  std::ostringstream out;
  const char* separator = "";
  ((out << separator << values, separator = ", "), ...);
  return out.str();
}

}  // namespace tessera::check_detail

#define TS_CHECK(condition, ...)                                                                     \
  do {                                                                                               \
    if (!(condition)) [[unlikely]]                                                                   \
      ::tessera::check_detail::fail(#condition, #__VA_ARGS__,                                        \
                                    ::tessera::check_detail::join(__VA_ARGS__), __FILE__, __LINE__); \
  } while (false)

#if !defined(NDEBUG) || defined(TESSERA_SANITIZED)
#define TS_DCHECK(...) TS_CHECK(__VA_ARGS__)
#else
#define TS_DCHECK(...) \
  do {                 \
  } while (false)
#endif
