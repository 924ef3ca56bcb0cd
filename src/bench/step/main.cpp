// tessera-op-bench: operations of Kimi-K2.6 on one GPU, against their floors.
//
//   tessera-op-bench [linear] [moe] [prefill] [small] [tokens=64,256,8192] [portable]
//
// tokens: of linear and moe. portable: products as older devices run them (CudaOptions::portable).
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "bench/step/op_bench.h"

namespace tessera::bench {
namespace {

void print(const std::vector<OpResult>& results) {
  const Ceilings ceilings;
  for (const OpResult& r : results) {
    const double floor = r.floor_us(ceilings);
    std::printf("%-34s %6lld %10.1f (%9.1f..%9.1f) %10.1f %6.1f%% %7.0f GB/s %7.1f TFLOP/s\n", r.name.c_str(),
                static_cast<long long>(r.tokens), r.us, r.low_us, r.high_us, floor, 100 * floor / r.us,
                r.bytes / r.us * 1e-3, r.flops / r.us * 1e-6);
    std::fflush(stdout);
  }
}

struct Choice {
  std::vector<std::string_view> what;  // all, if empty
  std::vector<std::int64_t> tokens;    // those of each operation, if empty
  bool portable = false;

  bool wants(std::string_view name) const { return what.empty() || std::ranges::count(what, name) > 0; }
  std::vector<std::int64_t> tokens_or(std::vector<std::int64_t> usual) const {
    return tokens.empty() ? usual : tokens;
  }
};

Choice choice_of(int argc, char** argv) {
  constexpr std::string_view kTokens = "tokens=";
  Choice choice;
  for (int i = 1; i < argc; ++i) {
    std::string_view word = argv[i];
    if (word == "portable") {
      choice.portable = true;
    } else if (word.starts_with(kTokens)) {
      word.remove_prefix(kTokens.size());
      while (!word.empty()) {
        std::int64_t count = 0;
        const char* end = word.data() + word.size();
        const auto [rest, error] = std::from_chars(word.data(), end, count);
        if (error != std::errc{} || count < 1 || (rest != end && *rest != ',')) {
          throw std::invalid_argument(std::string(argv[i]) +
                                      ": expected numbers of tokens, as tokens=64,256");
        }
        choice.tokens.push_back(count);
        word.remove_prefix(static_cast<std::size_t>(rest - word.data()) + (rest == end ? 0 : 1));
      }
    } else {
      choice.what.push_back(word);
    }
  }
  return choice;
}

int run(int argc, char** argv) {
  const Choice choice = choice_of(argc, argv);
  auto backend = make_cuda_backend({.portable = choice.portable});
  if (!backend) {
    std::fprintf(stderr, "%s\n", backend.error().message().c_str());
    return 1;
  }
  OpBench bench(**backend);
  std::printf("%s\n%-34s %6s %10s %24s %10s %7s\n", (*backend)->name().c_str(), "operation", "tokens", "us",
              "(low .. high)", "floor us", "share");
  if (choice.wants("moe")) {
    print(bench.moe({}, choice.tokens_or({1, 2, 4, 8, 16, 32, 64, 128, 512, 4096})));
  }
  if (choice.wants("linear")) {
    const std::vector<std::int64_t> tokens = choice.tokens_or({1, 8, 16, 64, 256, 8192});
    for (const LinearCase& c :
         {LinearCase{.name = "q_a + kv_a 2112 x 7168", .out = 2112, .in = 7168},
          LinearCase{.name = "q_b 12288 x 1536", .out = 12288, .in = 1536},
          LinearCase{.name = "o 7168 x 8192", .out = 7168, .in = 8192},
          LinearCase{.name = "router 384 x 7168", .out = 384, .in = 7168},
          LinearCase{.name = "shared gate_up 4096 x 7168", .out = 4096, .in = 7168},
          LinearCase{.name = "shared down 7168 x 2048", .out = 7168, .in = 2048},
          LinearCase{.name = "k_up 64 x 512 x 128", .out = 512, .in = 128, .heads = 64},
          LinearCase{.name = "v_up 64 x 128 x 512", .out = 128, .in = 512, .heads = 64}}) {
      print(bench.linear(c, tokens));
    }
    if (choice.tokens.empty()) {
      print(bench.linear({.name = "lm_head 163840 x 7168", .out = 163840, .in = 7168}, {1, 16}));
    }
    print(bench.linear(
        {.name = "fp8 o 7168 x 8192", .format = WeightFormat::kFp8Block128, .out = 7168, .in = 8192},
        choice.tokens_or({1, 16, 8192})));
  }
  if (choice.wants("prefill")) {
    print({bench.prefill({}, 2048)});
    print({bench.prefill({}, 8192)});
    print({bench.prefill({.context = 32768}, 2048)});
    print({bench.prefill({.context = 131072}, 512)});
  }
  if (choice.wants("small")) {
    print(bench.small_ops(1));
    print(bench.small_ops(64));
  }
  return 0;
}

}  // namespace
}  // namespace tessera::bench

int main(int argc, char** argv) {
  try {
    return tessera::bench::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
