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

std::string Speculation::describe() const {
  std::string text = std::string(name_of(*config.method)) + ", up to " + std::to_string(most_drafts()) +
                     " draft" + (most_drafts() == 1 ? "" : "s");
  if (!config.model.empty()) text += " of " + config.model;
  if (!config.adaptive) text += ", always as many";
  if (config.disable_above_seq_len > 0)
    text += ", up to " + std::to_string(config.disable_above_seq_len) + " tokens";
  return text;
}

void log_trial(const DraftTrialReport& report) {
  if (const auto warning = warning_of(report)) {
    spdlog::warn("{}", *warning);
  } else {
    spdlog::info("speculation: the draft guessed {} of {} tokens of a text of the model's own", report.right,
                 report.guessed);
  }
}

Result<std::shared_ptr<const Speculation>> open_speculation(const ServeFlags& flags,
                                                            const ModelConfig& target) {
  if (flags.speculative_config.empty()) return std::shared_ptr<const Speculation>();
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
  speculation.aux_layers = aux_layers_for(speculation.config, target, draft);
  for (const std::string& note : speculation.config.notes) spdlog::info("--speculative-config: {}", note);
  return std::shared_ptr<const Speculation>(std::make_shared<Speculation>(std::move(speculation)));
}

}  // namespace tessera
