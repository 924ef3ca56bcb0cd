// What decode context parallelism costs beside the computation: steps of a real model on ranks that are
// threads of one machine, for several sizes D. The same ranks and weights each time, so that only D differs.
//
// The layouts are kept side by side and take turns, a few steps each, so that whatever else the machine does
// meets all of them alike.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace tessera {

struct ExchangeBenchOptions {
  std::string model;  // folder
  int ranks = 8;      // T
  std::vector<int> context_ranks = {1, 2, 4, 8};
  std::int32_t sequences = 8;          // that decode in each step
  std::int32_t context = 1024;         // tokens of each at the beginning
  std::int32_t elastic_context = 128;  // likewise of the short sequences that elastic mode replicates
  std::int32_t rounds = 8;             // turns of each layout
  std::int32_t elastic_rounds = 60;    // further turns of the two layouts of short sequences
  std::int32_t steps = 4;              // of a turn
  std::function<void(std::int32_t round, std::int32_t of)> on_round = [](std::int32_t, std::int32_t) {};
};

// Medians over steps, in microseconds, as rank 0 saw them.
struct ExchangeRow {
  int context_ranks = 1;
  bool elastic = false;  // short sequences that stay on every rank
  std::int32_t context = 0;
  double step = 0;
  double cpu = 0;              // that all ranks together spent on a step: little disturbed by other programs
  double tp_collectives = 0;   // of the step: sums over all T ranks, waiting included
  double dcp_collectives = 0;  // of the step: queries and partial results within D ranks, waiting included
  double exchange_a_layer =
      0;  // the same calls alone, all ranks at the same time, without computation; 0: D = 1
  double bytes_a_layer = 0;  // that a rank sends within D ranks
};
struct ExchangeReport {
  ExchangeBenchOptions options;
  std::int64_t layers = 0;
  std::vector<ExchangeRow> rows = {};
  // Steps of short sequences under elastic D = max against D = 1, taken in turns: medians of the quotients of
  // neighbouring turns, by the clock and by CPU time.
  double elastic_quotient = 0;
  double elastic_cpu_quotient = 0;
};

Result<ExchangeReport> measure_exchanges(const ExchangeBenchOptions& options);

}  // namespace tessera
