// The server's own cost: short chat requests over loopback connections that stay open, against a StubEngine
// that answers at once, so that nothing but HTTP, JSON, template, tokenizer and output code is measured.
// Client and server share the machine's cores; the client is a plain blocking socket per connection, whose
// CPU time is counted apart.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "bench/report/bench_report.h"

namespace tessera::bench {

struct ServerCostOptions {
  std::string model;  // folder: its tokenizer and template
  int connections = 32;
  double seconds = 5;
  int io_threads = 2;
  int tokens = 8;  // of each answer
  bool stream = false;
};

struct ServerCost {
  double requests_per_s = 0;
  double cpu_us = 0;         // of server and stub, a request
  double client_cpu_us = 0;  // of the client, a request
  double events = 0;         // of a streamed answer that carry text; 0: not streamed
  std::vector<double> latencies_ms;
};

Result<ServerCost> measure_server(const ServerCostOptions& options);
void add_measurements(const ServerCostOptions& options, const ServerCost& cost, BenchReport& report);

}  // namespace tessera::bench
