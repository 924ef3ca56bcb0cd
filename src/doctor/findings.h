// From what is known of a machine to what it means and what to change. No I/O: tests give it machines.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "doctor/machine.h"
#include "doctor/measured.h"

namespace tessera::doctor {

enum class Severity : std::uint8_t {
  kNote,        // worth knowing
  kCostsSpeed,  // works, slower than it could
  kBroken,      // does not work, or gives wrong results
};
std::string_view name_of(Severity severity);

struct Finding {
  Severity severity = Severity::kNote;
  std::string id;       // for programs and tests: "link-narrow"
  std::string what;     // the fact, with its values
  std::string meaning;  // what follows from it
  std::string advice;   // what to change, or what to try next
};

std::vector<Finding> judge(const Machine& machine, const Measured& measured);

// 0: nothing but notes, 1: something costs speed, 2: something is broken.
int exit_status(const std::vector<Finding>& findings);

}  // namespace tessera::doctor
