// What a person sees while a benchmark runs: one line that changes in a terminal; elsewhere a line for each
// thing that is done.
#pragma once

#include <cstdio>
#include <string>

namespace tessera::bench {

class Progress {
 public:
  // `out` null: silent.
  Progress(std::FILE* out, bool is_terminal) : out_(out), is_terminal_(is_terminal) {}
  ~Progress() { clear(); }

  void now(const std::string& line);   // what is going on
  void done(const std::string& line);  // stays

 private:
  void clear();

  std::FILE* out_;
  bool is_terminal_;
  std::size_t shown_ = 0;  // characters of the line that changes
};

}  // namespace tessera::bench
