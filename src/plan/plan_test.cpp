// The plan against what loading really takes, and against sums done another way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "backend/cpu/cpu_backend.h"
#include "backend/cuda_layout/prefill_plan.h"
#include "checkpoint/inspect.h"
#include "comm/thread_communicator.h"
#include "plan/gpu_plan.h"
#include "plan/plan_report.h"
#include "plan/published.h"

namespace tessera {
namespace {

using testing::HasSubstr;

std::string source(const std::string& path) { return std::string(TESSERA_SOURCE_DIR) + "/" + path; }

ModelConfig kimi() {
  auto config = read_model_config(source("models/configs/kimi-k2.6.json"));
  TS_CHECK(config.ok(), config.error().message());
  return *std::move(config);
}
Checkpoint outline_of(const ModelConfig& config) {
  auto outline = Checkpoint::outline(config);
  TS_CHECK(outline.ok(), outline.error().message());
  return *std::move(outline);
}

RunnerOptions small_runner() {
  return {.max_num_seqs = 8,
          .max_num_batched_tokens = 64,
          .max_model_len = 512,
          .block_size = 64,
          .kv_blocks = 3,
          .kv_format = KvFormat::kF32};
}

GpuPlanRequest rtx_pro_6000() {
  GpuPlanRequest request;
  request.gpus = *parse_gpus("rtx-pro-6000:8");
  request.utilisation = 0.94;
  request.runner = {.max_num_seqs = 128,
                    .max_num_batched_tokens = 2048,
                    .max_model_len = 262144,
                    .block_size = 64,
                    .kv_format = KvFormat::kFp8};
  return request;
}

GpuPlan plan_of(const Checkpoint& outline, const GpuPlanRequest& request) {
  auto plan = plan_gpus({"kimi", &outline, false}, std::nullopt, request);
  TS_CHECK(plan.ok(), plan.error().message());
  return *std::move(plan);
}
std::string refusal(const Checkpoint& outline, const GpuPlanRequest& request) {
  const auto plan = plan_gpus({"model", &outline, false}, std::nullopt, request);
  return plan ? "planned" : plan.error().message();
}

// Loading for real, rank by rank: every byte that the model then holds was in the plan.
void expect_plan_is_what_loading_takes(int ranks, bool expert_parallel) {
  const auto checkpoint = Checkpoint::open(source("models/tessera-tiny"));
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message();
  const auto outline = checkpoint->outline();
  ASSERT_TRUE(outline.ok());
  const RunnerOptions options = small_runner();
  // No collective is called while loading, so one thread may load all ranks in turn.
  const auto group = make_thread_communicators(ranks, "test", std::chrono::seconds(5));
  for (int rank = 0; rank < ranks; ++rank) {
    const auto backend = make_cpu_backend({.threads = 2});
    const LoadOptions load{.limits = ModelRunner::limits_of(options),
                           .shard = {.tp = ranks > 1 ? group[static_cast<std::size_t>(rank)].get() : nullptr,
                                     .expert_parallel = expert_parallel},
                           .on_bytes = {}};
    auto model = load_model(*checkpoint, *backend, load);
    ASSERT_TRUE(model.ok()) << model.error().message();
    const auto planned = measure_rank(*outline, cpu_device(2), options,
                                      {.rank = rank, .ranks = ranks, .expert_parallel = expert_parallel});
    ASSERT_TRUE(planned.ok()) << planned.error().message();
    EXPECT_EQ(planned->weight_sum(), static_cast<std::int64_t>((*model)->weight_bytes())) << "rank " << rank;
    EXPECT_EQ(planned->activations + planned->scratch, static_cast<std::int64_t>((*model)->scratch_bytes()))
        << "rank " << rank;
    EXPECT_EQ(planned->kv_block, *ModelRunner::kv_bytes(**model, options.kv_format, options.block_size));
  }
}

TEST(RankMemory, OfOneRankIsWhatLoadingTakes) { expect_plan_is_what_loading_takes(1, false); }
TEST(RankMemory, OfSlicedExpertsIsWhatLoadingTakes) {
  for (const int ranks : {2, 4, 8}) expect_plan_is_what_loading_takes(ranks, false);
}
TEST(RankMemory, OfWholeExpertsIsWhatLoadingTakes) {
  for (const int ranks : {2, 4}) expect_plan_is_what_loading_takes(ranks, true);
}

// The same checkpoint as headers and as a config: equal wherever the config tells the formats.
TEST(Outline, OfFilesHoldsTheirFormatsAndSizes) {
  const auto checkpoint = Checkpoint::open(source("models/tessera-tiny"));
  ASSERT_TRUE(checkpoint.ok());
  const auto outline = checkpoint->outline();
  ASSERT_TRUE(outline.ok());
  EXPECT_EQ(outline->total_bytes(), checkpoint->total_bytes());
  EXPECT_EQ(inspect_json(inspect(*outline)), inspect_json(inspect(*outline->outline())));
  for (const BoundParameter& bound : checkpoint->binding().parameters) {
    if (!bound.parameter.is_matrix()) continue;
    const HostMatrix matrix = outline->matrix(bound.parameter.name);
    EXPECT_EQ(matrix.format, bound.weight.format) << bound.parameter.name;
    EXPECT_EQ(matrix.bytes(), bound.weight.bytes()) << bound.parameter.name;
  }
}

// Kimi-K2.6 on one imagined rank: the classes that are loaded as they lie in files must sum to what inspect
// computes without loading anything.
TEST(RankMemory, OfKimiAgreesWithItsParameterList) {
  const ModelConfig config = kimi();
  const Inspection inspection = inspect(config);
  const DeviceModel device = gpu_device(rtx_pro_6000().gpus.card);
  const Checkpoint outline = outline_of(config);
  const auto one = measure_rank(outline, device, rtx_pro_6000().runner, {});
  ASSERT_TRUE(one.ok()) << one.error().message();
  const auto listed = [&](ModuleClass wanted) {
    std::int64_t sum = 0;
    for (const ClassSummary& c : inspection.classes) sum += c.module_class == wanted ? c.bytes : 0;
    return sum;
  };
  const auto planned = [&](ModuleClass c) { return one->weights[static_cast<std::size_t>(c)]; };
  for (const ModuleClass c : {ModuleClass::kEmbedding, ModuleClass::kHead, ModuleClass::kDenseMlp,
                              ModuleClass::kSharedExpert, ModuleClass::kRoutedExpert, ModuleClass::kRouter}) {
    EXPECT_EQ(planned(c), listed(c)) << name_of(c);
  }
  EXPECT_EQ(planned(ModuleClass::kNorm), 2 * listed(ModuleClass::kNorm));  // bf16 in files, f32 in use
  // W_UK is kept a second time, transposed for the absorbed form: 64 heads of 128 x 512, bf16, 61 layers.
  EXPECT_EQ(planned(ModuleClass::kAttention),
            listed(ModuleClass::kAttention) + std::int64_t{61} * 64 * 128 * 512 * 2);

  const auto eight = measure_ranks(outline, device, rtx_pro_6000().runner, {.ranks = 8});
  ASSERT_TRUE(eight.ok());
  for (const ModuleClass c : {ModuleClass::kEmbedding, ModuleClass::kHead, ModuleClass::kDenseMlp,
                              ModuleClass::kSharedExpert, ModuleClass::kRoutedExpert}) {
    EXPECT_EQ(8 * eight->weights[static_cast<std::size_t>(c)], planned(c)) << name_of(c);
  }
  EXPECT_EQ(eight->weights[static_cast<std::size_t>(ModuleClass::kRouter)], planned(ModuleClass::kRouter));
  EXPECT_EQ(eight->kv_block, std::int64_t{64} * 61 * 576);
}

TEST(GpuPlan, MultipliesTheTokensThatFitByD) {
  const Checkpoint outline = outline_of(kimi());
  const GpuPlan plan = plan_of(outline, rtx_pro_6000());
  ASSERT_EQ(plan.layouts.size(), 4U);
  for (std::size_t i = 0; i < plan.layouts.size(); ++i) {
    const LayoutPlan& layout = plan.layouts[i];
    EXPECT_EQ(layout.context_ranks, 1 << i);
    EXPECT_EQ(layout.kv.tokens, std::int64_t{layout.kv.blocks} * 64 * layout.context_ranks);
    EXPECT_LE(layout.without_kv() + layout.kv.bytes, layout.usable);
    EXPECT_GT(layout.without_kv() + layout.kv.bytes + layout.rank.kv_block,
              layout.usable);  // no block unused
    const auto published = published_for(outline.config(), plan);
    for (const PublishedCapacity& one : published) {
      if (one.context_ranks == layout.context_ranks) {
        EXPECT_GE(layout.kv.tokens, one.kv_tokens);
      }
    }
  }
  // What D costs besides the cache is small: no scratch grows with the longest sequence.
  EXPECT_LT(plan.layouts[3].without_kv() - plan.layouts[0].without_kv(), std::int64_t{1} << 30);
}

TEST(GpuPlan, LongerSequencesCostOnlyTheirRopeTableAndLists) {
  const Checkpoint outline = outline_of(kimi());
  GpuPlanRequest request = rtx_pro_6000();
  const std::int64_t rope = std::int64_t{262144 - 65536} * 64 * 4;
  const std::int64_t tables = std::int64_t{262144 - 65536} / 64 * 128 * 4;
  // Of the back-end: a block table for each of 1,024 tokens of a ragged batch, the lists that a sampled row
  // may bring, and what is planned of a prefill for every 4,096 rows of 128 sequences of 2,048 tokens.
  const std::int64_t lists =
      std::int64_t{262144 - 65536} / 64 * 1024 * 4 + std::int64_t{262144 - 65536} * 12 +
      std::int64_t{262144 - 65536} / 4096 *
          static_cast<std::int64_t>(cuda::prefill_plan_bytes(128, 2048 / 128 + 128, 128));
  for (const int context_ranks : {1, 8}) {
    request.context_parallel = context_ranks;
    request.runner.max_model_len = 262144;
    const LayoutPlan longer = plan_of(outline, request).layouts.front();
    request.runner.max_model_len = 65536;
    const LayoutPlan shorter = plan_of(outline, request).layouts.front();
    const std::int64_t more = longer.without_kv() - shorter.without_kv();
    if (context_ranks == 1) {
      EXPECT_EQ(more, rope + tables + lists);
    } else {  // tables of sharded and replicated sequences, and lists of what prefills gather
      EXPECT_LE(more, rope + 4 * tables + lists);
    }
  }
}

// The published loss at D = 8 with a draft is split scratch, which is not needed here; the draft's own rows
// are whole on each rank, which costs less.
TEST(GpuPlan, ADraftTakesLittleOfWhatContextParallelismGives) {
  const Checkpoint outline = outline_of(kimi());
  const auto config = read_model_config(source("models/configs/kimi-k2.6-eagle3-mla.json"));
  ASSERT_TRUE(config.ok()) << config.error().message();
  const Checkpoint draft = outline_of(*config);
  GpuPlanRequest request = rtx_pro_6000();
  request.context_parallel = 8;
  request.draft_kv_format = KvFormat::kFp8;
  const PlanModel draft_model{"draft", &draft, false};
  const auto plan = plan_gpus({"kimi", &outline, false}, draft_model, request);
  ASSERT_TRUE(plan.ok()) << plan.error().message();
  const LayoutPlan& layout = plan->layouts.front();
  EXPECT_EQ(plan->draft_kv_bytes_per_token, 576);
  EXPECT_EQ(layout.kv.bytes / layout.kv.blocks, 64 * (61 * 576 + 8 * 576));
  EXPECT_GT(layout.rank.draft_weights,
            std::int64_t{670'000'000} * 2 / 8);    // its matrices, split over eight ranks
  EXPECT_GT(layout.kv.tokens, 1'822'464 * 3 / 2);  // published with a draft
}

// Any language model over the same vocabulary drafts; its cache and weights are planned like the target's.
TEST(GpuPlan, TakesALanguageModelAsADraft) {
  const auto target = Checkpoint::open(source("models/tessera-tiny"));
  ASSERT_TRUE(target.ok());
  const auto outline = target->outline();
  ASSERT_TRUE(outline.ok());
  GpuPlanRequest request;
  request.gpus = *parse_gpus("H200:2");
  request.runner = {.max_num_seqs = 8,
                    .max_num_batched_tokens = 256,
                    .max_model_len = 1024,
                    .block_size = 64,
                    .kv_format = KvFormat::kBF16};
  const PlanModel model{"tiny", &*outline, true};
  const auto alone = plan_gpus(model, std::nullopt, request);
  const auto drafted = plan_gpus(model, model, request);
  ASSERT_TRUE(alone.ok()) << alone.error().message();
  ASSERT_TRUE(drafted.ok()) << drafted.error().message();
  EXPECT_EQ(drafted->draft_method, "draft_model");
  for (std::size_t i = 0; i < alone->layouts.size(); ++i) {
    const RankMemory& rank = drafted->layouts[i].rank;
    EXPECT_EQ(rank.draft_weights, alone->layouts[i].rank.weight_sum());  // the whole model once more
    EXPECT_EQ(rank.draft_kv_block, rank.kv_block);
    EXPECT_EQ(rank.draft_cache, rank.kv_cache * drafted->layouts[i].context_ranks);
  }
  EXPECT_THAT(plan_text(target->config(), *drafted), HasSubstr("draft    tiny (draft_model), 3 tokens"));
}

TEST(GpuPlan, RefusesADraftOfAnotherVocabularyByName) {
  const Checkpoint outline = outline_of(kimi());
  const auto tiny = Checkpoint::open(source("models/tessera-tiny"));
  ASSERT_TRUE(tiny.ok());
  const auto draft = tiny->outline();
  ASSERT_TRUE(draft.ok());
  const auto plan = plan_gpus({"kimi", &outline, false}, PlanModel{"tiny", &*draft, true}, rtx_pro_6000());
  ASSERT_FALSE(plan.ok());
  EXPECT_EQ(plan.error().where, "--draft");
  EXPECT_THAT(plan.error().message(), HasSubstr("163840"));
}

TEST(GpuPlan, PrintsPublishedFiguresOnlyForTheirOwnSetup) {
  const ModelConfig config = kimi();
  const Checkpoint outline = outline_of(config);
  GpuPlanRequest request = rtx_pro_6000();
  request.context_parallel = 8;
  EXPECT_THAT(plan_text(config, plan_of(outline, request)), HasSubstr("3,267,968"));
  request.utilisation = 0.9;
  EXPECT_THAT(plan_text(config, plan_of(outline, request)), testing::Not(HasSubstr("published")));
}

TEST(GpuPlan, JsonHasEveryItemAndTheirSum) {
  const ModelConfig config = kimi();
  const auto json = nlohmann::json::parse(plan_json(config, plan_of(outline_of(config), rtx_pro_6000())));
  ASSERT_EQ(json["layouts"].size(), 4U);
  for (const auto& layout : json["layouts"]) {
    std::int64_t sum = 0;
    for (const auto& [name, bytes] : layout["items"].items()) sum += bytes.get<std::int64_t>();
    EXPECT_EQ(sum, layout["without_kv_bytes"].get<std::int64_t>());
  }
}

TEST(GpuPlan, RefusalsNameTheNumbersAndTheNearestWorkingSize) {
  const Checkpoint outline = outline_of(kimi());
  GpuPlanRequest request = rtx_pro_6000();
  request.tensor_parallel = 16;
  EXPECT_THAT(refusal(outline, request),
              HasSubstr("is 16, but --gpu names 8 GPUs; the nearest size that works is 8"));
  request.tensor_parallel = 7;
  EXPECT_THAT(refusal(outline, request), HasSubstr("is 7, but num_attention_heads is 64"));
  request.tensor_parallel = 8;
  request.context_parallel = 3;
  EXPECT_THAT(
      refusal(outline, request),
      HasSubstr(
          "is 3, but it must divide --tensor-parallel-size, which is 8; the nearest size that works is 4"));
  request = rtx_pro_6000();
  request.tensor_parallel = 4;
  EXPECT_THAT(refusal(outline, request), HasSubstr("The nearest size that works on this card is "
                                                   "--tensor-parallel-size 8"));
  request = rtx_pro_6000();
  request.runner.kv_format = KvFormat::kF32;
  EXPECT_THAT(refusal(outline, request), HasSubstr("is f32"));
  request = rtx_pro_6000();
  request.runner.max_model_len = 300000;
  EXPECT_THAT(refusal(outline, request), HasSubstr("is 300000, but the model's positions end at 262144"));
  request = rtx_pro_6000();
  request.utilisation = 1.5;
  EXPECT_THAT(refusal(outline, request), HasSubstr("--gpu-memory-utilization"));
}

TEST(KvPool, GivesWhatIsUsefulUpToTheDefault) {
  KvPoolRequest request{.block_bytes = 1000,
                        .block_size = 64,
                        .max_model_len = 640,
                        .max_num_seqs = 4,
                        .blocks = {},
                        .bytes = {},
                        .default_bytes = 1'000'000};
  EXPECT_EQ(size_kv_pool(request)->blocks, 40);  // ten for each of four sequences
  request.default_bytes = 25'000;
  EXPECT_EQ(size_kv_pool(request)->blocks, 25);
  request.default_bytes = 1;
  EXPECT_EQ(size_kv_pool(request)->blocks, 10);  // one sequence of full length always fits
  request.context_ranks = 4;
  EXPECT_EQ(size_kv_pool(request)->blocks, 3);  // ceil(10 / 4)
  EXPECT_EQ(size_kv_pool(request)->tokens, 3 * 64 * 4);
  request.bytes = 7'999;
  EXPECT_EQ(size_kv_pool(request)->blocks, 7);
  request.bytes = 999;
  EXPECT_THAT(size_kv_pool(request).error().message(),
              HasSubstr("is 999, but one block of 64 tokens needs 1000"));
  request.blocks = 11;
  EXPECT_EQ(size_kv_pool(request)->blocks, 11);
  request.blocks = 2'000'000'000;
  EXPECT_FALSE(size_kv_pool(request).ok());
}

TEST(Gpus, AreReadFromNameCountAndMemory) {
  const auto gpus = parse_gpus("RTX_pro 6000:8:95.0");
  ASSERT_TRUE(gpus.ok());
  EXPECT_EQ(gpus->card.name, "RTX PRO 6000");
  EXPECT_EQ(gpus->count, 8);
  EXPECT_EQ(gpus->card.visible_gib, 95.0);
  EXPECT_EQ(parse_gpus("h100")->card.name, "H100 80GB");  // the beginning of one name
  EXPECT_EQ(parse_gpus("H200")->count, 1);
  const auto foreign = parse_gpus("Rubin:4:288");
  ASSERT_TRUE(foreign.ok());
  EXPECT_FALSE(foreign->is_known);
  EXPECT_EQ(foreign->card.visible_gib, 288.0);
}

TEST(Gpus, BadOnesAreRefusedByName) {
  for (const auto& [text, part] : {std::pair{"Rubin:4", "is none of"},
                                   {"A100:8", "is none of"},
                                   {"H200:0", "count '0'"},
                                   {"H200:two", "count 'two'"},
                                   {"H200:8:", "memory ''"},
                                   {"H200:8:-3", "memory '-3'"},
                                   {"H200:8:nan", "memory 'nan'"},
                                   {"H200:1:2:3", "must be NAME:COUNT"},
                                   {"", "must be NAME:COUNT"},
                                   {":8", "must be NAME:COUNT"}}) {
    const auto gpus = parse_gpus(text);
    ASSERT_FALSE(gpus.ok()) << text;
    EXPECT_THAT(gpus.error().message(), HasSubstr(part)) << text;
  }
}

}  // namespace
}  // namespace tessera
