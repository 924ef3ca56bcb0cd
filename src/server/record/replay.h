// Whether a request that was asked again was answered as it was recorded.
#pragma once

#include <string>

#include "base/result.h"
#include "server/record/recorded_request.h"

namespace tessera {

enum class ReplayOutcome {
  kSame,       // status and text; where the recorded answer was cut, as far as it went
  kOtherText,  // of a request whose answer is fixed: greedy, or with a seed
  kMayDiffer,  // another text, of a request that draws anew each time
  kOtherStatus,
  kNoAnswer,  // the server did not answer, or not to the end
};

struct ReplayAnswer {
  int status = 0;
  std::string body;
};

struct Replayed {
  ReplayOutcome outcome = ReplayOutcome::kSame;
  std::string finding = {};  // one line for the person who reads it
  double total_ms = 0;

  bool is_as_recorded() const {
    return outcome == ReplayOutcome::kSame || outcome == ReplayOutcome::kMayDiffer;
  }
};

// What came when the record was asked again, after so long.
Replayed judge(const RecordedRequest& record, const Result<ReplayAnswer>& answer, double total_ms);

}  // namespace tessera
