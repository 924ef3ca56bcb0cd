#include "server/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

namespace tessera {

std::vector<ProcessFigure> process_figures() {
  std::vector<ProcessFigure> out;
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  std::ifstream file("/proc/self/stat");
  std::string line;
  if (std::getline(file, line)) {
    // Fields are counted after the name, which may hold blanks and parentheses.
    std::istringstream rest(line.substr(line.rfind(')') + 2));
    std::vector<std::string> fields;
    for (std::string field; rest >> field;) fields.push_back(field);
    const auto field = [&](std::size_t number) {
      return std::stod(fields.at(number - 3));
    };  // as proc(5) numbers
    if (fields.size() >= 22) {
      out.push_back({"process_cpu_seconds_total", "User and system CPU time spent, in seconds.", true,
                     (field(14) + field(15)) / ticks});
      out.push_back({"process_virtual_memory_bytes", "Virtual memory size in bytes.", false, field(23)});
      out.push_back({"process_resident_memory_bytes", "Resident memory size in bytes.", false,
                     field(24) * static_cast<double>(sysconf(_SC_PAGESIZE))});
      std::ifstream stat("/proc/stat");
      for (std::string name; stat >> name;) {
        double boot = 0;
        if (name == "btime" && stat >> boot) {
          out.push_back({"process_start_time_seconds",
                         "Start time of the process since the epoch, in seconds.", false,
                         boot + field(22) / ticks});
          break;
        }
      }
    }
  }
  std::error_code error;
  double descriptors = -1;  // the one that lists them
  for (std::filesystem::directory_iterator it("/proc/self/fd", error), end; !error && it != end;
       it.increment(error)) {
    ++descriptors;
  }
  if (descriptors >= 0)
    out.push_back({"process_open_fds", "Number of open file descriptors.", false, descriptors});
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    out.push_back({"process_max_fds", "Maximum number of open file descriptors.", false,
                   static_cast<double>(limit.rlim_cur)});
  }
  return out;
}

}  // namespace tessera
