// tessera-exchange-bench MODEL [RANKS [SEQUENCES [CONTEXT]]]: prints the table of exchange_bench.h.
#include <cstdio>
#include <cstdlib>

#include "bench/exchange/exchange_bench.h"

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: tessera-exchange-bench MODEL [RANKS [SEQUENCES [CONTEXT]]]\n");
    return 2;
  }
  tessera::ExchangeBenchOptions options{.model = argv[1]};
  if (argc > 2) options.ranks = std::atoi(argv[2]);
  if (argc > 3) options.sequences = std::atoi(argv[3]);
  if (argc > 4) options.context = std::atoi(argv[4]);
  std::erase_if(options.context_ranks, [&](int d) { return options.ranks % d != 0; });
  const auto report = tessera::measure_exchanges(options);
  if (!report) {
    std::fprintf(stderr, "%s\n", report.error().message().c_str());
    return 2;
  }
  std::fputs(tessera::exchange_text(*report).c_str(), stdout);
  return 0;
}
