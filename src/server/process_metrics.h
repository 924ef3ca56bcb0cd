// The process's own figures, under the names that Prometheus clients use everywhere.
#pragma once

#include <string>
#include <vector>

namespace tessera {

struct ProcessFigure {
  std::string name;
  std::string help;
  bool is_counter;
  double value;
};
// Read from /proc; what cannot be read is left out.
std::vector<ProcessFigure> process_figures();

}  // namespace tessera
