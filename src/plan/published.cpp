#include "plan/published.h"

#include <cmath>

namespace tessera {
namespace {

// Of voipmonitor/rtx6kpro, models/kimi-k26.md: Kimi-K2.6 on 8 x RTX PRO 6000 with a fork of vLLM.
constexpr PublishedCapacity kKimi[] = {
    {1, false, 437'264}, {4, false, 1'686'656}, {8, false, 3'267'968},
    {1, true, 343'664},  {4, true, 1'152'960},  {8, true, 1'822'464},
};

constexpr std::int64_t kTokens = 8192;  // that setup's query tokens in a step
constexpr std::int64_t kSplits = 64;    // its splits of a sequence, whatever its length

}  // namespace

std::string_view published_source() {
  return "published: a fork of vLLM on 8 x RTX PRO 6000 (voipmonitor/rtx6kpro, models/kimi-k26.md)";
}

std::vector<PublishedCapacity> published_for(const ModelConfig& config, const GpuPlan& plan) {
  const GpuPlanRequest& r = plan.request;
  const bool is_kimi = config.architecture == Architecture::kDeepseekV3 && config.layers == 61 &&
                       config.hidden == 7168 && config.moe.experts == 384;
  const bool same_setup = plan.tensor_parallel == 8 && !r.expert_parallel &&
                          std::abs(r.gpus.card.visible_gib - 95.6) < 0.3 &&
                          std::abs(r.utilisation - 0.94) < 1e-9 && r.runner.kv_format == KvFormat::kFp8 &&
                          r.runner.max_model_len == 262'144;
  if (!is_kimi || !same_setup) return {};
  std::vector<PublishedCapacity> result;
  for (const PublishedCapacity& one : kKimi) {
    if (one.with_draft == !plan.draft.empty()) result.push_back(one);
  }
  return result;
}

// Sizes of Kimi-K2.6: 64 query heads over 8 ranks, latent 512, hidden 7168, top 8 of 384 experts.
std::vector<PublishedPart> known_parts(int context_ranks) {
  const std::int64_t gathered = 8 * context_ranks;
  return {
      {"split scratch: 512 query tokens x gathered heads x 64 splits x 513 x 4 bytes",
       512 * gathered * kSplits * 513 * 4},
      {"outputs of the chosen experts before they are summed: 8,192 tokens x 8 x 7168, bf16",
       kTokens * 8 * 7168 * 2},
      {"vision tower and projector, bf16 (only text is served here)", 900'000'000},
      {"context of chunked prefill: 65,536 rows of 576, and 8 heads' keys and values of them, bf16",
       std::int64_t{65'536} * (576 + 8 * (192 + 128)) * 2},
  };
}

}  // namespace tessera
