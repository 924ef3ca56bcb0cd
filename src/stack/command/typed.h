// For tests: a command line as somebody types it, with a clock that stands still.
#pragma once

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "stack/command/command_line.h"

namespace tessera::stack {

struct Answer {
  int code = 0;
  std::string out;
  std::string err;
  nlohmann::json json() const { return nlohmann::json::parse(out); }
};

inline Answer type(const std::string& plan, const std::vector<std::string>& arguments) {
  std::ostringstream out;
  std::ostringstream err;
  std::vector<std::string> all = {"--plan", plan};
  all.insert(all.end(), arguments.begin(), arguments.end());
  const int code = run_command_line({.arguments = all,
                                     .out = out,
                                     .err = err,
                                     .now = [] { return std::string("2026-01-01T00:00:00Z"); },
                                     .seconds = [] { return 0.0; }});
  return {code, out.str(), err.str()};
}

}  // namespace tessera::stack
