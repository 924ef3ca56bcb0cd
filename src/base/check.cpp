#include "base/check.h"

#include <cstdio>
#include <cstdlib>

namespace tessera::check_detail {

void fail(const char* condition, const char* names, const std::string& values, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: check failed: %s", file, line, condition);
  if (!values.empty()) std::fprintf(stderr, " (%s = %s)", names, values.c_str());
  std::fputc('\n', stderr);
  std::fflush(stderr);
  std::abort();
}

}  // namespace tessera::check_detail
