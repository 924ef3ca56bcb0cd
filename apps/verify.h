// `tessera verify`: two configurations, or a whole table of them, answer the same prompts and are compared.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "processes.h"

namespace CLI {
class App;
}

namespace tessera {

struct VerifyFlags {
  std::string model;
  std::string a;  // flags of `tessera serve`, as one string
  std::string b;
  std::string prompts;             // a file with one prompt a line; empty: the built-in ones
  std::string level;               // empty: what the two configurations promise
  std::optional<double> kl_bound;  // nats; absent: that of the promise
  int tokens = 32;
  bool json = false;

  bool matrix = false;  // every row is compared with one rank, the same row format, the widest chunk
  std::vector<int> tensor_parallel = {1, 2, 4, 8};
  std::vector<int> context_parallel;  // empty: every D that divides T
  std::vector<std::string> kv_cache_dtypes = {"f32", "bf16", "fp8", "fp8_ds_mla"};
  std::vector<int> chunks = {64, 2048};
  std::string dcp_mode = "always";
};

void declare_verify_flags(CLI::App& app, VerifyFlags& flags);
// Exit status: 0 promises kept, 1 not kept, 2 what cannot be compared. With several processes every one calls
// it; process 0 prints.
int run_verify(const VerifyFlags& flags, Processes* processes);

}  // namespace tessera
