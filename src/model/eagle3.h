// EAGLE-3 drafts: one decoder layer over [norm(embedding of the next token), norm(hidden state)].
#pragma once

#include <memory>

#include "model/draft.h"

namespace tessera {

struct DraftParts;

std::unique_ptr<DraftModel> load_eagle3(const DraftParts& parts);

}  // namespace tessera
