// A plan as a table for people and as JSON for programs.
#pragma once

#include <string>

#include "plan/gpu_plan.h"

namespace tessera {

std::string plan_text(const ModelConfig& config, const GpuPlan& plan);
std::string plan_json(const ModelConfig& config, const GpuPlan& plan);  // one object, two-space indented

// One rank's items as lines of `indent` spaces, for the server's log and --dry-run.
std::string rank_memory_text(const RankMemory& memory, int indent);

}  // namespace tessera
