// `tessera plan`: what fits on which GPUs, from a config alone.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace tessera {

struct PlanFlags {
  std::string model;  // a folder, or a config.json without weights
  std::string gpu;    // NAME:COUNT[:GiB]
  std::string draft;
  std::optional<int> tensor_parallel_size;
  std::optional<int> decode_context_parallel_size;
  bool expert_parallel = false;
  std::string kv_cache_dtype = "auto";
  std::optional<int> max_model_len;
  int max_num_seqs = 128;
  int max_num_batched_tokens = 2048;
  int block_size = 64;
  int num_speculative_tokens = 3;
  std::string draft_kv_cache_dtype = "auto";
  double gpu_memory_utilization = 0.9;
  bool json = false;

  bool predict = false;  // throughput, besides what fits
  std::string goal = "balance";
  std::vector<std::int64_t> contexts = {0, 16'384, 65'536, 131'072};
  std::vector<std::int64_t> concurrencies = {1, 8, 32, 128};
  std::string fit;  // CSV of a published matrix to fit anew
  std::optional<double> memory_gb_s, tflop_s, link_gb_s, link_us, acceptance;
};

void declare_plan_flags(CLI::App& app, PlanFlags& flags);
int run_plan(const PlanFlags& flags);  // exit status: 0, or 2 for what cannot be planned

}  // namespace tessera
