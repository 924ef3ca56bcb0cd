// Reads the tree of any source spec into a repository's object database.
#pragma once

#include <string>

#include "base/result.h"
#include "stack/command/session.h"
#include "stack/git/repository.h"
#include "stack/plan/plan_file.h"
#include "stack/source/read_options.h"
#include "stack/source/source_spec.h"

namespace tessera::stack {

// Bytes that the repository lacks are written to it. Paths whose bytes cannot be had and whose id is unknown
// are left out, with a note.
Result<SourceTree> read_tree_into(Repository& repository, const SourceSpec& spec, const Session& session);

// A spec of a plan, whose location is relative to the plan's folder.
Result<SourceSpec> source_of_plan(const PlanFile& file);
// The other way: a spec that was typed here, as it stands in a plan.
SourceSpec relative_to(const SourceSpec& spec, const std::string& plan_path);
// A path that was typed here, as it stands in a plan.
std::string path_relative_to(const std::string& path, const std::string& plan_path);

}  // namespace tessera::stack
