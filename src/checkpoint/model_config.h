// A model's config.json, normalised: one spelling for every family, nothing left to look up elsewhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tessera {

enum class Architecture : std::uint8_t {
  kDeepseekV3,  // MLA + MoE: DeepSeek-V3, Kimi-K2 (kimi_k2), the text part of Kimi-K2.5/2.6 (kimi_k25)
  kLlama,
  kQwen3,
  kEagle3Llama,  // drafts: one Llama layer over the target's hidden states
  kEagle3Mla,    // one MLA layer
  kDFlash,       // Qwen3-style block diffusion
};

struct YarnScaling {
  float factor = 1;
  std::int64_t original_positions = 0;
  float beta_fast = 32;
  float beta_slow = 1;
  float mscale = 1;
  float mscale_all_dim = 0;
};
struct Llama3Scaling {
  float factor = 1;
  float low_freq_factor = 1;
  float high_freq_factor = 4;
  std::int64_t original_positions = 0;
};

struct MlaConfig {
  std::int64_t q_lora_rank = 0;  // 0: q is projected directly
  std::int64_t kv_lora_rank = 0;
  std::int64_t nope_dim = 0;
  std::int64_t rope_dim = 0;
  std::int64_t v_dim = 0;
};
struct MoeConfig {
  std::int64_t experts = 0;  // 0: dense
  std::int64_t top_k = 0;
  std::int64_t shared_experts = 0;
  std::int64_t expert_width = 0;
  std::int64_t first_dense_layers = 0;  // first_k_dense_replace
  std::int64_t groups = 1;
  std::int64_t top_groups = 1;
  bool normalise = true;
  float scaling = 1;
};

struct ModelConfig {
  Architecture architecture = Architecture::kDeepseekV3;
  std::string architecture_name;  // as written, e.g. "KimiK25ForConditionalGeneration"
  std::string model_type;
  std::string tensor_prefix;  // "language_model." for Kimi-K2.5/2.6, else empty
  std::int64_t vocab = 0;
  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;  // GQA families
  std::int64_t dense_width = 0;
  std::int64_t max_positions = 0;
  float rms_eps = 1e-6F;
  float latent_norm_eps = 1e-6F;  // of q_a_layernorm and kv_a_layernorm; see "eps trap" in the docs
  double rope_theta = 10000;
  std::optional<YarnScaling> yarn;
  std::optional<Llama3Scaling> llama3_rope;
  bool tied_embeddings = false;
  bool qk_norm = false;  // Qwen3
  MlaConfig mla;
  MoeConfig moe;
  std::vector<std::int32_t>
      end_tokens;  // config eos, generation_config eos and <|im_end|> where the tokenizer has it
  std::int32_t bos_token = -1;
  std::int32_t pad_token = -1;
};

}  // namespace tessera
