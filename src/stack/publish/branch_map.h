// The topics and what stands on what, drawn: target at the left, each topic right of all it needs,
// integration at the right.
#pragma once

#include <string>
#include <vector>

namespace tessera::stack {

struct MapTopic {
  std::string name;
  std::string kind;                // "upstream", "local" or "drop"; also a class of the page's style
  std::string caption;             // "3 files, +40 -2"
  std::vector<std::string> needs;  // names
};

struct BranchMap {
  std::string target;            // caption of the left end
  std::string integration;       // and of the right one
  std::vector<MapTopic> topics;  // in line order
};

// An SVG element with classes instead of colours, for the page of document.h. Any set of topics is drawn,
// cycles too.
std::string draw_branch_map(const BranchMap& map);
// The same as Mermaid text, which GitHub draws inside Markdown.
std::string mermaid_branch_map(const BranchMap& map);

}  // namespace tessera::stack
