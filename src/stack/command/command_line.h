// The command line as a function, so that tests can run it and `main` has nothing to do.
#pragma once

#include <functional>
#include <ostream>
#include <string>
#include <vector>

namespace tessera::stack {

struct CommandLineInputs {
  std::vector<std::string> arguments;  // without the program's name
  std::ostream& out;
  std::ostream& err;
  bool err_is_terminal = false;
  std::function<std::string()> now;    // ISO 8601, UTC
  std::function<double()> seconds;     // monotonic
  std::function<void(double)> wait{};  // seconds
  std::string github_token{};          // for pr --send
};

int run_command_line(const CommandLineInputs& inputs);

}  // namespace tessera::stack
