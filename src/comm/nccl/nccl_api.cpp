#include "comm/nccl/nccl_api.h"

#include <dlfcn.h>

namespace tessera {
namespace {

constexpr const char* kLibrary = "libnccl.so.2";
constexpr int kOldest = 21800;  // 2.18: ncclConfig_t with blocking = 0 in the form used here

template <class Function>
bool find(void* library, const char* name, Function& function, std::string& missing) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (function == nullptr) missing = name;
  return function != nullptr;
}

}  // namespace

Result<NcclApi> open_nccl() {
  void* const library = dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    return Error{ErrorKind::kUnavailable, kLibrary,
                 std::string("cannot be opened: ") + dlerror() +
                     ". Several GPUs need NCCL 2: install it or name its folder in LD_LIBRARY_PATH."};
  }
  NcclApi api;
  std::string missing;
  const bool complete = find(library, "ncclGetVersion", api.get_version, missing) &&
                        find(library, "ncclGetErrorString", api.error_string, missing) &&
                        find(library, "ncclGetLastError", api.last_error, missing) &&
                        find(library, "ncclGetUniqueId", api.get_unique_id, missing) &&
                        find(library, "ncclCommInitRankConfig", api.init_rank, missing) &&
                        find(library, "ncclCommGetAsyncError", api.async_error, missing) &&
                        find(library, "ncclCommAbort", api.abort, missing) &&
                        find(library, "ncclGroupStart", api.group_start, missing) &&
                        find(library, "ncclGroupEnd", api.group_end, missing) &&
                        find(library, "ncclAllReduce", api.all_reduce, missing) &&
                        find(library, "ncclAllGather", api.all_gather, missing) &&
                        find(library, "ncclReduceScatter", api.reduce_scatter, missing) &&
                        find(library, "ncclBroadcast", api.broadcast, missing) &&
                        find(library, "ncclSend", api.send, missing) &&
                        find(library, "ncclRecv", api.recv, missing);
  if (!complete)
    return Error{ErrorKind::kUnsupported, kLibrary, "has no " + missing + "; NCCL 2.18 or newer is needed."};
  int version = 0;
  if (api.get_version(&version) != ncclSuccess || version < kOldest) {
    return Error{ErrorKind::kUnsupported, kLibrary,
                 "is of version " + std::to_string(version) + "; 21800 (2.18) or newer is needed."};
  }
  return api;
}

std::string nccl_version_text(const NcclApi& api) {
  int version = 0;
  if (api.get_version(&version) != ncclSuccess) return "?";
  return std::to_string(version / 10000) + '.' + std::to_string(version / 100 % 100) + '.' +
         std::to_string(version % 100);
}

}  // namespace tessera
