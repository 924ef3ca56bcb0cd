#include "engine_setup.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "backend/cpu/cpu_backend.h"
#include "checkpoint/inspect.h"
#include "checkpoint/load_progress.h"
#include "checkpoint/read_ahead.h"
#include "comm/thread_communicator.h"
#include "engine/model_runner.h"
#include "engine/rank_group.h"
#include "model/context_exchange.h"

namespace tessera {
namespace {

// How long a rank may keep the others waiting before the server ends with a message.
constexpr std::chrono::milliseconds kRankDeadline{60'000};

// Of weights that are read from the disk before they are asked for.
constexpr std::int64_t kReadAheadBytes = std::int64_t{1} << 30;

constexpr std::int64_t kDefaultKvBytes = std::int64_t{2} << 30;

Result<KvFormat> parse_kv_format(const std::string& name) {
  if (name == "auto" || name == "f32" || name == "float32") return KvFormat::kF32;  // the CPU computes in f32
  if (name == "bf16" || name == "bfloat16") return KvFormat::kBF16;
  if (name == "fp8" || name == "fp8_e4m3") return KvFormat::kFp8;
  if (name == "fp8_ds_mla") return KvFormat::kFp8Grouped;
  return Error{ErrorKind::kInvalidArgument, "--kv-cache-dtype", "is '" + name + "', which is no row format."};
}

// The faster exchange for a full batch of decodes, as rank 0 of the group finds; on every rank the same.
DcpExchange measured_exchange(const RankDevice& device, const ModelConfig& config, const MemoryPlan& plan) {
  if (!device.dcp) return DcpExchange::kAllToAll;
  const MeasuredExchange measured =
      measure_exchange(*device.backend, *device.dcp,
                       {.tokens = plan.max_num_seqs,
                        .heads = config.heads / plan.ranks,
                        .key_dim = config.mla.kv_lora_rank + config.mla.rope_dim,
                        .value_dim = config.mla.kv_lora_rank,
                        .dtype = device.backend->activation_dtype()});
  if (device.dcp->rank() == 0) {
    spdlog::info("{}: {} rows of partial attention take {:.0f} us by a2a, {:.0f} us by ag_rs",
                 device.dcp->name(), plan.max_num_seqs, measured.all_to_all_us, measured.reduce_scatter_us);
  }
  return measured.faster;
}

std::string gib(std::int64_t bytes) {
  return fmt::format("{:.2f} GiB", static_cast<double>(bytes) / (1 << 30));
}

std::string describe_sharing(const MemoryPlan& plan) {
  if (plan.dcp_ranks == 1) return "";
  if (plan.replicate_up_to == 0) return fmt::format("; every sequence over {}", plan.dcp_ranks);
  return fmt::format("; sequences of more than {} tokens over {}", plan.replicate_up_to, plan.dcp_ranks);
}

}  // namespace

Result<MemoryPlan> plan_memory(const ServeFlags& flags, const Checkpoint& checkpoint) {
  const ModelConfig& config = checkpoint.config();
  MemoryPlan plan;
  plan.model = flags.model;
  plan.architecture = config.architecture_name;
  plan.ranks = flags.tensor_parallel_size;
  plan.dcp_ranks = flags.decode_context_parallel_size;
  plan.replicate_up_to = flags.dcp_mode == "always" ? 0 : flags.dcp_elastic_tokens;
  const int cores =
      flags.threads > 0 ? flags.threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  plan.threads_per_rank = std::max(1, cores / plan.ranks);
  plan.max_model_len = flags.max_model_len.value_or(static_cast<std::int32_t>(config.max_positions));
  plan.max_num_seqs = flags.max_num_seqs;
  plan.max_num_batched_tokens = std::max(flags.max_num_batched_tokens, flags.max_num_seqs);
  plan.block_size = flags.block_size;
  plan.prefix_caching = flags.prefix_caching;
  plan.batch_invariant = flags.batch_invariant;
  plan.weight_file_bytes = checkpoint.total_bytes();
  if (plan.max_model_len > config.max_positions) {
    return Error{
        ErrorKind::kInvalidArgument, "--max-model-len",
        fmt::format("is {}, but the model's positions end at {}.", plan.max_model_len, config.max_positions)};
  }
  TS_TRY(check_shardable(checkpoint, plan.ranks, flags.expert_parallel));
  TS_TRY(check_context_shardable(checkpoint, plan.ranks, plan.dcp_ranks));
  if (plan.batch_invariant && plan.dcp_ranks > 1) {
    return Error{
        ErrorKind::kInvalidArgument, "--batch-invariant",
        "fixes the order of every sum, but with --decode-context-parallel-size above 1 the order follows "
        "from where blocks lie. Use one of the two."};
  }
  TS_TRY(plan.kv_format, parse_kv_format(flags.kv_cache_dtype));
  const std::optional<std::int64_t> row_bytes = kv_bytes_per_token(config, plan.kv_format);
  if (!row_bytes) {
    return Error{ErrorKind::kUnsupported, "--kv-cache-dtype",
                 fmt::format("{} needs an MLA model whose latent is a multiple of 128 wide; {} is not one. "
                             "Use auto, bf16 or fp8.",
                             name_of(plan.kv_format), config.architecture_name)};
  }
  // MLA rows are shared by all heads, so every rank keeps them whole; GQA rows are split with the heads.
  plan.kv_bytes_per_token = config.mla.kv_lora_rank > 0 ? *row_bytes : *row_bytes / plan.ranks;

  const std::int64_t block_bytes = plan.kv_bytes_per_token * plan.block_size;
  if (flags.num_gpu_blocks_override) {
    plan.kv_blocks = *flags.num_gpu_blocks_override;
  } else {
    const std::int64_t blocks_per_seq = (plan.max_model_len + plan.block_size - 1) / plan.block_size;
    const std::int64_t useful = blocks_per_seq * plan.max_num_seqs;  // replicated
    const std::int64_t affordable =
        flags.kv_cache_memory_bytes
            ? *flags.kv_cache_memory_bytes / block_bytes
            : std::max(kDefaultKvBytes / block_bytes, blocks_per_seq / plan.dcp_ranks + 1);
    if (affordable < 1) {
      return Error{ErrorKind::kInvalidArgument, "--kv-cache-memory-bytes",
                   fmt::format("is {}, but one block of {} tokens needs {} bytes.",
                               *flags.kv_cache_memory_bytes, plan.block_size, block_bytes)};
    }
    plan.kv_blocks =
        static_cast<std::int32_t>(flags.kv_cache_memory_bytes ? affordable : std::min(useful, affordable));
  }
  plan.kv_bytes = plan.kv_blocks * block_bytes;
  return plan;
}

std::string describe(const MemoryPlan& plan) {
  return fmt::format(
      "model       {} ({})\n"
      "ranks       {} on the CPU, {} thread{} each{}\n"
      "context     {} tokens, {} sequences and {} query tokens a step\n"
      "weights     {} in files\n"
      "KV cache    {} a rank: {} blocks of {} tokens ({}), {} bytes a token, {} tokens, {:.1f} sequences of "
      "full "
      "length\n"
      "prefix cache {}, batch-invariant {}",
      plan.model, plan.architecture, plan.ranks, plan.threads_per_rank, plan.threads_per_rank == 1 ? "" : "s",
      describe_sharing(plan), plan.max_model_len, plan.max_num_seqs, plan.max_num_batched_tokens,
      gib(plan.weight_file_bytes), gib(plan.kv_bytes), plan.kv_blocks, plan.block_size,
      name_of(plan.kv_format), plan.kv_bytes_per_token, plan.kv_tokens(),
      static_cast<double>(plan.kv_tokens()) / plan.max_model_len, plan.prefix_caching ? "on" : "off",
      plan.batch_invariant ? "on" : "off");
}

Result<LaunchedEngine> launch_engine(const ServeFlags& flags, const Checkpoint& checkpoint,
                                     const LaunchHooks& hooks) {
  LaunchedEngine launched;
  launched.config = checkpoint.config();
  TS_TRY(launched.plan, plan_memory(flags, checkpoint));
  const MemoryPlan& plan = launched.plan;
  const RunnerOptions runner_options{.max_num_seqs = plan.max_num_seqs,
                                     .max_num_batched_tokens = plan.max_num_batched_tokens,
                                     .max_model_len = plan.max_model_len,
                                     .block_size = plan.block_size,
                                     .kv_blocks = plan.kv_blocks,
                                     .dcp_ranks = plan.dcp_ranks,
                                     .kv_format = plan.kv_format,
                                     .batch_invariant = plan.batch_invariant};

  LoadProgress progress({.label = "weights",
                         .total_bytes = plan.weight_file_bytes,
                         .clock = {},
                         .sink = [&](std::string_view line) { spdlog::info("{}", line); }});
  ReadAhead ahead(checkpoint.weight_bytes(), kReadAheadBytes);
  std::atomic<std::size_t> weight_bytes{0};
  std::atomic<std::size_t> scratch_bytes{0};
  const auto make_rank = [&](Communicator* tp) -> Result<std::unique_ptr<StepRunner>> {
    RankDevice device{.backend = make_cpu_backend({.threads = plan.threads_per_rank})};
    RunnerOptions options = runner_options;
    if (plan.dcp_ranks > 1) {
      device.dcp =
          tp->split(tp->rank() / plan.dcp_ranks, fmt::format("dcp group {}", tp->rank() / plan.dcp_ranks));
      options.dcp_rank = device.dcp->rank();
    }
    const DcpExchange exchange = flags.dcp_comm_backend == "a2a" ? DcpExchange::kAllToAll
                                 : flags.dcp_comm_backend == "ag_rs"
                                     ? DcpExchange::kReduceScatter
                                     : measured_exchange(device, launched.config, plan);
    const LoadOptions load{.limits = ModelRunner::limits_of(options),
                           .shard = {.tp = tp,
                                     .expert_parallel = flags.expert_parallel,
                                     .dcp = device.dcp.get(),
                                     .exchange = exchange},
                           .on_bytes = [&](std::int64_t bytes) {
                             progress.add(bytes);
                             ahead.consumed(bytes);
                             if (hooks.on_progress) hooks.on_progress(progress.fraction(), progress.line());
                           }};
    TS_TRY(auto model, load_model(checkpoint, *device.backend, load));
    weight_bytes += model->weight_bytes();
    scratch_bytes += model->scratch_bytes();
    TS_TRY(auto runner, ModelRunner::create(std::move(device), std::move(model), options));
    return std::unique_ptr<StepRunner>(std::move(runner));
  };
  std::unique_ptr<StepRunner> runner;
  if (plan.ranks == 1) {
    TS_TRY(runner, make_rank(nullptr));
  } else {
    TS_TRY(runner, RankGroup::create(
                       make_thread_communicators(plan.ranks, fmt::format("tp of {} threads", plan.ranks),
                                                 kRankDeadline),
                       [&](Communicator& tp) { return make_rank(&tp); }, kRankDeadline));
  }
  progress.finish();
  checkpoint.drop_pages();
  launched.weight_bytes = weight_bytes;
  launched.scratch_bytes = scratch_bytes;

  const std::string identity = describe(plan);
  EngineOptions engine_options;
  engine_options.scheduler = {.max_num_seqs = plan.max_num_seqs,
                              .max_num_batched_tokens = plan.max_num_batched_tokens,
                              .max_model_len = plan.max_model_len,
                              .block_size = plan.block_size,
                              .kv_blocks = plan.kv_blocks,
                              .dcp_ranks = plan.dcp_ranks,
                              .replicate_up_to = plan.replicate_up_to,
                              .vocab = static_cast<std::int32_t>(launched.config.vocab),
                              .prefix_caching = plan.prefix_caching,
                              .hash_key = {}};
  engine_options.end_tokens = launched.config.end_tokens;
  engine_options.kv_cache_dtype = flags.kv_cache_dtype;
  engine_options.fingerprint = fmt::format("fp_{:016x}", std::hash<std::string>{}(identity));
  engine_options.max_waiting = flags.max_waiting;
  engine_options.seed = flags.seed;
  engine_options.on_fatal = hooks.on_fatal;
  TS_TRY(launched.engine, Engine::create(std::move(engine_options), std::move(runner)));
  return launched;
}

}  // namespace tessera
