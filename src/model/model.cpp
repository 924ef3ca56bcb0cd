#include "model/model.h"

#include "model/dense.h"
#include "model/kimi.h"

namespace tessera {

Result<std::unique_ptr<Model>> load_model(const Checkpoint& checkpoint, Backend& backend,
                                          const LoadOptions& options) {
  switch (checkpoint.config().architecture) {
    case Architecture::kDeepseekV3:
      return load_kimi(checkpoint, backend, options);
    case Architecture::kLlama:
    case Architecture::kQwen3:
      return load_dense(checkpoint, backend, options);
    case Architecture::kEagle3Llama:
    case Architecture::kEagle3Mla:
    case Architecture::kDFlash:
      break;
  }
  return Error{ErrorKind::kUnsupported, "config.json",
               "architecture '" + checkpoint.config().architecture_name +
                   "' is a draft for speculative decoding and cannot be served by itself."};
}

}  // namespace tessera
