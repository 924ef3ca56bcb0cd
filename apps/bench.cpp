#include "bench.h"

#include <CLI/CLI.hpp>
#include <functional>
#include <iostream>
#include <utility>
#include <vector>

#include "bench_collectives.h"
#include "bench_compare.h"
#include "bench_gate.h"
#include "bench_mla.h"
#include "bench_serve.h"
#include "bench_server.h"
#include "bench_step.h"

namespace tessera {

struct BenchCommand::Impl {
  CLI::App* bench = nullptr;
  std::vector<std::pair<CLI::App*, std::function<Result<int>()>>> verbs;
  BenchServeFlags serve;
  BenchCompareFlags compare;
  BenchGateFlags gate;
  BenchCollectivesFlags collectives;
  BenchServerFlags server;
  BenchStepFlags step;
  BenchMlaFlags mla;
};

BenchCommand::BenchCommand(CLI::App& app) : impl_(std::make_unique<Impl>()) {
  Impl& my = *impl_;
  my.bench = app.add_subcommand("bench", "Measure, and compare measurements");
  my.bench->require_subcommand(1);
  const auto verb = [&my](const char* name, const char* what, auto& flags, auto declare, auto measure) {
    CLI::App* command = my.bench->add_subcommand(name, what);
    declare(*command, flags);
    my.verbs.emplace_back(command, [&flags, measure] { return measure(flags); });
  };
  verb("serve", "Load any OpenAI-compatible server: concurrency x context, request rates, traces", my.serve,
       declare_bench_serve_flags, run_bench_serve);
  verb("compare", "Tell a change from noise between two results", my.compare, declare_bench_compare_flags,
       run_bench_compare);
  verb("gate", "Whether the speculation gate decides well", my.gate, declare_bench_gate_flags,
       run_bench_gate);
  verb("step", "A decode step at a real model's width, from its config alone", my.step,
       declare_bench_step_flags, run_bench_step);
  verb("mla", "MLA decode attention beside what memory and arithmetic allow", my.mla, declare_bench_mla_flags,
       run_bench_mla);
  verb("collectives", "What the exchange between ranks costs", my.collectives,
       declare_bench_collectives_flags, run_bench_collectives);
  verb("server", "What the server itself costs, over an engine that answers at once", my.server,
       declare_bench_server_flags, run_bench_server);
}
BenchCommand::~BenchCommand() = default;

bool BenchCommand::is_asked_for() const { return impl_->bench->parsed(); }

int BenchCommand::run() {
  for (const auto& [command, run_verb] : impl_->verbs) {
    if (!command->parsed()) continue;
    const auto status = run_verb();
    if (status) return *status;
    std::cerr << "tessera: " << status.error().message() << '\n';
    return status.error().kind == ErrorKind::kInvalidArgument ? 2 : 1;
  }
  return 2;
}

}  // namespace tessera
