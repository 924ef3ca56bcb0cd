// `tessera doctor`: what this machine is, what costs speed, what is broken.
#pragma once

#include <string>

namespace CLI {
class App;
}

namespace tessera {

struct DoctorFlags {
  bool json = false;
  bool only_look = false;  // nothing is measured
  std::string root = "/";  // before /sys and /proc; any other than "/" is only looked at
};

void declare_doctor_flags(CLI::App& app, DoctorFlags& flags);
int run_doctor(const DoctorFlags& flags);  // the exit status

}  // namespace tessera
