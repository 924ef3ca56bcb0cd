// For tests and benchmarks: the output of other programs.
#pragma once

#include <sys/wait.h>

#include <array>
#include <cstdio>
#include <string>

namespace tessera::stack {

// Runs a shell command with a fixed environment; its output without the last line end, and its status.
struct CommandOutput {
  int status = 0;
  std::string text;  // stdout and stderr
};

inline CommandOutput run_command(const std::string& command) {
  CommandOutput output;
  std::FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return {-1, "popen failed"};
  std::array<char, 4096> buffer;
  std::size_t got = 0;
  while ((got = std::fread(buffer.data(), 1, buffer.size(), pipe)) > 0)
    output.text.append(buffer.data(), got);
  const int status = ::pclose(pipe);
  output.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (!output.text.empty() && output.text.back() == '\n') output.text.pop_back();
  return output;
}

}  // namespace tessera::stack
