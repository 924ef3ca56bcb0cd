// A group of GPUs whose small all-reduces go the short way, when the GPUs are found to be able to.
//
// Nothing is believed: before the short way is used, data is moved between every pair of ranks under a
// deadline and looked at, and both ways are timed, since where the longer one wins differs from machine to
// machine. All ranks come to one verdict.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "comm/communicator.h"
#include "comm/device_stream.h"

namespace tessera {

struct PeerOptions {
  std::int64_t most_bytes = 512 << 10;  // of one all-reduce; mailboxes hold twice this from every rank
  std::chrono::milliseconds check_patience{2'000};  // of a wait while it is being tried out
  std::chrono::milliseconds patience{60'000};       // of a wait in use
  std::function<void(const std::string&)> log;      // on rank 0: the verdict and its reason; may be empty
};

// `group` again, its all-reduces of up to the size that proved faster sent the short way; or just `group`,
// where peers cannot be reached, do not get what was sent, or nothing is gained. Every rank of `host`, the
// same ranks, calls it; `host` and `stream` outlive the result. Throws CommError when a rank is lost
// meanwhile.
std::unique_ptr<Communicator> with_peer_all_reduce(std::unique_ptr<Communicator> group, Communicator& host,
                                                   DeviceStream& stream, const PeerOptions& options);

// What with_peer_all_reduce finds out, without a verdict: every rank of `host` calls it. Sizes from 1 KiB to
// options.most_bytes.
struct WayTimes {
  std::int64_t bytes = 0;
  double short_us = 0;  // 0 with an objection
  double long_us = 0;
};
struct PeerTrial {
  std::optional<std::string> objection;  // why the short way cannot be gone; the same on every rank
  std::vector<WayTimes> times;           // rank 0's
};
PeerTrial try_peers(Communicator& group, Communicator& host, DeviceStream& stream,
                    const PeerOptions& options);

// The largest size up to which the short way was never slower, of sizes in ascending order; 0: none.
std::int64_t peer_limit(const std::vector<WayTimes>& times);

}  // namespace tessera
