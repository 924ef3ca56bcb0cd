// Decode steps that were recorded on the device: one for each (sequences, query tokens a sequence). Nothing
// else of a step is baked in: ids, positions, lengths and block tables lie in the same memory each time, so
// one recording serves any lengths and any sequences.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "backend/backend.h"
#include "model/model.h"

namespace tessera {

class StepRecordings {
 public:
  // off: every step is enqueued call by call. The results are the same bits.
  StepRecordings(Backend& backend, bool off)
      : backend_(backend), is_off_(off || backend.record([] {}) == nullptr) {}

  // Does what `forward` does, by replaying where an equal step was recorded. A shape runs once as it is, so
  // that scratch is as large as it needs; the second time it is recorded. `forward` must not talk to other
  // ranks.
  Tensor run(const ForwardBatch& batch, const std::function<Tensor()>& forward);

  std::size_t count() const { return recorded_.size(); }

 private:
  struct Recorded {
    std::unique_ptr<Recording> recording;  // null: seen once
    Tensor hidden;
  };
  Backend& backend_;
  bool is_off_;  // also where the device keeps no recordings
  std::map<std::pair<std::int32_t, std::int32_t>, Recorded> recorded_;
};

}  // namespace tessera
