#include "plan/published.h"

#include <cmath>

namespace tessera {
namespace {

// Of voipmonitor/rtx6kpro, models/kimi-k26.md: Kimi-K2.6 on 8 x RTX PRO 6000 with a fork of vLLM.
constexpr PublishedCapacity kKimi[] = {
    {1, false, 437'264}, {4, false, 1'686'656}, {8, false, 3'267'968},
    {1, true, 343'664},  {4, true, 1'152'960},  {8, true, 1'822'464},
};

constexpr std::int64_t kSplits = 64;  // of a sequence, whatever its length
constexpr std::int64_t kVisionBytes =
    930'000'000;  // 27 layers of 1152 and 4304, and the projector: 0.47 G weights
// vLLM's fused Marlin experts keep what each chosen expert made of each token until all are summed.
constexpr std::int64_t kExpertRowBytes = 8'192L * 8 * 7'168 * 2;

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

// Sizes of Kimi-K2.6: 64 query heads over 8 ranks, latent 512. 128 sequences, with three drafts four tokens
// each.
std::vector<PublishedPart> known_parts(int context_ranks, bool with_draft) {
  const std::int64_t gathered = 8 * context_ranks;
  const std::int64_t tokens = with_draft ? 512 : 128;
  return {{"split scratch: " + std::to_string(tokens) + " query tokens x " + std::to_string(gathered) +
               " gathered heads x 64 splits x 513 x 4 bytes",
           tokens * gathered * kSplits * 513 * 4},
          {"output of each chosen expert: 8192 query tokens x 8 experts x 7168 x 2 bytes", kExpertRowBytes},
          {"vision tower and projector, bf16, if each GPU holds them whole (here only text is served)",
           kVisionBytes}};
}

}  // namespace tessera
