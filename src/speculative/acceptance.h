// How likely the draft at each position is to stand, given that those before it did: measured, and quick to
// notice that the text has changed.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera {

class AcceptanceEstimate {
 public:
  explicit AcceptanceEstimate(std::int32_t positions) : positions_(static_cast<std::size_t>(positions)) {}

  // `drafted` sequences had a draft at positions [0, accepted_at.size()); accepted_at[i] of them kept it.
  void record(std::int32_t drafted, std::span<const std::int32_t> accepted_at);

  // P(draft i stands | all before it do).
  double at(std::int32_t position) const;
  // Tokens of a step with k drafts: 1 + sum of P(drafts 0 .. i stand).
  double tokens(std::int32_t drafts) const;
  std::int64_t samples() const { return samples_; }
  std::int64_t changes() const { return changes_; }  // how often a sudden change was noticed

 private:
  // Hits and tries that fade: a slow one for precision, a fast one that says when the slow one is out of
  // date.
  struct Faded {
    double hits = 0;
    double tries = 0;
    void add(double hit, double tried, double window);
    double rate() const { return tries > 0 ? hits / tries : 0; }
  };
  struct Position {
    Faded slow, fast;
  };
  std::vector<Position> positions_;
  std::int64_t samples_ = 0;
  std::int64_t changes_ = 0;
};

}  // namespace tessera
