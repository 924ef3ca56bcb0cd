// Hides NCCL_GRAPH_FILE from NCCL while communicators are created that it does not describe.
#pragma once

#include "comm/nccl_graph_file.h"

namespace tessera {

// Puts a decision into force while it lives. Hold it over the creation AND the first collective of a
// communicator, because NCCL connects lazily.
//
// The environment belongs to the process, so scopes that agree may live at the same time (the ranks of one
// group are threads, and each waits for the others inside ncclCommInitRank), and a scope that disagrees waits
// for them to end. Code that reads or writes the environment by other means must not run meanwhile: create
// communicators before the worker threads start.
class NcclGraphScope {
 public:
  explicit NcclGraphScope(NcclGraphUse use);
  ~NcclGraphScope();
  NcclGraphScope(const NcclGraphScope&) = delete;
  NcclGraphScope& operator=(const NcclGraphScope&) = delete;
};

}  // namespace tessera
