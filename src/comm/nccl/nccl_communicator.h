// Ranks that are GPUs, over NCCL: calls enqueue on the rank's stream and return, and may be captured into a
// graph after a first call outside one. Data lies on the device.
//
// What the interface promises holds but for one thing: NCCL adds in an order of its own, and in bf16 rounds
// at every hop. All ranks of a group still get the same bits.
//
// Communicators are made without blocking, so that a peer that does not come is noticed: making one, and
// whatever NCCL does lazily in a call, ends at the deadline with rank, group and operation. A collective that
// was enqueued and never finishes is noticed by whoever waits for the device (DeviceStream).
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "comm/communicator.h"
#include "comm/device_stream.h"
#include "comm/nccl/nccl_api.h"

namespace tessera {

struct NcclOptions {
  std::optional<std::string> graph_file;  // what NCCL_GRAPH_FILE says, which NCCL reads by itself
  std::chrono::milliseconds deadline{60'000};
  std::function<void(const std::string&)>
      log;  // a sentence a group, on its rank 0: what it got; may be empty
};

// Every rank of `host` calls it, with a device of its own. `host` hands over what NCCL needs to begin, gives
// the group its name, and is split along with it; it and `stream` outlive the result.
Result<std::unique_ptr<Communicator>> make_nccl_communicator(const NcclApi& api, Communicator& host,
                                                             DeviceStream& stream,
                                                             const NcclOptions& options);

}  // namespace tessera
