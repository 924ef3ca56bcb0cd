#include "speculative/draft_health.h"

#include <utility>

#include "base/check.h"

namespace tessera {

void SpeculationCounters::record(std::int32_t drafted, std::int32_t accepted) {
  TS_CHECK(accepted >= 0 && accepted <= drafted, accepted, drafted);
  if (drafted == 0) return;
  if (accepted_at.size() < static_cast<std::size_t>(drafted)) {
    accepted_at.resize(static_cast<std::size_t>(drafted));
    verified_at.resize(static_cast<std::size_t>(drafted));
  }
  ++drafts;
  draft_tokens += drafted;
  accepted_tokens += accepted;
  for (std::int32_t i = 0; i < drafted; ++i) ++verified_at[static_cast<std::size_t>(i)];
  for (std::int32_t i = 0; i < accepted; ++i) ++accepted_at[static_cast<std::size_t>(i)];
}

std::optional<std::string> DraftAlarm::record(std::int32_t drafted, std::int32_t accepted) {
  if (drafted == 0 || fired_) return std::nullopt;
  ++firsts_;
  stood_ += accepted > 0 ? 1 : 0;
  if (firsts_ < kWindow) return std::nullopt;
  const bool bad = static_cast<double>(stood_) < kLeastRate * static_cast<double>(firsts_);
  bad_windows_ = bad ? bad_windows_ + 1 : 0;
  const std::int64_t stood = std::exchange(stood_, 0);
  const std::int64_t firsts = std::exchange(firsts_, 0);
  if (bad_windows_ < kBadWindows) return std::nullopt;
  fired_ = true;
  const std::string found = std::to_string(stood) + " of the last " + std::to_string(firsts);
  return "speculation: only " + found +
         " first drafts stood. The draft guesses noise: check that it was made for this model and that its "
         "config names the right hidden states; tokens stay right, but drafting is wasted.";
}

}  // namespace tessera
