// Whether and how far to speculate in the next step, so that throughput is never below the better of always
// and never speculating.
//
// Of the draft lengths 0 .. k the gate takes the one with the most tokens a second: expected tokens from the
// measured acceptance at each position, seconds from the measured costs of such steps. What it does not use
// it has to try now and then, or it would never learn that conditions have changed: probes may lose one
// percent of the time, last until steps have settled, come at once where nothing is known or what is known
// comes from a situation too different to tell, and ever more rarely where they confirm what is known.
//
// Pure decisions: no clock, no randomness. The same records give the same decisions, so ranks agree if rank
// 0's measurements are sent to all, or if one decides.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "speculative/acceptance.h"
#include "speculative/step_costs.h"

namespace tessera {

struct GateOptions {
  std::int32_t most_drafts = 1;            // num_speculative_tokens
  bool adaptive = true;                    // false: always most_drafts, within the two limits
  std::int32_t disable_above_seq_len = 0;  // sequences longer than this do not draft; 0: no limit
  std::int32_t disable_by_batch_size = 0;  // steps of more sequences do not draft; 0: no limit
  double probe_share = 0.01;               // of the time, that probes may lose
};

enum class GateReason : std::uint8_t {
  kFixed,      // not adaptive
  kNobody,     // no sequence may draft
  kBatchSize,  // disable_by_batch_size
  kUnknown,    // this draft length has never been measured
  kBest,       // most tokens a second
  kProbe,      // worse by what is known, which is getting old
};
const char* name_of(GateReason reason);

struct GateDecision {
  std::int32_t drafts = 0;
  GateReason reason = GateReason::kBest;
};

// What a step with so many drafts is believed to be worth.
struct GateOption {
  std::int32_t drafts = 0;
  double tokens = 0;         // of the whole batch
  double seconds = 0;        // 0: not known
  std::int64_t samples = 0;  // measured in this very situation
  double doubt = 0;          // by what share the seconds may be fewer
  double per_second() const { return seconds > 0 ? tokens / seconds : 0; }
  double at_best() const { return per_second() / (1 - doubt); }
};

struct StepRecord {
  StepSituation situation;
  std::int32_t drafts = 0;  // as decided
  double seconds = 0;       // of the whole step; 0: not comparable (it carried prompts, a graph was captured)
  std::int32_t drafted = 0;                        // sequences that had all `drafts` drafts verified
  std::span<const std::int32_t> accepted_at = {};  // [drafts] sequences whose drafts 0 .. i stood
};

class SpeculationGate {
 public:
  explicit SpeculationGate(const GateOptions& options);

  bool may_draft(std::int32_t seq_len) const {
    return options_.disable_above_seq_len <= 0 || seq_len <= options_.disable_above_seq_len;
  }
  // For the step's sequences together; those that may_draft() refuses get none.
  GateDecision decide(const StepSituation& situation) const;
  // After the step. Steps that were not decided here (drained, replayed) may be recorded too.
  void record(const StepRecord& record);

  std::vector<GateOption> explain(const StepSituation& situation) const;
  const AcceptanceEstimate& acceptance() const { return acceptance_; }

 private:
  GateOption option(const StepSituation& situation, std::int32_t drafts) const;
  // As explain(), in place: the memory of the last call.
  const std::vector<GateOption>& weigh(const StepSituation& situation) const;
  std::int32_t best_of(const std::vector<GateOption>& options) const;

  GateOptions options_;
  AcceptanceEstimate acceptance_;
  StepCosts costs_;
  std::vector<std::int64_t> last_used_;      // [most_drafts + 1] step that had so many drafts
  mutable std::vector<GateOption> weighed_;  // [most_drafts + 1]
  std::int64_t steps_ = 0;
  std::int32_t run_of_ = 0;   // drafts of the newest steps,
  std::int32_t run_ = 0;      // so many in a row
  std::int32_t current_ = 0;  // the length that was best last, for hysteresis
};

}  // namespace tessera
