// DFlash drafts (block diffusion): a block [newest token, mask, mask, ...] attends, without causality, to
// itself and to the target's hidden states of everything before, and is denoised in one pass.
#pragma once

#include <memory>

#include "model/draft.h"

namespace tessera {

struct DraftParts;

std::unique_ptr<DraftModel> load_dflash(const DraftParts& parts);

}  // namespace tessera
