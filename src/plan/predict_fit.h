// Fits the prediction's constants to a published matrix, and says how well they do on cells they have not
// seen.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "plan/predict.h"

namespace tessera {

struct PublishedCell {
  DecodeQuestion question;
  double tokens_per_s = 0;
};
// CSV with the columns dcp, num_speculative_tokens, context_tokens, concurrency, tokens_per_second; lines
// with
// '#' are comments.
Result<std::vector<PublishedCell>> read_published_matrix(std::string_view csv, const std::string& where);

// Every fourth cell is held out, shifted from row to row so that each concurrency is.
bool is_held_out(std::size_t cell);

struct FitError {  // of predicted over published - 1, absolute
  std::size_t cells = 0;
  double mean = 0;
  double median = 0;
  double p90 = 0;
  double worst = 0;
};
struct Fit {
  PredictConstants constants;
  BoxSpeed box;  // whose link was fitted too
  FitError seen;
  FitError held_out;
};

FitError error_of(const std::vector<PublishedCell>& cells, const StepWork& work, const BoxSpeed& box,
                  const PredictConstants& constants);
// From `start` and `box`, by descent along one constant after the other; the held-out cells are not looked
// at.
Fit fit_decode(const std::vector<PublishedCell>& cells, const StepWork& work, const BoxSpeed& box,
               const PredictConstants& start);

}  // namespace tessera
