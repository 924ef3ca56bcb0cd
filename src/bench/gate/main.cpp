// tessera-gate-bench MODEL SPECULATIVE_CONFIG TEXT [ROUNDS [SEQUENCES [CONTEXT]]]: prints the table of
// gate_bench.h, in CPU time, for prompts cut from a file of text; of one cell, where that is named.
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <span>
#include <sstream>

#include "backend/cpu/cpu_backend.h"
#include "bench/gate/gate_bench.h"
#include "tokenizer/tokenizer.h"

namespace tessera {
namespace {

Result<void> run(std::span<char* const> argv) {
  TS_TRY(const Tokenizer tokenizer, Tokenizer::load(argv[1]));
  std::stringstream text;
  text << std::ifstream(argv[3]).rdbuf();
  TS_TRY(auto tokens, tokenizer.encode(text.str().substr(0, 200'000), ControlTokens::kAsText));
  if (tokens.empty()) return Error{ErrorKind::kInvalidArgument, argv[3], "The file has no text."};
  GateBenchOptions options{.model = argv[1],
                           .speculative_config = argv[2],
                           .make_backend = [] { return make_cpu_backend({.threads = 1}); },
                           .text = std::move(tokens),
                           .cpu_time = true};
  if (argv.size() > 4) options.rounds = std::atoi(argv[4]);
  if (argv.size() > 5) options.sequences = {std::atoi(argv[5])};
  if (argv.size() > 6) options.contexts = {std::atoi(argv[6])};
  TS_TRY(const GateBenchReport report, measure_gate(options));
  std::fputs(gate_text(report).c_str(), stdout);
  return {};
}

}  // namespace
}  // namespace tessera

int main(int argc, char** argv) {
  if (argc < 4) {
    std::fprintf(stderr,
                 "usage: tessera-gate-bench MODEL SPECULATIVE_CONFIG TEXT [ROUNDS [SEQUENCES [CONTEXT]]]\n");
    return 2;
  }
  if (const auto done = tessera::run({argv, static_cast<std::size_t>(argc)}); !done) {
    std::fprintf(stderr, "%s\n", done.error().message().c_str());
    return 2;
  }
  return 0;
}
