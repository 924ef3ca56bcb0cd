#include "bench/exchange/exchange_report.h"

#include <array>
#include <cstdio>
#include <map>

namespace tessera {

void fill_report(const ExchangeReport& measured, bench::BenchReport& report) {
  const ExchangeBenchOptions& options = measured.options;
  report.subject = options.model + ": " + std::to_string(options.ranks) + " ranks as threads, " +
                   std::to_string(options.sequences) + " sequences decode";
  struct Column {
    const char* metric;
    double ExchangeRow::*us;
  };
  constexpr std::array<Column, 4> kColumns = {
      {{"step", &ExchangeRow::step},
       {"CPU time of all ranks in a step", &ExchangeRow::cpu},
       {"sums over all ranks, waiting included", &ExchangeRow::tp_collectives},
       {"exchange within D ranks, waiting included", &ExchangeRow::dcp_collectives}}};
  for (const Column& column : kColumns) {
    for (const ExchangeRow& row : measured.rows) {
      if (column.us == &ExchangeRow::dcp_collectives && row.bytes_a_layer == 0) continue;
      std::map<std::string, double> facts;
      if (column.us == &ExchangeRow::dcp_collectives) {
        facts = {{"us_a_layer", row.dcp_collectives / static_cast<double>(measured.layers)},
                 {"us_a_layer_alone", row.exchange_a_layer},
                 {"bytes_a_layer", row.bytes_a_layer}};
      }
      report.measurements.push_back(
          {.metric = column.metric,
           .unit = "us",
           .axes = {{"context", row.context}, {"D", row.context_ranks}},
           .series = row.elastic ? "kept on every rank" : "spread",
           .value = row.*column.us,
           .higher_is_better = false,
           .group = column.us == &ExchangeRow::step ? std::string(bench::kShortDecode) : std::string(),
           .facts = std::move(facts)});
    }
  }
  std::array<char, 160> line;
  std::snprintf(line.data(), line.size(),
                "Short sequences, elastic D against D = 1: %+.1f %% by the clock, %+.1f %% by CPU time.",
                (measured.elastic_quotient - 1) * 100, (measured.elastic_cpu_quotient - 1) * 100);
  report.headline = line.data();
}

}  // namespace tessera
