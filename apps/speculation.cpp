#include "speculation.h"

#include <spdlog/spdlog.h>

#include <utility>

namespace tessera {

GateOptions Speculation::gate() const {
  return {.most_drafts = most_drafts(),
          .adaptive = config.adaptive,
          .disable_above_seq_len = config.disable_above_seq_len,
          .disable_by_batch_size = config.disable_by_batch_size};
}

Result<std::optional<Speculation>> open_speculation(const ServeFlags& flags, const ModelConfig& target) {
  if (flags.speculative_config.empty()) return std::optional<Speculation>();
  TS_TRY(SpeculativeConfig config, parse_speculative_config(flags.speculative_config));
  Speculation speculation;
  if (!config.model.empty()) {
    TS_TRY(speculation.draft, Checkpoint::open(config.model));
  }
  const ModelConfig* draft = speculation.draft ? &speculation.draft->config() : nullptr;
  if (flags.speculative_disable_above_seq_len > 0)
    config.disable_above_seq_len = flags.speculative_disable_above_seq_len;
  TS_TRY(speculation.config,
         resolve_speculation(std::move(config), target, draft, flags.tensor_parallel_size));
  TS_TRY(speculation.aux_layers, aux_layers_for(speculation.config, draft, target));
  for (const std::string& note : speculation.config.notes) spdlog::info("--speculative-config: {}", note);
  return std::optional<Speculation>(std::move(speculation));
}

}  // namespace tessera
