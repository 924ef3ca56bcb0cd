// A model's config.json, normalised: one spelling for every family, nothing left to look up elsewhere.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "checkpoint/quantisation.h"

namespace tessera {

enum class Architecture : std::uint8_t {
  kDeepseekV3,  // MLA + MoE: DeepSeek-V3, Kimi-K2 (kimi_k2), the text part of Kimi-K2.5/2.6 (kimi_k25)
  kLlama,
  kQwen3,
  kEagle3Llama,  // drafts: one Llama layer over the target's hidden states
  kEagle3Mla,    // one MLA layer
  kDFlash,       // Qwen3-style block diffusion
};
std::string_view name_of(Architecture architecture);

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

// Where a draft's config names the target layers whose hidden states it reads. Two conventions are in use for
// the same words: "the stream after layer i" and "the input of layer i" (= after layer i - 1), so the ids are
// kept as written.
enum class AuxLayerSource : std::uint8_t {
  kNone,         // not named
  kTopLevel,     // eagle_aux_hidden_state_layer_ids beside the other keys: the input of layer i (vLLM)
  kEagleConfig,  // inside eagle_config: after layer i for published Kimi drafts, the input of layer i for
                 // ours
  kDFlash,       // dflash_config.target_layer_ids: after layer i
};

struct DraftConfig {
  std::int64_t target_hidden = 0;  // width of the target's hidden states
  std::int64_t draft_vocab = 0;    // rows of the draft's own lm_head; equals vocab when it is not reduced
  std::vector<std::int64_t> aux_layers;
  AuxLayerSource aux_source = AuxLayerSource::kNone;
  bool use_aux = true;                // false: no fc, reads the target's last hidden state
  bool norm_before_residual = false;  // residual is the normed hidden state, not the raw one
  bool fc_norm = false;               // EAGLE-3.1: one RMS norm for each auxiliary state, before fc
  bool norm_output = false;           // EAGLE-3.1: the normed output is fed back
  std::int64_t block_size = 0;        // DFlash: tokens of a block, the anchor included
  std::int32_t mask_token = -1;       // DFlash
  std::int64_t target_layers = 0;     // num_target_layers, 0 when the config does not say
};

struct ModelConfig {
  Architecture architecture = Architecture::kDeepseekV3;
  std::string architecture_name;  // as written, e.g. "KimiK25ForConditionalGeneration"
  std::string model_type;         // as written, of the text part
  std::int64_t vocab = 0;
  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;  // GQA families
  std::int64_t dense_width = 0;
  std::int64_t max_positions = 0;
  float rms_eps = 1e-6F;
  // Of q_a_layernorm and kv_a_layernorm. The reference code of DeepSeek-V3 and Kimi does not pass
  // rms_norm_eps to these two and so uses 1e-6; vLLM and SGLang use rms_norm_eps (1e-5 for Kimi-K2.5/2.6).
  // Set it to rms_eps to compare with those.
  float latent_norm_eps = 1e-6F;
  double rope_theta = 10000;
  std::optional<YarnScaling> yarn;
  std::optional<Llama3Scaling> llama3_rope;
  bool tied_embeddings = false;
  bool qk_norm = false;  // Qwen3
  MlaConfig mla;
  MoeConfig moe;
  std::optional<DraftConfig> draft;  // of the three draft architectures
  std::vector<std::int32_t>
      end_tokens;  // ascending: eos of config and generation_config; for Kimi also [EOS] and <|im_end|>
  std::int32_t bos_token = -1;
  std::int32_t pad_token = -1;

  QuantisationConfig quantisation;
  std::vector<std::string> notes;  // what a reader of the config should know, one line each

  bool has_mla() const { return mla.kv_lora_rank > 0; }
  bool is_moe_layer(std::int64_t layer) const { return moe.experts > 0 && layer >= moe.first_dense_layers; }
};

// From the text of config.json; `where` names the file in errors.
Result<ModelConfig> parse_model_config(std::string_view json, std::string_view where);

// From a model folder: config.json, and the end tokens of generation_config.json and tokenizer_config.json
// where these exist. A path of a single .json file is taken as a config.json alone.
Result<ModelConfig> read_model_config(const std::filesystem::path& folder_or_file);

}  // namespace tessera
