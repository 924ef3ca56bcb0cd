// --record-requests: writes each request and its answer to a file of its own, without secrets.
//
// An exchange that is watched is handed on under another object of the same kind, which notes what passes.
// Files are written on a thread of the recorder's; what waits for the disk is bounded, and what does not fit
// is counted and dropped.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "server/http/exchange.h"
#include "server/record/record_folder.h"
#include "server/record/recorded_request.h"
#include "server/worker_pool.h"

namespace tessera {

struct RecorderLimits {
  std::size_t answer_bytes = 4U << 20;                // of one answer
  std::size_t waiting_bytes = 256U << 20;             // of records that are not written yet
  std::int64_t folder_bytes = std::int64_t{1} << 30;  // of all records on the disk; the oldest are deleted
};

class Recorder {
 public:
  // Makes the folder, for the owner alone, or says why it cannot. `keys` are the server's own.
  static Result<std::unique_ptr<Recorder>> open(const std::string& folder, std::vector<std::string> keys,
                                                RecorderLimits limits = {});

  // `known` has what is known before the answer. The exchange that is returned may outlive this object's
  // stop(), not the object.
  std::shared_ptr<http::Exchange> watch(std::shared_ptr<http::Exchange> exchange, RecordedRequest known);
  // What is waiting is written. Safe to call twice.
  void stop();

 private:
  class Watched;

  Recorder(RecordFolder folder, std::vector<std::string> keys, RecorderLimits limits);
  void keep(RecordedRequest record);
  void write(RecordedRequest record);

  const std::vector<std::string> keys_;
  const RecorderLimits limits_;
  std::atomic<std::size_t> waiting_bytes_{0};
  std::atomic<std::int64_t> dropped_{0};
  RecordFolder folder_;       // the writer's
  std::int64_t deleted_ = 0;  // likewise
  WorkerPool writer_{1};
};

// Now, as records have it: UTC with milliseconds.
std::string record_time();

}  // namespace tessera
