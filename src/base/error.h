// What went wrong in the outside world: files, networks, users, foreign bytes. Our own mistakes abort instead (check.h).
#pragma once

#include <string>
#include <string_view>

namespace tessera {

enum class ErrorKind {
  kInvalidArgument,  // a flag, a request field or a config value that cannot be accepted
  kNotFound,         // a file, a tensor, a model, a ref that should exist and does not
  kCorrupt,          // bytes that contradict their own format: truncated, overlapping, wrong digest
  kUnsupported,      // well-formed, but a thing we do not do
  kMismatch,         // two inputs that must agree and do not: shapes, dtypes, digests, versions
  kTooLarge,         // over a stated limit
  kIo,               // the operating system refused: permission, disk, socket
  kUnavailable,      // full, draining or not ready yet; the same call may succeed later
  kConflict,         // somebody else changed what we were about to change
  kCancelled,        // the caller went away
  kInternal,         // a promise of our own did not hold, and the request (not the process) ends
};

std::string_view name_of(ErrorKind kind);

struct Error {
  ErrorKind kind;
  std::string where;  // "plan.toml:14", "model-00003.safetensors: kv_a_proj"; may be empty
  std::string what;   // one full sentence for the person who reads it, and if known what to do now

  // "where: what", the form that is printed.
  std::string message() const;
  friend bool operator==(const Error&, const Error&) = default;
};

}  // namespace tessera
