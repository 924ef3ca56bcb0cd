// A diagnosis as text for people and as JSON for programs (docs/reference/doctor.md).
#pragma once

#include <string>
#include <vector>

#include "doctor/findings.h"

namespace tessera::doctor {

struct Diagnosis {
  Machine machine;
  Measured measured;
  std::vector<Finding> findings;
};

std::string report_text(const Diagnosis& diagnosis);
std::string report_json(const Diagnosis& diagnosis);

}  // namespace tessera::doctor
