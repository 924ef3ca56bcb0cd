#include "speculative/gate.h"

#include <algorithm>

#include "base/check.h"

namespace tessera {
namespace {

// A length must be this much better to displace the current one.
constexpr double kHysteresis = 1.005;
// Steps between two probes of one length, at least and at most.
constexpr double kShortestInterval = 8;
constexpr double kLongestInterval = 16384;
// Steps after a change that are not yet like those to come: on a CPU the first ones cost up to a third more,
// since caches still hold what others used.
constexpr std::int32_t kSettling = 3;

}  // namespace

const char* name_of(GateReason reason) {
  switch (reason) {
    case GateReason::kFixed:
      return "fixed";
    case GateReason::kNobody:
      return "nobody may draft";
    case GateReason::kBatchSize:
      return "batch size";
    case GateReason::kUnknown:
      return "not measured yet";
    case GateReason::kBest:
      return "best";
    case GateReason::kProbe:
      return "probe";
  }
  return "?";
}

SpeculationGate::SpeculationGate(const GateOptions& options)
    : options_(options),
      acceptance_(options.most_drafts),
      costs_(options.most_drafts),
      last_used_(static_cast<std::size_t>(options.most_drafts) + 1),
      weighed_(last_used_.size()),
      current_(options.most_drafts) {
  TS_CHECK(options.most_drafts >= 1, options.most_drafts);
}

GateOption SpeculationGate::option(const StepSituation& situation, std::int32_t drafts) const {
  const double more = acceptance_.tokens(drafts) - 1;
  return {.drafts = drafts,
          .tokens = static_cast<double>(situation.batch) + static_cast<double>(situation.draftable) * more,
          .seconds = costs_.seconds(situation, drafts).value_or(0),
          .samples = costs_.samples(situation, drafts),
          .doubt = costs_.doubt(situation, drafts)};
}

std::vector<GateOption> SpeculationGate::explain(const StepSituation& situation) const {
  return weigh(situation);
}

const std::vector<GateOption>& SpeculationGate::weigh(const StepSituation& situation) const {
  for (std::int32_t k = 0; k <= options_.most_drafts; ++k)
    weighed_[static_cast<std::size_t>(k)] = option(situation, k);
  return weighed_;
}

std::int32_t SpeculationGate::best_of(const std::vector<GateOption>& options) const {
  std::int32_t best = current_;
  double most = options[static_cast<std::size_t>(current_)].per_second() * kHysteresis;
  for (const GateOption& one : options) {
    if (one.drafts == current_ || one.per_second() <= most) continue;
    most = one.per_second();
    best = one.drafts;
  }
  return best;
}

GateDecision SpeculationGate::decide(const StepSituation& situation) const {
  if (situation.draftable <= 0 || situation.batch <= 0) return {0, GateReason::kNobody};
  if (options_.disable_by_batch_size > 0 && situation.batch > options_.disable_by_batch_size) {
    return {0, GateReason::kBatchSize};
  }
  if (!options_.adaptive) return {options_.most_drafts, GateReason::kFixed};

  const std::vector<GateOption>& options = weigh(situation);
  // Longest first: its step measures acceptance at every position.
  for (std::int32_t k = options_.most_drafts; k >= 0; --k) {
    if (options[static_cast<std::size_t>(k)].seconds <= 0) return {k, GateReason::kUnknown};
  }
  const GateOption& best = options[static_cast<std::size_t>(best_of(options))];
  const auto is_hopeful = [&](const GateOption& one) {
    return one.drafts != best.drafts && one.doubt > 0 && one.at_best() > best.per_second();
  };
  // A trial goes on until its steps have settled, unless it has shown already that it is not worth that.
  if (run_ > 0 && run_ <= kSettling && run_of_ != best.drafts) {
    const GateOption& tried = options[static_cast<std::size_t>(run_of_)];
    if (tried.doubt == 0 || is_hopeful(tried)) return {run_of_, GateReason::kProbe};
  }
  // What may well be better and was hardly measured here.
  const GateOption* hopeful = nullptr;
  for (const GateOption& one : options) {
    if (!is_hopeful(one)) continue;
    if (hopeful == nullptr || one.at_best() > hopeful->at_best()) hopeful = &one;
  }
  if (hopeful != nullptr) return {hopeful->drafts, GateReason::kProbe};
  // Of the lengths that are due, the one that has waited longest in proportion.
  GateDecision decision{best.drafts, GateReason::kBest};
  double longest_wait = 1;
  for (const GateOption& one : options) {
    if (one.drafts == best.drafts) continue;
    const double loss = (one.seconds - one.tokens / best.per_second()) / best.seconds;  // in best steps
    const double share = options_.probe_share / options_.most_drafts;
    const double interval = std::clamp((1 + kSettling) * loss / share, kShortestInterval, kLongestInterval);
    const std::int64_t waited = steps_ - last_used_[static_cast<std::size_t>(one.drafts)];
    const double wait = static_cast<double>(waited) / interval;
    if (wait < longest_wait) continue;
    longest_wait = wait;
    decision = {one.drafts, GateReason::kProbe};
  }
  return decision;
}

void SpeculationGate::record(const StepRecord& record) {
  TS_CHECK(record.drafts >= 0 && record.drafts <= options_.most_drafts, record.drafts, options_.most_drafts);
  if (record.drafted > 0) acceptance_.record(record.drafted, record.accepted_at);
  if (record.seconds <= 0) {
    run_ = 0;
    return;
  }
  ++steps_;
  run_ = record.drafts == run_of_ ? run_ + 1 : 1;
  run_of_ = record.drafts;
  last_used_[static_cast<std::size_t>(record.drafts)] = steps_;
  costs_.record(record.situation, record.drafts, record.seconds, run_ > kSettling);
  const std::vector<GateOption>& options = weigh(record.situation);
  if (std::ranges::all_of(options, [](const GateOption& o) { return o.seconds > 0; }))
    current_ = best_of(options);
}

}  // namespace tessera
