// What steps cost, by how many drafts they carried and in which situation: measured, and where not yet
// measured, carried over from the most similar situation.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace tessera {

// What the cost of a decode step depends on, besides the number of drafts.
struct StepSituation {
  std::int32_t batch = 0;      // decoding sequences
  std::int32_t draftable = 0;  // of them, those that may draft
  std::int64_t context = 0;    // tokens that all of them attend to together
};

class StepCosts {
 public:
  explicit StepCosts(std::int32_t most_drafts) : most_drafts_(most_drafts) {}

  // Settled: the steps before it had as many drafts, so caches hold what it needs. Others count only until
  // such a step has been measured.
  void record(const StepSituation& situation, std::int32_t drafts, double seconds, bool is_settled = true);

  // Seconds of a step; nothing before a few such steps have been measured, here or in a similar situation.
  std::optional<double> seconds(const StepSituation& situation, std::int32_t drafts) const;
  std::int64_t samples(const StepSituation& situation,
                       std::int32_t drafts) const;  // measured right here
  // By what share the cost may really be lower: how much dearer one more draft is depends on the batch, so
  // what is carried over from afar says little. 0: measured right here.
  double doubt(const StepSituation& situation, std::int32_t drafts) const;

  // Situations of one cell cost about the same: batches one by one up to 16, then in steps of a quarter
  // octave, as contexts are throughout.
  struct Cell {
    std::int32_t batch = 0;
    std::int32_t context = 0;
    std::int32_t draftable = 0;  // quarters of the batch
    friend auto operator<=>(const Cell&, const Cell&) = default;
  };
  static Cell cell_of(const StepSituation& situation);

 private:
  struct Cost {
    double mean = 0;  // fading average of what was measured here
    std::int64_t samples = 0;
    bool is_settled = false;    // all samples are
    std::int32_t outliers = 0;  // in a row
    double inherited = 0;       // from the cell's origin; 0: none
  };
  struct Costs {
    std::vector<Cost> of;           // [most_drafts + 1]
    const Costs* origin = nullptr;  // the cell that was most similar when this one was entered
    double doubt = 0;               // of what was inherited
  };
  struct Similar {
    const Costs* costs = nullptr;
    double doubt = 0;
  };

  void inherit(Costs& costs) const;  // what its origin knows by now
  std::optional<double> seconds_in(const Costs& costs, std::int32_t drafts) const;
  Similar most_similar(const Cell& cell) const;

  std::int32_t most_drafts_;
  std::map<Cell, Costs> cells_;
};

}  // namespace tessera
