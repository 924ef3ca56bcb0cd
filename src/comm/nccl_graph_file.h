// NCCL_GRAPH_FILE: which communicators of a process may see it.
//
// The variable makes NCCL load its channels from an XML file instead of searching for them. The file lists
// GPUs by index, so it fits exactly the groups of as many ranks as it lists, yet NCCL applies it to every
// communicator of the process: a subgroup then ends with "XML Import Channel: dev N not found" (nccl#1008,
// nccl#1240). So the file is read here, each group is told whether it fits, and the variable is taken away
// while other groups are created.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace tessera {

struct NcclGraphFile {
  std::string path;
  int ranks = 0;     // GPUs in each channel; all channels of all graphs name the same ones
  int graphs = 0;    // one for each algorithm: ring, tree, …; some may have no channels
  int channels = 0;  // over all graphs

  bool applies_to(int group_size) const { return group_size == ranks; }
};

// `path` is for messages alone. Refuses text that NCCL could not use, or that names other GPUs in other
// channels.
Result<NcclGraphFile> parse_nccl_graph_file(std::string_view xml, const std::string& path);
Result<NcclGraphFile> read_nccl_graph_file(const std::string& path);

enum class NcclGraphUse {
  kKeep,    // leave the environment as it is
  kRemove,  // hide NCCL_GRAPH_FILE while the group is created and first used
};

struct NcclGraphDecision {
  NcclGraphUse use;
  std::string sentence;  // for the log: the group, what it got, and why

  friend bool operator==(const NcclGraphDecision&, const NcclGraphDecision&) = default;
};

// `file` is absent when the variable is not set.
NcclGraphDecision decide_nccl_graph(const std::optional<NcclGraphFile>& file, const std::string& group,
                                    int group_size);
// The same from the variable's value (nullptr: not set). A file that cannot be read is an error even for
// groups that would not use it: the user asked for it by name.
Result<NcclGraphDecision> decide_nccl_graph(const char* environment_value, const std::string& group,
                                            int group_size);

}  // namespace tessera
