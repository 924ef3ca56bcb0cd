// A comparison as Markdown for people and pull requests, and as JSON for programs (tessera-stack's report
// reads its cells).
#pragma once

#include <string>

#include "bench/compare/comparison.h"

namespace tessera::bench {

struct CompareNames {
  std::string before;
  std::string after;
};

std::string comparison_markdown(const Comparison& comparison, const CompareNames& names,
                                const CompareOptions& options);
std::string comparison_json(const Comparison& comparison, const CompareNames& names,
                            const CompareOptions& options);

}  // namespace tessera::bench
