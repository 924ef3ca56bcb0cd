#include "comm/nccl_graph_scope.h"

#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>

#include "base/check.h"

namespace tessera {
namespace {

constexpr const char* kVariable = "NCCL_GRAPH_FILE";

// The project's rule against mutable globals yields here: what it guards, the environment, is one.
std::mutex mutex;
std::condition_variable nobody_left;
int holders = 0;                   // living scopes
NcclGraphUse use_in_force;         // while holders > 0
std::optional<std::string> saved;  // the value that the first kRemove took away

}  // namespace

NcclGraphScope::NcclGraphScope(NcclGraphUse use) {
  std::unique_lock lock(mutex);
  nobody_left.wait(lock, [&] { return holders == 0 || use_in_force == use; });
  if (holders++ > 0) return;
  use_in_force = use;
  if (use == NcclGraphUse::kKeep) return;
  if (const char* value = std::getenv(kVariable)) saved = value;
  TS_CHECK(unsetenv(kVariable) == 0);
}

NcclGraphScope::~NcclGraphScope() {
  const std::lock_guard lock(mutex);
  if (--holders > 0) return;
  if (saved) TS_CHECK(setenv(kVariable, saved->c_str(), 1) == 0);
  saved.reset();
  nobody_left.notify_all();
}

}  // namespace tessera
