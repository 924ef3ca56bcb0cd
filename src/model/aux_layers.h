// Which of the target's hidden states a draft reads, whichever way its config counts them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/model_config.h"

namespace tessera {

// Each id i means the residual stream after layer i (0-based), before any norm; -1 is the embedding.
struct AuxLayers {
  std::vector<std::int64_t> after;
  std::string note;  // "after layers 0, 2, 4 (written as the input of layers 1, 3, 5)", for the log
};

// What the config's ids mean depends on where they stand:
//   beside the other keys           the input of layer i, i.e. after layer i - 1 (vLLM)
//   dflash_config.target_layer_ids  after layer i (z-lab)
//   inside eagle_config             after layer i (TorchSpec, SGLang, NVIDIA; [1, 29, 57] of the Kimi drafts)
//   nowhere                         the input of layers 2, n / 2, n - 3 (the default of vLLM and SafeAILab)
// Inside eagle_config an id may equal the number n of the target's layers. There is no stream after layer n,
// but there is an input of layer "n", the last stream: such a list can only count inputs, and is read so.
// tessera-tiny's drafts ([1, 3, 5] with 5 layers) are of that kind.
Result<AuxLayers> aux_layers_of(const ModelConfig& draft, const ModelConfig& target);

}  // namespace tessera
