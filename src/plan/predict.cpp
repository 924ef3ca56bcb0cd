#include "plan/predict.h"

#include <algorithm>
#include <cmath>

namespace tessera {
namespace {

struct CardSpeed {
  const char* name;
  BoxSpeed speed;
};
// Memory and dense bf16 from the makers' data sheets. Links: that of the RTX PRO 6000 (PCIe 5, eight cards)
// is fitted; other PCIe cards are taken to be alike, NVLink is taken at half its label and 8 us.
constexpr CardSpeed kSpeeds[] = {
    {"B200", {8000, 2250, 450, 8}},       {"H200", {4800, 989, 225, 8}},
    {"H100 80GB", {3350, 989, 225, 8}},   {"A100 80GB", {2039, 312, 150, 8}},
    {"A100 40GB", {1555, 312, 150, 8}},   {"RTX PRO 6000", {1792, 500, 39, 15.3}},
    {"RTX 6000 Ada", {960, 364, 20, 15}}, {"L40S", {864, 362, 20, 15}},
    {"RTX A6000", {768, 155, 20, 15}},    {"RTX 5090", {1792, 210, 39, 15}},
    {"RTX 4090", {1008, 165, 20, 15}},    {"RTX 3090", {936, 71, 20, 15}},
};

// Time of attention at any D, straight between the fitted ones on a logarithmic scale.
double attention_factor(const std::array<double, 3>& at, int context_ranks) {
  const double x = std::log2(static_cast<double>(context_ranks));
  if (x <= 0) return at[0];
  if (x < 2) return at[0] + (at[1] - at[0]) * x / 2;
  return at[1] + (at[2] - at[1]) * std::min(x - 2, 1.0);
}

// Tokens that one step gives a sequence.
double tokens_per_step(double acceptance, std::int64_t drafts) {
  double tokens = 1;
  double chain = 1;
  for (std::int64_t i = 0; i < drafts; ++i) tokens += chain *= acceptance;
  return tokens;
}

}  // namespace

BoxSpeed box_speed(const GpuCard& card) {
  for (const CardSpeed& known : kSpeeds) {
    if (card.name == known.name) return known.speed;
  }
  return {1000, 200, 20, 15, false};
}

StepWork step_work(const ModelConfig& config, const GpuPlan& plan) {
  const LayoutPlan& layout = plan.layouts.front();
  const auto weights = [&](ModuleClass c) {
    return static_cast<double>(layout.rank.weights[static_cast<std::size_t>(c)]);
  };
  StepWork work;
  work.ranks = plan.tensor_parallel;
  // Of the embedding a step reads a few rows.
  work.dense_bytes = -weights(ModuleClass::kEmbedding) - weights(ModuleClass::kRoutedExpert);
  for (const std::int64_t bytes : layout.rank.weights) work.dense_bytes += static_cast<double>(bytes);
  work.expert_bytes = weights(ModuleClass::kRoutedExpert);
  work.draft_bytes = static_cast<double>(layout.rank.draft_weights);
  work.kv_bytes = static_cast<double>(plan.kv_bytes_per_token);
  work.experts = static_cast<double>(config.moe.experts);
  work.top_k = static_cast<double>(config.moe.top_k);
  work.layers = static_cast<double>(config.layers);
  work.hidden = static_cast<double>(config.hidden);
  work.heads = static_cast<double>(config.heads);
  const MlaConfig& mla = config.mla;
  const auto real = [](std::int64_t value) { return static_cast<double>(value); };
  double attention_weights = 0;
  if (config.has_mla()) {
    work.query_width = real(mla.kv_lora_rank + mla.rope_dim);
    work.output_width = real(mla.kv_lora_rank);
    const double q_in = real(mla.q_lora_rank > 0 ? mla.q_lora_rank : config.hidden);
    attention_weights = work.hidden * real(mla.q_lora_rank + mla.kv_lora_rank + mla.rope_dim) +
                        q_in * work.heads * real(mla.nope_dim + mla.rope_dim) +
                        real(mla.kv_lora_rank) * work.heads * real(mla.nope_dim + mla.v_dim) +
                        work.heads * real(mla.v_dim) * work.hidden;
    work.attention_flops = 2 * work.layers * work.heads * real(mla.nope_dim + mla.rope_dim + mla.v_dim);
  } else {
    work.query_width = work.output_width = real(config.head_dim);
    attention_weights = work.hidden * real(config.head_dim) * real(2 * config.heads + 2 * config.kv_heads);
    work.attention_flops = 4 * work.layers * work.heads * real(config.head_dim);
  }
  double mlp_weights = 0;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) {
    mlp_weights += config.is_moe_layer(layer) ? 3 * work.hidden * real(config.moe.expert_width) *
                                                    real(config.moe.top_k + config.moe.shared_experts)
                                              : 3 * work.hidden * real(config.dense_width);
  }
  work.prefill_flops = 2 * (work.layers * attention_weights + mlp_weights);
  return work;
}

PredictConstants published_constants() { return {}; }

double predict_decode(const StepWork& work, const BoxSpeed& box, const PredictConstants& fitted,
                      const DecodeQuestion& question) {
  const auto seqs = static_cast<double>(question.concurrency);
  const auto drafts = static_cast<double>(question.drafts);
  const double tokens = seqs * (1 + drafts);
  const double memory = box.memory_gb_s * 1e9;
  const double link = box.link_gb_s * 1e9;
  double step = fitted.host_ms * 1e-3 + work.dense_bytes / memory / fitted.dense_efficiency;

  if (work.experts > 0) {
    // Tokens choose their experts independently: a share of them is touched.
    const double touched = 1 - std::pow(1 - work.top_k / work.experts, tokens);
    const double each = tokens * work.top_k / work.experts;
    const double efficiency = fitted.expert_least + (fitted.expert_most - fitted.expert_least) * each /
                                                        (each + fitted.expert_tokens);
    step += work.expert_bytes * touched / memory / efficiency;
  }

  const double cache = seqs * static_cast<double>(question.context) * work.kv_bytes;
  step += cache / memory * attention_factor(fitted.attention, question.context_ranks) *
          (1 + fitted.attention_query * drafts);

  if (work.ranks > 1) {  // two all-reduces a layer, bf16
    const double share = 2 * (work.ranks - 1) / static_cast<double>(work.ranks);
    step += 2 * work.layers * (box.link_us * 1e-6 + tokens * work.hidden * 2 * share / link);
  }
  if (question.context_ranks > 1) {  // queries gathered; partial outputs and their sums exchanged, bf16
    const double group = question.context_ranks;
    const double heads = work.heads / work.ranks * group;
    const double bytes = tokens * heads * (work.query_width + work.output_width) * 2 * (group - 1) / group;
    step += work.layers * (3 * box.link_us * 1e-6 + bytes / link);
  }
  if (question.drafts > 0) {
    step += drafts * work.draft_bytes / memory / fitted.dense_efficiency;
    step += seqs * fitted.draft_seq_ms * 1e-3;
  }
  return seqs * tokens_per_step(fitted.acceptance, question.drafts) / step;
}

double predict_prefill(const StepWork& work, const BoxSpeed& box, const PredictConstants& fitted,
                       std::int64_t context) {
  const double peak = box.tflop_s * 1e12 * work.ranks;
  const double seen = static_cast<double>(context) / 2;  // by a token, on average
  const double token_s = work.prefill_flops / peak / fitted.prefill_efficiency +
                         work.attention_flops * seen / peak / fitted.prefill_attention;
  return 1 / token_s;
}

}  // namespace tessera
