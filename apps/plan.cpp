#include "plan.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>

#include "plan/plan_report.h"

namespace tessera {
namespace {

// A model's names, shapes and formats: from its files' headers where there are files, else from the config.
struct Outline {
  Checkpoint checkpoint;
  bool from_files = false;
};
Result<Outline> outline_of(const std::string& path) {
  if (std::filesystem::is_directory(path) && TensorFiles::are_in(path)) {
    TS_TRY(const Checkpoint opened, Checkpoint::open(path));
    TS_TRY(Checkpoint outline, opened.outline());
    return Outline{std::move(outline), true};
  }
  TS_TRY(const ModelConfig config, read_model_config(path));
  TS_TRY(Checkpoint outline, Checkpoint::outline(config));
  return Outline{std::move(outline), false};
}

Result<void> at_least_one(const char* flag, std::int64_t value) {
  if (value >= 1) return {};
  return Error{ErrorKind::kInvalidArgument, flag, "is " + std::to_string(value) + "; it must be at least 1."};
}

Result<std::string> plan(const PlanFlags& flags) {
  TS_TRY(at_least_one("--max-num-seqs", flags.max_num_seqs));
  TS_TRY(at_least_one("--max-num-batched-tokens", flags.max_num_batched_tokens));
  TS_TRY(at_least_one("--block-size", flags.block_size));
  TS_TRY(at_least_one("--max-model-len", flags.max_model_len.value_or(1)));
  TS_TRY(at_least_one("--tensor-parallel-size", flags.tensor_parallel_size.value_or(1)));
  TS_TRY(at_least_one("--decode-context-parallel-size", flags.decode_context_parallel_size.value_or(1)));
  if (flags.num_speculative_tokens < 1 || flags.num_speculative_tokens > 7) {
    return Error{ErrorKind::kInvalidArgument, "--num-speculative-tokens",
                 "is " + std::to_string(flags.num_speculative_tokens) + "; it must be between 1 and 7."};
  }
  GpuPlanRequest request;
  TS_TRY(request.gpus, parse_gpus(flags.gpu));
  request.utilisation = flags.gpu_memory_utilization;
  request.tensor_parallel = flags.tensor_parallel_size;
  request.context_parallel = flags.decode_context_parallel_size;
  request.expert_parallel = flags.expert_parallel;
  request.draft_tokens = flags.num_speculative_tokens;
  TS_TRY(const Outline target, outline_of(flags.model));
  std::optional<Outline> draft;
  if (!flags.draft.empty()) {
    TS_TRY(Outline opened, outline_of(flags.draft));
    draft = std::move(opened);
  }
  TS_TRY(const KvFormat format, parse_kv_format(flags.kv_cache_dtype, KvFormat::kBF16));
  TS_TRY(request.draft_kv_format, parse_kv_format(flags.draft_kv_cache_dtype, KvFormat::kBF16));
  request.runner = {.max_num_seqs = flags.max_num_seqs,
                    .max_num_batched_tokens = std::max(flags.max_num_batched_tokens, flags.max_num_seqs),
                    .max_model_len = flags.max_model_len.value_or(
                        static_cast<std::int32_t>(target.checkpoint.config().max_positions)),
                    .block_size = flags.block_size,
                    .kv_blocks = 0,
                    .kv_format = format};
  std::optional<PlanModel> draft_model;
  if (draft) draft_model = {flags.draft, &draft->checkpoint, draft->from_files};
  TS_TRY(const GpuPlan made,
         plan_gpus({flags.model, &target.checkpoint, target.from_files}, draft_model, request));
  const ModelConfig& config = target.checkpoint.config();
  return flags.json ? plan_json(config, made) : plan_text(config, made);
}

}  // namespace

void declare_plan_flags(CLI::App& app, PlanFlags& flags) {
  app.add_option("model,--model", flags.model, "Model folder, or a config.json without weights")->required();
  app.add_option("--gpu", flags.gpu,
                 "NAME:COUNT[:GiB that CUDA sees on each], e.g. H200:8 or rtx-pro-6000:8:95.6")
      ->required();
  app.add_option("--draft", flags.draft, "Draft model for speculation: folder or config.json");
  app.add_option("--num-speculative-tokens", flags.num_speculative_tokens, "Draft tokens a proposal")
      ->capture_default_str();
  app.add_option("--draft-kv-cache-dtype", flags.draft_kv_cache_dtype, "auto (bf16), bf16, fp8, fp8_ds_mla")
      ->capture_default_str();
  app.add_option("--tensor-parallel-size", flags.tensor_parallel_size, "Ranks (default: all GPUs)");
  app.add_option("--decode-context-parallel-size", flags.decode_context_parallel_size,
                 "Ranks that share a sequence's cache (default: every size that divides the ranks)");
  app.add_flag("--enable-expert-parallel", flags.expert_parallel,
               "Whole experts on each rank instead of a slice of each");
  app.add_option("--kv-cache-dtype", flags.kv_cache_dtype, "auto (bf16), bf16, fp8, fp8_ds_mla")
      ->capture_default_str();
  app.add_option("--max-model-len", flags.max_model_len,
                 "Longest prompt + output, in tokens (default: the model's)");
  app.add_option("--max-num-seqs", flags.max_num_seqs, "Most sequences in a step")->capture_default_str();
  app.add_option("--max-num-batched-tokens", flags.max_num_batched_tokens, "Most query tokens in a step")
      ->capture_default_str();
  app.add_option("--block-size", flags.block_size, "Tokens in a block of the KV cache")
      ->capture_default_str();
  app.add_option("--gpu-memory-utilization", flags.gpu_memory_utilization,
                 "Share of the visible memory that may be used")
      ->capture_default_str();
  app.add_flag("--json", flags.json, "Print JSON");
  app.footer(R"(
Examples:
  tessera plan models/configs/kimi-k2.6.json --gpu rtx-pro-6000:8 --kv-cache-dtype fp8 --gpu-memory-utilization 0.94
  tessera plan /models/Kimi-K2.6 --gpu H200:8 --decode-context-parallel-size 8 --json)");
}

int run_plan(const PlanFlags& flags) {
  const auto text = plan(flags);
  if (!text) {
    std::cerr << "tessera: " << text.error().message() << '\n';
    return 2;
  }
  std::cout << *text;
  return 0;
}

}  // namespace tessera
