#include "bench.h"

#include <CLI/CLI.hpp>
#include <iostream>

#include "bench_compare.h"
#include "bench_serve.h"

namespace tessera {

struct BenchCommand::Impl {
  CLI::App* bench = nullptr;
  CLI::App* serve = nullptr;
  CLI::App* compare = nullptr;
  BenchServeFlags serve_flags;
  BenchCompareFlags compare_flags;
};

BenchCommand::BenchCommand(CLI::App& app) : impl_(std::make_unique<Impl>()) {
  Impl& my = *impl_;
  my.bench = app.add_subcommand("bench", "Measure, and compare measurements");
  my.bench->require_subcommand(1);
  my.serve = my.bench->add_subcommand(
      "serve", "Load any OpenAI-compatible server: concurrency x context, request rates, traces");
  declare_bench_serve_flags(*my.serve, my.serve_flags);
  my.compare = my.bench->add_subcommand("compare", "Tell a change from noise between two results");
  declare_bench_compare_flags(*my.compare, my.compare_flags);
}
BenchCommand::~BenchCommand() = default;

bool BenchCommand::is_asked_for() const { return impl_->bench->parsed(); }

int BenchCommand::run() {
  Impl& my = *impl_;
  const auto status =
      my.serve->parsed() ? run_bench_serve(my.serve_flags) : run_bench_compare(my.compare_flags);
  if (status) return *status;
  std::cerr << "tessera: " << status.error().message() << '\n';
  return status.error().kind == ErrorKind::kInvalidArgument ? 2 : 1;
}

}  // namespace tessera
