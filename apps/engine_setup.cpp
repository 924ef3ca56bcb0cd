#include "engine_setup.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <span>
#include <thread>
#include <type_traits>

#include "checkpoint/inspect.h"
#include "checkpoint/load_progress.h"
#include "comm/thread_communicator.h"
#include "comm/timed_communicator.h"
#include "engine/all_reduce_time.h"
#include "engine/model_runner.h"
#include "engine/rank_group.h"
#include "engine/rank_start.h"
#include "kvcache/block_hash.h"
#include "model/context_exchange.h"
#include "plan/gpu_plan.h"
#include "plan/kv_pool.h"
#include "plan/plan_report.h"

namespace tessera {
namespace {

// How long a rank may keep the others waiting before the server ends with a message.
constexpr std::chrono::milliseconds kRankDeadline{60'000};
constexpr std::chrono::milliseconds kNoDeadline{0};

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

RunnerOptions runner_options_of(const MemoryPlan& plan) {
  return {.max_num_seqs = plan.max_num_seqs,
          .max_num_batched_tokens = plan.max_num_batched_tokens,
          .max_model_len = plan.max_model_len,
          .most_drafts = plan.speculation ? plan.speculation->most_drafts() : 0,
          .block_size = plan.block_size,
          .kv_blocks = plan.kv_blocks,
          .dcp_ranks = plan.dcp_ranks,
          .kv_format = plan.kv_format,
          .batch_invariant = plan.batch_invariant};
}

bool has_shared_table(const MemoryPlan& plan) {
  return plan.speculation && has_draft_cache(plan.speculation->config);
}

// Stands for everything in the model's files that their headers and the final norm tell: the same on every
// process that opened the same checkpoint.
std::string digest_of(const Checkpoint& checkpoint) {
  std::string text;
  for (const BoundParameter& bound : checkpoint.binding().parameters)
    text += fmt::format("{} {} {}x{} {}\n", bound.parameter.name, name_of(bound.weight.format),
                        bound.parameter.rows, bound.parameter.cols, bound.bytes);
  for (const float value : checkpoint.vector("model.norm")) text += fmt::format("{} ", value);
  const ModelConfig& c = checkpoint.config();
  text += fmt::format("{} {} {} {} {}", c.rope_theta, c.rms_eps, c.moe.top_k, c.moe.scaling, c.heads);
  const BlockHash hash = siphash128({}, std::as_bytes(std::span(text)));
  return fmt::format("{:016x}{:016x}", hash.high, hash.low);
}

// What every process must have in common.
std::vector<Fact> facts_of(const ServeFlags& flags, const MemoryPlan& plan, const Checkpoint& checkpoint) {
  return {{"program", fmt::format("tessera {} with plans of version {}", TESSERA_VERSION, kPlanCodecVersion)},
          {"model", fmt::format("{} ({}), digest {}", plan.model, plan.architecture, digest_of(checkpoint))},
          {"--tensor-parallel-size", std::to_string(plan.ranks)},
          {"--enable-expert-parallel", flags.expert_parallel ? "on" : "off"},
          {"--decode-context-parallel-size", std::to_string(plan.dcp_ranks)},
          {"--dcp-mode", fmt::format("{} up to {} tokens", flags.dcp_mode, plan.replicate_up_to)},
          {"--dcp-comm-backend", flags.dcp_comm_backend},
          {"--max-model-len", std::to_string(plan.max_model_len)},
          {"--max-num-seqs", std::to_string(plan.max_num_seqs)},
          {"--max-num-batched-tokens", std::to_string(plan.max_num_batched_tokens)},
          {"--kv-cache-dtype", std::string(name_of(plan.kv_format))},
          {"--block-size", std::to_string(plan.block_size)},
          {"KV blocks a rank", std::to_string(plan.kv_blocks)},
          {"--speculative-config", plan.speculation ? plan.speculation->describe() : "none"},
          {"--batch-invariant", plan.batch_invariant ? "on" : "off"}};
}

// Item by item what was planned for a rank and what it then took. Items that are nothing on both sides are
// left out.
std::vector<MemoryLine> memory_lines(const RankMemory& planned, const std::map<int, RankMemory>& taken) {
  std::vector<MemoryLine> lines;
  for (const auto& [rank, memory] : taken) {
    const std::vector<MemoryItem> plan = items_of(planned);
    const std::vector<MemoryItem> used = items_of(memory);
    for (std::size_t i = 0; i < plan.size(); ++i) {
      if (plan[i].bytes == 0 && used[i].bytes == 0) continue;
      lines.push_back({.rank = rank, .item = plan[i].key, .planned = plan[i].bytes, .used = used[i].bytes});
    }
  }
  return lines;
}

// Each process brings its own ranks', equally many, and ends with everybody's.
void share_memory(std::map<int, RankMemory>& memory, Processes& processes) {
  struct Line {
    int rank;
    RankMemory taken;
  };
  static_assert(std::is_trivially_copyable_v<Line>);
  std::vector<Line> mine;
  for (const auto& [rank, taken] : memory) mine.push_back({rank, taken});
  const std::vector<std::byte> gathered = processes.gather(std::as_bytes(std::span(mine)));
  std::vector<Line> all(gathered.size() / sizeof(Line));
  std::memcpy(all.data(), gathered.data(), gathered.size());
  for (const Line& line : all) memory[line.rank] = line.taken;
}

std::string describe_sharing(const MemoryPlan& plan) {
  if (plan.dcp_ranks == 1) return "";
  if (plan.replicate_up_to == 0) return fmt::format("; every sequence over {}", plan.dcp_ranks);
  return fmt::format("; sequences of more than {} tokens over {}", plan.replicate_up_to, plan.dcp_ranks);
}

}  // namespace

Result<MemoryPlan> plan_memory(const ServeFlags& flags, const Checkpoint& checkpoint,
                               const Processes* processes) {
  const ModelConfig& config = checkpoint.config();
  MemoryPlan plan;
  plan.model = flags.model;
  plan.architecture = config.architecture_name;
  plan.ranks = flags.tensor_parallel_size;
  plan.dcp_ranks = flags.decode_context_parallel_size;
  plan.replicate_up_to = flags.dcp_mode == "always" ? 0 : flags.dcp_elastic_tokens;
  const int cores =
      flags.threads > 0 ? flags.threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  // Processes of one machine share its cores.
  const int ranks_on_machine =
      processes != nullptr ? plan.ranks / processes->count() * processes->on_this_machine() : plan.ranks;
  plan.threads_per_rank = std::max(1, cores / std::max(1, ranks_on_machine));
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
  TS_TRY(plan.speculation, open_speculation(flags, config));
  TS_TRY(plan.device,
         choose_device({.device = flags.device, .ranks_here = ranks_on_machine, .several = plan.ranks > 1}));
  TS_TRY(plan.kv_format, parse_kv_format(flags.kv_cache_dtype, automatic_kv_format(plan.device)));
  const std::optional<std::int64_t> row_bytes = kv_bytes_per_token(config, plan.kv_format);
  if (!row_bytes) {
    return Error{ErrorKind::kUnsupported, "--kv-cache-dtype",
                 fmt::format("{} needs an MLA model whose latent is a multiple of 128 wide; {} is not one. "
                             "Use auto, bf16 or fp8.",
                             name_of(plan.kv_format), config.architecture_name)};
  }
  TS_TRY(const Checkpoint outline, checkpoint.outline());
  TS_TRY(const DeviceModel device, model_of_device({.device = plan.device,
                                                    .threads = plan.threads_per_rank,
                                                    .batch_invariant = plan.batch_invariant}));
  std::optional<Checkpoint> draft_outline;
  PlannedDraft draft{.automatic_format = automatic_kv_format(plan.device)};
  if (plan.speculation) {
    draft.config = &plan.speculation->config;
    if (plan.speculation->draft) {
      TS_TRY(draft_outline, plan.speculation->draft->outline());
      draft.outline = &*draft_outline;
    }
  }
  TS_TRY(plan.rank,
         measure_ranks(
             outline, device, runner_options_of(plan),
             {.ranks = plan.ranks, .context_ranks = plan.dcp_ranks, .expert_parallel = flags.expert_parallel},
             plan.speculation ? &draft : nullptr));
  plan.kv_bytes_per_token = plan.rank.kv_block / plan.block_size;
  TS_TRY(const std::int64_t kv_bytes,
         default_kv_bytes(plan.device, plan.rank.without_kv() + nccl_allowance(plan.ranks, plan.dcp_ranks)));
  TS_TRY(const KvPool pool, size_kv_pool({.block_bytes = block_cost(plan.rank, plan.dcp_ranks),
                                          .block_size = plan.block_size,
                                          .max_model_len = plan.max_model_len,
                                          .max_num_seqs = plan.max_num_seqs,
                                          .context_ranks = plan.dcp_ranks,
                                          .blocks = flags.num_gpu_blocks_override,
                                          .bytes = flags.kv_cache_memory_bytes,
                                          .default_bytes = kv_bytes}));
  plan.kv_blocks = pool.blocks;
  plan.rank = with_caches(plan.rank, pool.blocks, plan.dcp_ranks);
  return plan;
}

std::string describe(const MemoryPlan& plan) {
  return fmt::format(
      "model       {} ({})\n"
      "ranks       {} on the {}, {} thread{} each{}\n"
      "context     {} tokens, {} sequences and {} query tokens a step\n"
      "weights     {} in files\n"
      "KV cache    {} a rank: {} blocks of {} tokens ({}), {} bytes a token, {} tokens, {:.1f} sequences of "
      "full "
      "length\n"
      "prefix cache {}, batch-invariant {}\n"
      "speculation {}\n"
      "a rank      {} besides its KV cache, at most\n"
      "{}",
      plan.model, plan.architecture, plan.ranks, plan.device == ComputeDevice::kCuda ? "GPU" : "CPU",
      plan.threads_per_rank, plan.threads_per_rank == 1 ? "" : "s", describe_sharing(plan),
      plan.max_model_len, plan.max_num_seqs, plan.max_num_batched_tokens, gib(plan.weight_file_bytes),
      gib(plan.rank.kv_cache + plan.rank.draft_cache), plan.kv_blocks, plan.block_size,
      name_of(plan.kv_format), plan.kv_bytes_per_token, plan.kv_tokens(),
      static_cast<double>(plan.kv_tokens()) / plan.max_model_len, plan.prefix_caching ? "on" : "off",
      plan.batch_invariant ? "on" : "off", plan.speculation ? plan.speculation->describe() : "none",
      gib(plan.rank.without_kv()), rank_memory_text(plan.rank, 12));
}

Result<LaunchedEngine> launch_engine(const ServeFlags& flags, const Checkpoint& checkpoint,
                                     const LaunchHooks& hooks) {
  LaunchedEngine launched;
  launched.config = checkpoint.config();
  TS_TRY(launched.plan, plan_memory(flags, checkpoint, hooks.processes));
  const MemoryPlan& plan = launched.plan;
  const RunnerOptions runner_options = runner_options_of(plan);
  Processes* const processes = hooks.processes;
  int ranks_here = plan.ranks;
  std::unique_ptr<Rendezvous> loading;
  if (processes != nullptr) {
    TS_TRY(ranks_here, processes->ranks_each(plan.ranks));
    TS_TRY(processes->check_agreement(facts_of(flags, plan, checkpoint)));
  }

  LoadProgress progress({.label = "weights",
                         .total_bytes = plan.weight_file_bytes,
                         .clock = {},
                         .sink = [&](std::string_view line) { spdlog::info("{}", line); }});
  std::atomic<int> loaded{0};  // ranks of this process
  std::atomic<std::int32_t> draft_lookahead{0};
  std::mutex memory_mutex;  // of launched.memory, and of `collectives`
  std::vector<CollectiveLine> collectives;
  std::vector<AllReduceLine> all_reduces;  // rank 0's
  // On GPUs calls only enqueue: there is nothing to see.
  const auto watched = [&](std::unique_ptr<Communicator> group, const std::string& name,
                           int rank) -> std::unique_ptr<Communicator> {
    if (plan.device != ComputeDevice::kCpu) return group;
    const auto times = std::make_shared<CollectiveTimes>();
    const std::lock_guard lock(memory_mutex);
    collectives.push_back({.rank = rank, .group = name, .times = times});
    return std::make_unique<TimedCommunicator>(std::move(group), times);
  };
  std::string device_name;  // of rank 0, for the fingerprint
  // Processes of one machine take its GPUs in turn.
  const int first_gpu = processes != nullptr ? processes->place_on_machine() * ranks_here : 0;
  const char* const graph_file = std::getenv("NCCL_GRAPH_FILE");  // which NCCL reads by itself
  const DeviceGroupOptions group_options{
      .nccl_graph_file = graph_file != nullptr ? std::optional<std::string>(graph_file) : std::nullopt,
      .peer_all_reduce = flags.pcie_allreduce,
      .deadline = kRankDeadline,
      .log = [](const std::string& sentence) { spdlog::info("{}", sentence); }};
  const auto make_rank = [&](Communicator* host) -> Result<std::unique_ptr<StepRunner>> {
    RankDevice device;
    TS_TRY(device.backend, make_backend({.device = plan.device,
                                         .threads = plan.threads_per_rank,
                                         .gpu = first_gpu + (host != nullptr ? host->rank() % ranks_here : 0),
                                         .patience = host != nullptr ? kRankDeadline : kNoDeadline,
                                         .batch_invariant = plan.batch_invariant}));
    Communicator* tp = host;
    if (host != nullptr && plan.device == ComputeDevice::kCuda) {
      TS_TRY(device.tp, make_device_group(*host, *device.backend, group_options));
      tp = device.tp.get();
    }
    RunnerOptions options = runner_options;
    options.always_logits = static_cast<bool>(hooks.logits_tap);
    options.enforce_eager = flags.enforce_eager;
    const int rank = tp != nullptr ? tp->rank() : 0;
    if (rank == 0) device_name = device.backend->name();
    if (plan.dcp_ranks > 1) {
      const int group = tp->rank() / plan.dcp_ranks;
      device.dcp = watched(tp->split(group, fmt::format("dcp group {}", group)), "dcp", rank);
      options.dcp_rank = device.dcp->rank();
    }
    const DcpExchange exchange = flags.dcp_comm_backend == "a2a" ? DcpExchange::kAllToAll
                                 : flags.dcp_comm_backend == "ag_rs"
                                     ? DcpExchange::kReduceScatter
                                     : measured_exchange(device, launched.config, plan);
    if (tp != nullptr) {
      const DType dtype = device.backend->activation_dtype();
      for (const std::int64_t rows : {std::int64_t{1}, std::int64_t{plan.max_num_seqs}}) {
        const std::int64_t values = rows * launched.config.hidden;
        const double seconds = all_reduce_seconds(*device.backend, *tp, values);
        if (rank == 0) all_reduces.push_back({.bytes = values * bytes_of(dtype), .seconds = seconds});
      }
    }
    RankRecipe recipe{.target = checkpoint, .runner = options};
    recipe.shard = {
        .tp = tp, .expert_parallel = flags.expert_parallel, .dcp = device.dcp.get(), .exchange = exchange};
    recipe.on_bytes = [&](std::int64_t bytes) {
      progress.add(bytes);
      if (hooks.on_progress) hooks.on_progress(progress.fraction(), progress.line());
    };
    if (plan.speculation) {
      recipe.speculation = &plan.speculation->config;
      recipe.draft = plan.speculation->checkpoint();
      recipe.automatic_format = automatic_kv_format(plan.device);
    }
    TS_TRY(StartedRank started, start_rank(std::move(device), recipe));
    {
      const std::lock_guard lock(memory_mutex);
      launched.memory[rank] = started.memory;
    }
    if (++loaded == ranks_here) progress.finish();
    if (plan.speculation && !plan.speculation->aux_layers.empty()) {
      const auto trial =
          started.runner->try_draft(launched.config.hidden, std::max(launched.config.bos_token, 0));
      if (rank == 0) launched.draft_trial = trial;
    }
    if (rank == 0) {
      draft_lookahead = started.draft_lookahead;
      if (hooks.logits_tap) started.runner->set_logits_tap(hooks.logits_tap);
    }
    return std::unique_ptr<StepRunner>(std::move(started.runner));
  };
  std::unique_ptr<StepRunner> runner;
  if (plan.ranks == 1) {
    TS_TRY(runner, make_rank(nullptr));
  } else {
    std::vector<std::unique_ptr<Communicator>> communicators;
    if (processes == nullptr) {
      communicators =
          make_thread_communicators(plan.ranks, fmt::format("tp of {} threads", plan.ranks), kRankDeadline);
    } else {
      TS_TRY(communicators, processes->communicators(ranks_here, kRankDeadline));
      loading = processes->loading();
    }
    for (auto& one : communicators) {
      const int rank = one->rank();
      one = watched(std::move(one), "tp", rank);
    }
    auto group = RankGroup::create(
        std::move(communicators), [&](Communicator& host) { return make_rank(&host); }, kRankDeadline);
    if (loading) TS_TRY(loading->arrive(group ? Result<void>() : Result<void>(group.error())));
    TS_TRY(runner, std::move(group));
    loading.reset();
    if (processes != nullptr) share_memory(launched.memory, *processes);
  }
  if (launched.draft_trial) log_trial(*launched.draft_trial);
  checkpoint.drop_pages();

  if (processes != nullptr && !processes->leads()) {
    launched.follower = {std::move(runner), processes->receiver()};
    return launched;
  }
  if (processes != nullptr) {
    const auto on_lost = [on_fatal = hooks.on_fatal](const std::string& message) {
      if (on_fatal) on_fatal(Error{ErrorKind::kUnavailable, "ranks", message});
    };
    runner = std::make_unique<LeadingRunner>(std::move(runner), processes->sender(on_lost));
  }

  // Equal where the same program, configuration and kernels answer.
  const std::string identity = fmt::format("{} {}\n{}", TESSERA_VERSION, device_name, describe(plan));
  EngineOptions engine_options;
  engine_options.scheduler = scheduler_options(runner_options, launched.config.vocab);
  engine_options.scheduler.replicate_up_to = plan.replicate_up_to;
  engine_options.scheduler.draft_lookahead = draft_lookahead;
  engine_options.scheduler.shared_table = has_shared_table(plan);
  engine_options.scheduler.prefix_caching = plan.prefix_caching;
  engine_options.end_tokens = launched.config.end_tokens;
  engine_options.kv_cache_dtype = flags.kv_cache_dtype;
  engine_options.ranks = plan.ranks;
  engine_options.memory = memory_lines(plan.rank, launched.memory);
  std::ranges::sort(collectives, {},
                    [](const CollectiveLine& line) { return std::pair(line.rank, line.group); });
  engine_options.collectives = std::move(collectives);
  engine_options.all_reduces = std::move(all_reduces);
  engine_options.fingerprint = fmt::format("fp_{:016x}", std::hash<std::string>{}(identity));
  engine_options.max_waiting = flags.max_waiting;
  engine_options.seed = flags.seed;
  engine_options.on_fatal = hooks.on_fatal;
  // Whoever looks at logits sees those of sequences that have not ended alone.
  engine_options.pipeline.ahead = flags.async_scheduling && !hooks.logits_tap;
  engine_options.on_warning = [](const std::string& what) { spdlog::warn("{}", what); };
  if (plan.speculation) engine_options.gate = plan.speculation->gate();
  TS_TRY(launched.engine, Engine::create(std::move(engine_options), std::move(runner)));
  return launched;
}

Result<void> follow(LaunchedEngine& launched) {
  TS_CHECK(launched.follower.has_value());
  const MemoryPlan& plan = launched.plan;
  const PlanLimits limits{.max_num_seqs = plan.max_num_seqs,
                          .max_num_batched_tokens = plan.max_num_batched_tokens,
                          .max_model_len = plan.max_model_len,
                          .block_size = plan.block_size,
                          .kv_blocks = plan.kv_blocks,
                          .dcp_ranks = plan.dcp_ranks,
                          .vocab = static_cast<std::int32_t>(launched.config.vocab),
                          .max_drafts = runner_options_of(plan).most_drafts,
                          .shared_table = has_shared_table(plan)};
  return follow_plans(*launched.follower->receiver, *launched.follower->ranks, limits);
}

}  // namespace tessera
