// What every layer's attention of one model shares.
#pragma once

#include "backend/backend.h"
#include "checkpoint/model_config.h"

namespace tessera {

struct AttentionFrame {
  Backend& backend;
  const ModelConfig& config;
  const RopeTable& rope;
  float softmax_scale = 1;
};

}  // namespace tessera
