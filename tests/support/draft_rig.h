// The shipped model and one of its drafts on one rank or several, without an engine.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "checkpoint/checkpoint.h"
#include "comm/communicator.h"
#include "model/draft.h"
#include "model/model.h"

namespace tessera::test {

Checkpoint open_model(const std::string& name);  // "tessera-tiny-eagle3"

// One rank's target, and the draft that reads it.
struct DraftRig {
  Checkpoint target_checkpoint;
  Checkpoint draft_checkpoint;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Model> target;
  std::unique_ptr<DraftModel> draft;
};
DraftRig load_draft_rig(const std::string& draft, const StepLimits& target_limits,
                        const StepLimits& draft_limits, Communicator* tp = nullptr,
                        bool whole_draft = false);  // the draft is not split, the target is

// Runs `body` on each of `ranks` threads; with one rank, here, and with a null communicator.
void on_ranks(int ranks, const std::function<void(Communicator* tp)>& body);

}  // namespace tessera::test
