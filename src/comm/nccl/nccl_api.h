// The functions of NCCL that are used, found in the library at run time: a machine without NCCL can still run
// one GPU or none. A struct of pointers, so that tests can put a library in its place that fails on purpose.
#pragma once

#include <nccl.h>

#include <string>

#include "base/result.h"

namespace tessera {

struct NcclApi {
  decltype(&::ncclGetVersion) get_version = nullptr;
  decltype(&::ncclGetErrorString) error_string = nullptr;
  decltype(&::ncclGetLastError) last_error = nullptr;
  decltype(&::ncclGetUniqueId) get_unique_id = nullptr;
  decltype(&::ncclCommInitRankConfig) init_rank = nullptr;
  decltype(&::ncclCommGetAsyncError) async_error = nullptr;
  decltype(&::ncclCommAbort) abort = nullptr;
  decltype(&::ncclGroupStart) group_start = nullptr;
  decltype(&::ncclGroupEnd) group_end = nullptr;
  decltype(&::ncclAllReduce) all_reduce = nullptr;
  decltype(&::ncclAllGather) all_gather = nullptr;
  decltype(&::ncclReduceScatter) reduce_scatter = nullptr;
  decltype(&::ncclBroadcast) broadcast = nullptr;
  decltype(&::ncclSend) send = nullptr;
  decltype(&::ncclRecv) recv = nullptr;
};

// libnccl.so.2, which stays open until the process ends. Refused when it is missing, lacks a function, or is
// older than communicators that do not block.
Result<NcclApi> open_nccl();
std::string nccl_version_text(const NcclApi& api);  // "2.28.9"

}  // namespace tessera
