// How a topic changed between two of its versions: the difference of its two differences, as `git range-diff`
// shows it. Topics keep their names, so nothing has to be matched.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace tessera::stack {

struct TopicVersion {
  std::string message;
  std::string patch;  // git's format, three lines of context
};

// What a person compares: message, paths, hunks without line numbers and blob ids.
Result<std::string> normal_version(const TopicVersion& version);

// Empty when both versions say the same. Every line has the sign of the outer difference in front of that of
// the inner one. Printable.
Result<std::string> range_diff(const TopicVersion& before, const TopicVersion& after);

}  // namespace tessera::stack
