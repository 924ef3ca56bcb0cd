#include "plan/gpu_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "checkpoint/inspect.h"

namespace tessera {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
// Allowances: what depends on driver and library versions, not on us. docs/reference/plan.md says how they
// were chosen.
constexpr std::int64_t kContextBytes = std::int64_t{600} << 20;
constexpr std::int64_t kNcclBytesPerGroup = std::int64_t{256} << 20;
constexpr std::int64_t kBytesPerGraph = std::int64_t{24} << 20;

std::string gib(std::int64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f GiB", static_cast<double>(bytes) / kGiB);
  return text;
}

Error refused(std::string flag, std::string what) {
  return {ErrorKind::kInvalidArgument, std::move(flag), std::move(what)};
}

std::vector<int> divisors(int of) {
  std::vector<int> result;
  for (int d = 1; d <= of; ++d) {
    if (of % d == 0) result.push_back(d);
  }
  return result;
}

// One graph for each power of two of sequences, and for one token and a full proposal each.
std::int64_t graph_bytes(const RunnerOptions& runner, bool has_draft) {
  std::int64_t buckets = 1;
  while ((std::int64_t{1} << (buckets - 1)) < runner.max_num_seqs) ++buckets;
  return buckets * (has_draft ? 2 : 1) * kBytesPerGraph;
}

Result<int> choose_tensor_parallel(const Checkpoint& outline, const GpuPlanRequest& request) {
  const int gpus = request.gpus.count;
  const int ranks = request.tensor_parallel.value_or(gpus);
  if (ranks > gpus) {
    return refused("--tensor-parallel-size", "is " + std::to_string(ranks) + ", but --gpu names " +
                                                 std::to_string(gpus) + " GPU" + (gpus == 1 ? "" : "s") +
                                                 "; the nearest size that works is " + std::to_string(gpus) +
                                                 ".");
  }
  TS_TRY(check_shardable(outline, ranks, request.expert_parallel));
  return ranks;
}

Result<std::vector<int>> choose_context_parallel(const Checkpoint& outline, const GpuPlanRequest& request,
                                                 int ranks) {
  if (!request.context_parallel) return outline.config().has_mla() ? divisors(ranks) : std::vector<int>{1};
  TS_TRY(check_context_shardable(outline, ranks, *request.context_parallel));
  return std::vector<int>{*request.context_parallel};
}

// The draft as the server would resolve it.
Result<SpeculativeConfig> resolve_draft(const PlanModel& draft, const ModelConfig& target,
                                        const GpuPlanRequest& request, int ranks) {
  SpeculativeConfig config;
  config.model = draft.path;
  config.num_speculative_tokens = request.draft_tokens;
  config.draft_kv_format = request.draft_kv_format;
  auto resolved = resolve_speculation(std::move(config), target, &draft.outline->config(), ranks);
  if (!resolved) return Error{resolved.error().kind, "--draft", resolved.error().what};
  return resolved;
}

// What is planned for, but for the layout.
struct Subject {
  const Checkpoint& outline;
  const DeviceModel& device;
  const RunnerOptions& runner;
  bool expert_parallel;
  const PlannedDraft* draft;
};

// The smallest number of GPUs above `too_few` on which the model and one block of cache fit; 0: none.
Result<int> ranks_that_fit(const Subject& of, std::int64_t besides, std::int64_t usable, int too_few) {
  for (int ranks = too_few + 1; ranks <= 1024; ++ranks) {
    if (!check_shardable(of.outline, ranks, of.expert_parallel)) continue;
    TS_TRY(const RankMemory first,
           measure_rank(of.outline, of.device, of.runner,
                        {.rank = 0, .ranks = ranks, .expert_parallel = of.expert_parallel}, of.draft));
    if (first.without_kv() + besides + block_cost(first, 1) <= usable) return ranks;
  }
  return 0;
}

}  // namespace

std::int64_t nccl_allowance(int ranks, int context_ranks) {
  return ((ranks > 1 ? 1 : 0) + (context_ranks > 1 ? 1 : 0)) * kNcclBytesPerGroup;
}

std::int64_t LayoutPlan::without_kv() const { return rank.without_kv() + graphs + nccl + context; }

Result<GpuPlan> plan_gpus(const PlanModel& target, const std::optional<PlanModel>& draft,
                          const GpuPlanRequest& request) {
  const Checkpoint& outline = *target.outline;
  const ModelConfig& config = outline.config();
  GpuPlan plan;
  plan.model = target.path;
  plan.architecture = config.architecture_name;
  plan.from_files = target.from_files;
  plan.request = request;
  if (draft) plan.draft = draft->path;
  if (!(request.utilisation > 0 && request.utilisation <= 1)) {
    return refused("--gpu-memory-utilization",
                   "is " + std::to_string(request.utilisation) + "; it must lie above 0 and not above 1.");
  }
  if (request.runner.max_model_len > config.max_positions) {
    return refused("--max-model-len", "is " + std::to_string(request.runner.max_model_len) +
                                          ", but the model's positions end at " +
                                          std::to_string(config.max_positions) + ".");
  }
  if (request.runner.kv_format == KvFormat::kF32)
    return refused("--kv-cache-dtype", "is f32, but a GPU keeps bf16, fp8 or fp8_ds_mla.");
  if (!kv_bytes_per_token(config, request.runner.kv_format)) {
    return refused("--kv-cache-dtype", std::string(name_of(request.runner.kv_format)) +
                                           " needs an MLA model whose latent is a multiple of 128 wide; use "
                                           "auto, bf16 or fp8.");
  }
  TS_TRY(const int ranks, choose_tensor_parallel(outline, request));
  TS_TRY(const std::vector<int> context_sizes, choose_context_parallel(outline, request, ranks));
  plan.tensor_parallel = ranks;

  const DeviceModel device = gpu_device(request.gpus.card);
  RunnerOptions runner = request.runner;
  SpeculativeConfig speculation;
  PlannedDraft planned;
  const PlannedDraft* const draft_or_null = draft ? &planned : nullptr;
  if (draft) {
    TS_TRY(speculation, resolve_draft(*draft, config, request, ranks));
    plan.draft_method = name_of(*speculation.method);
    runner.most_drafts = speculation.num_speculative_tokens;
    planned = {&speculation, draft->outline, request.draft_kv_format};
    for (const std::string& note : speculation.notes) plan.notes.push_back(note);
  }
  for (const int context_ranks : context_sizes) {
    LayoutPlan layout;
    layout.context_ranks = context_ranks;
    TS_TRY(layout.rank,
           measure_ranks(
               outline, device, runner,
               {.ranks = ranks, .context_ranks = context_ranks, .expert_parallel = request.expert_parallel},
               draft_or_null));
    layout.graphs = graph_bytes(request.runner, draft.has_value());
    layout.nccl = nccl_allowance(ranks, context_ranks);
    layout.context = kContextBytes;
    layout.usable = static_cast<std::int64_t>(
        std::floor(static_cast<double>(request.gpus.card.visible_bytes()) * request.utilisation));
    const std::int64_t block = block_cost(layout.rank, context_ranks);
    plan.kv_bytes_per_token = layout.rank.kv_block / request.runner.block_size;
    plan.draft_kv_bytes_per_token = layout.rank.draft_kv_block / request.runner.block_size;
    const std::int64_t room = layout.usable - layout.without_kv();
    if (room < block) {
      TS_TRY(const int enough,
             ranks_that_fit({outline, device, runner, request.expert_parallel, draft_or_null},
                            layout.without_kv() - layout.rank.without_kv(), layout.usable, ranks));
      return Error{ErrorKind::kTooLarge, "--gpu",
                   "The model does not fit: each of " + std::to_string(ranks) + " GPUs needs " +
                       gib(layout.without_kv()) + " before any KV cache, but " +
                       std::to_string(request.utilisation).substr(0, 4) + " of " +
                       gib(request.gpus.card.visible_bytes()) + " is " + gib(layout.usable) + ". " +
                       (enough > 0 ? "The nearest size that works on this card is --tensor-parallel-size " +
                                         std::to_string(enough) + "."
                                   : "No number of such cards works.")};
    }
    TS_TRY(layout.kv, size_kv_pool({.block_bytes = block,
                                    .block_size = request.runner.block_size,
                                    .max_model_len = request.runner.max_model_len,
                                    .max_num_seqs = request.runner.max_num_seqs,
                                    .context_ranks = context_ranks,
                                    .blocks = {},
                                    .bytes = room,
                                    .default_bytes = 0}));
    layout.rank = with_caches(layout.rank, layout.kv.blocks, context_ranks);
    layout.sequences = static_cast<double>(layout.kv.tokens) / request.runner.max_model_len;
    plan.layouts.push_back(layout);
  }
  if (!plan.from_files)
    plan.notes.push_back("there are no weights beside the config: formats and sizes are what it promises");
  if (!request.gpus.is_known)
    plan.notes.push_back(request.gpus.card.name +
                         " is not in the table of cards: 132 multiprocessors are assumed, which only the "
                         "scratch of split attention depends on");
  if (plan.layouts.back().sequences < 1) {
    plan.notes.push_back("warning: no sequence of --max-model-len " +
                         std::to_string(request.runner.max_model_len) + " fits; " +
                         std::to_string(plan.layouts.back().kv.tokens) + " tokens do");
  }
  return plan;
}

}  // namespace tessera
