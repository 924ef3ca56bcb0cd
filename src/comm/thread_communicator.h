// Ranks that are threads of one process: they read each other's memory between two barriers.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "comm/communicator.h"

namespace tessera {

// One communicator for each of `ranks` threads; element r is handed to the thread that is rank r.
std::vector<std::unique_ptr<Communicator>> make_thread_communicators(int ranks, const std::string& name,
                                                                     std::chrono::milliseconds deadline);

}  // namespace tessera
