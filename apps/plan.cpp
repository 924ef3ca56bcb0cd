#include "plan.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>

#include "plan/plan_report.h"
#include "plan/predict_report.h"
#include "whole_file.h"

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

// The box and its constants, as the flags change them.
Result<PredictRequest> prediction_of(const PlanFlags& flags, const ModelConfig& config, const GpuPlan& plan) {
  PredictRequest request{.contexts = flags.contexts,
                         .concurrencies = flags.concurrencies,
                         .box = box_speed(plan.request.gpus.card),
                         .constants = published_constants(),
                         .fit = {}};
  const auto goal = parse_goal(flags.goal);
  if (!goal)
    return Error{ErrorKind::kInvalidArgument, "--goal",
                 "is '" + flags.goal + "'; it must be latency, balance or capacity."};
  request.goal = *goal;
  for (const std::int64_t context : flags.contexts) TS_TRY(at_least_one("--context", context + 1));
  for (const std::int64_t concurrency : flags.concurrencies)
    TS_TRY(at_least_one("--concurrency", concurrency));
  const auto set = [](const char* flag, const std::optional<double>& value, double most,
                      double& place) -> Result<void> {
    if (!value) return {};
    if (!(*value > 0 && *value <= most))
      return Error{ErrorKind::kInvalidArgument, flag,
                   "is " + std::to_string(*value) + "; it must be above 0."};
    place = *value;
    return {};
  };
  TS_TRY(set("--memory-gb-s", flags.memory_gb_s, 1e6, request.box.memory_gb_s));
  TS_TRY(set("--tflop-s", flags.tflop_s, 1e6, request.box.tflop_s));
  TS_TRY(set("--link-gb-s", flags.link_gb_s, 1e6, request.box.link_gb_s));
  TS_TRY(set("--link-us", flags.link_us, 1e6, request.box.link_us));
  request.box.is_known = request.box.is_known || (flags.memory_gb_s && flags.tflop_s);
  if (!flags.fit.empty()) {
    TS_TRY(const std::string csv, read_whole_file(flags.fit));
    TS_TRY(const std::vector<PublishedCell> cells, read_published_matrix(csv, flags.fit));
    request.fit = fit_decode(cells, step_work(config, plan), request.box, request.constants);
    request.constants = request.fit->constants;
    request.box = request.fit->box;
  }
  TS_TRY(set("--acceptance", flags.acceptance, 1, request.constants.acceptance));
  return request;
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
  if (flags.predict) {
    TS_TRY(const PredictRequest prediction, prediction_of(flags, config, made));
    return flags.json ? predict_json(config, made, prediction) : predict_text(config, made, prediction);
  }
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
  app.add_flag("--predict", flags.predict,
               "Expected decode and prefill throughput, and the profile for a goal");
  app.add_option("--goal", flags.goal, "With --predict: latency, balance or capacity")->capture_default_str();
  app.add_option("--context", flags.contexts, "With --predict: contexts in tokens")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--concurrency", flags.concurrencies, "With --predict: streams at a time")
      ->delimiter(',')
      ->capture_default_str();
  app.add_option("--acceptance", flags.acceptance,
                 "With --predict: share of drafted tokens accepted, given those before (default: fitted)");
  app.add_option("--memory-gb-s", flags.memory_gb_s, "With --predict: memory bandwidth of a GPU");
  app.add_option("--tflop-s", flags.tflop_s, "With --predict: dense bf16 of a GPU");
  app.add_option("--link-gb-s", flags.link_gb_s, "With --predict: bandwidth of collectives");
  app.add_option("--link-us", flags.link_us, "With --predict: latency of a small collective");
  app.add_option("--fit", flags.fit, "With --predict: CSV of measured throughputs to fit to, errors printed");
  app.footer(R"(
Examples:
  tessera plan models/configs/kimi-k2.6.json --gpu rtx-pro-6000:8 --kv-cache-dtype fp8 --gpu-memory-utilization 0.94
  tessera plan /models/Kimi-K2.6 --gpu H200:8 --decode-context-parallel-size 8 --json
  tessera plan models/configs/kimi-k2.6.json --gpu rtx-pro-6000:8 --kv-cache-dtype fp8 --predict --goal latency)");
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
