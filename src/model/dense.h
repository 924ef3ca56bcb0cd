// Dense decoders with grouped-query attention: LlamaForCausalLM and Qwen3ForCausalLM (which normalises q and
// k per head).
#pragma once

#include <memory>

#include "model/model.h"

namespace tessera {

Result<std::unique_ptr<Model>> load_dense(const Checkpoint& checkpoint, Backend& backend,
                                          const LoadOptions& options);

}  // namespace tessera
