#include "model/aux_layers.h"

#include <algorithm>

#include "base/check.h"

namespace tessera {
namespace {

std::string listed(const std::vector<std::int64_t>& ids) {
  std::string text;
  for (const std::int64_t id : ids) text += (text.empty() ? "" : ", ") + std::to_string(id);
  return text;
}

}  // namespace

Result<AuxLayers> aux_layers_of(const ModelConfig& draft, const ModelConfig& target) {
  TS_CHECK(draft.draft.has_value());
  const std::int64_t n = target.layers;
  std::vector<std::int64_t> written = draft.draft->aux_layers;
  bool counts_inputs = false;
  switch (draft.draft->aux_source) {
    case AuxLayerSource::kNone:
      written = {2, n / 2, n - 3};
      counts_inputs = true;
      break;
    case AuxLayerSource::kTopLevel:
      counts_inputs = true;
      break;
    case AuxLayerSource::kEagleConfig:
      counts_inputs = std::ranges::find(written, n) != written.end();
      break;
    case AuxLayerSource::kDFlash:
      break;
  }
  AuxLayers result;
  for (const std::int64_t id : written) result.after.push_back(counts_inputs ? id - 1 : id);
  result.note = "after layers " + listed(result.after) +
                (counts_inputs ? " (written as the input of layers " + listed(written) + ")" : "");
  for (const std::int64_t id : result.after) {
    if (id >= -1 && id < n) continue;
    return Error{ErrorKind::kMismatch, "draft model",
                 "It reads hidden states " + result.note + ", but the target " + target.architecture_name +
                     " has " + std::to_string(n) + " layers, 0 to " + std::to_string(n - 1) + "."};
  }
  return result;
}

}  // namespace tessera
