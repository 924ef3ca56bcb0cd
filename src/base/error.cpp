#include "base/error.h"

namespace tessera {

std::string_view name_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kInvalidArgument: return "invalid argument";
    case ErrorKind::kNotFound: return "not found";
    case ErrorKind::kCorrupt: return "corrupt";
    case ErrorKind::kUnsupported: return "unsupported";
    case ErrorKind::kMismatch: return "mismatch";
    case ErrorKind::kTooLarge: return "too large";
    case ErrorKind::kIo: return "io";
    case ErrorKind::kUnavailable: return "unavailable";
    case ErrorKind::kConflict: return "conflict";
    case ErrorKind::kCancelled: return "cancelled";
    case ErrorKind::kInternal: return "internal";
  }
  return "unknown";
}

std::string Error::message() const { return where.empty() ? what : where + ": " + what; }

}  // namespace tessera
