#include "checkpoint/model_config.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "checkpoint/config_reader.h"
#include "checkpoint/quantisation_reader.h"

namespace tessera {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMaxConfigBytes = std::size_t{16} << 20;
constexpr IntegerRange kWidth{1, 1 << 20};  // of an activation or a matrix
constexpr IntegerRange kOptionalWidth{0, 1 << 20};
constexpr IntegerRange kCount{1, 1 << 16};  // heads, experts
constexpr IntegerRange kLayers{1, 4096};
constexpr IntegerRange kTokens{1, 1 << 24};     // vocabularies, positions
constexpr std::int64_t kMostExperts = 1 << 18;  // over all layers: bounds the parameter list

struct KnownName {
  std::string_view name;
  Architecture architecture;
};
constexpr KnownName kKnownNames[] = {
    {"DeepseekV3ForCausalLM", Architecture::kDeepseekV3},
    {"KimiK2ForCausalLM", Architecture::kDeepseekV3},
    {"KimiK25ForConditionalGeneration", Architecture::kDeepseekV3},
    {"LlamaForCausalLM", Architecture::kLlama},
    {"Qwen3ForCausalLM", Architecture::kQwen3},
    {"LlamaForCausalLMEagle3", Architecture::kEagle3Llama},
    {"Eagle3LlamaForCausalLM", Architecture::kEagle3Llama},
    {"Eagle3DeepseekV2ForCausalLM", Architecture::kEagle3Mla},
    {"Eagle3DeepseekV3ForCausalLM", Architecture::kEagle3Mla},
    {"DFlashDraftModel", Architecture::kDFlash},
    // model_type, for configs without architectures
    {"deepseek_v3", Architecture::kDeepseekV3},
    {"kimi_k2", Architecture::kDeepseekV3},
    {"llama", Architecture::kLlama},
    {"qwen3", Architecture::kQwen3},
};

std::optional<Architecture> architecture_named(std::string_view name) {
  const auto at = std::ranges::find(kKnownNames, name, &KnownName::name);
  return at == std::end(kKnownNames) ? std::nullopt : std::optional(at->architecture);
}

std::string first_architecture(ConfigReader& reader) {
  const std::vector<std::string> names = reader.texts("architectures");
  return names.empty() ? std::string() : names.front();
}

Architecture read_architecture(ConfigReader& outer, ConfigReader& text, ModelConfig& config) {
  const std::string inner_name = first_architecture(text);
  config.architecture_name = first_architecture(outer);
  if (config.architecture_name.empty()) config.architecture_name = inner_name;
  config.model_type = text.text("model_type", "");
  std::optional<Architecture> found = architecture_named(inner_name);
  if (!found) found = architecture_named(config.architecture_name);
  if (!found && config.architecture_name.empty()) found = architecture_named(config.model_type);
  if (!found) {
    outer.fail(ErrorKind::kUnsupported,
               "Architecture " + ConfigReader::shown(config.architecture_name) + " (model_type " +
                   ConfigReader::shown(config.model_type) +
                   ") is not supported; supported: DeepseekV3ForCausalLM, KimiK25ForConditionalGeneration, "
                   "LlamaForCausalLM, Qwen3ForCausalLM, and the drafts LlamaForCausalLMEagle3, "
                   "Eagle3DeepseekV2ForCausalLM, DFlashDraftModel.");
    return Architecture::kLlama;
  }
  // Drafts are told apart by what they hold: their names were given freely.
  if (*found == Architecture::kLlama && (text.has("draft_vocab_size") || text.has("eagle_config"))) {
    found = Architecture::kEagle3Llama;
  }
  if (*found == Architecture::kEagle3Llama && text.has("kv_lora_rank")) found = Architecture::kEagle3Mla;
  return *found;
}

// rope_scaling beside rope_theta, or the newer rope_parameters that holds both; "type" or "rope_type".
void read_rope(ConfigReader& text, ModelConfig& config) {
  const NumberRange theta{1, 1e12};
  const bool newer = text.has_object("rope_parameters");
  config.rope_theta = text.number("rope_theta", theta, 10000.0);
  if (!newer && !text.has_object("rope_scaling")) return;
  ConfigReader rope = text.inside(newer ? "rope_parameters" : "rope_scaling");
  config.rope_theta = rope.number("rope_theta", theta, config.rope_theta);
  const std::string key = rope.has("rope_type") ? "rope_type" : "type";
  const std::string type = rope.text(key, "default");
  const NumberRange factor{1, 1e6};
  const NumberRange positive{1e-6, 1e6};
  if (type == "default") return;
  if (type == "yarn" || type == "deepseek_yarn") {
    YarnScaling yarn;
    yarn.factor = static_cast<float>(rope.number("factor", factor));
    yarn.original_positions = rope.integer("original_max_position_embeddings", kTokens);
    yarn.beta_fast = static_cast<float>(rope.number("beta_fast", positive, 32.0));
    yarn.beta_slow = static_cast<float>(rope.number("beta_slow", positive, 1.0));
    yarn.mscale = static_cast<float>(rope.number("mscale", {0, 100}, 1.0));
    yarn.mscale_all_dim = static_cast<float>(rope.number("mscale_all_dim", {0, 100}, 0.0));
    if (rope.has("attention_factor")) rope.unsupported("attention_factor", "null");
    if (!rope.flag("truncate", true)) rope.unsupported("truncate", "true");
    config.yarn = yarn;
  } else if (type == "llama3") {
    Llama3Scaling llama3;
    llama3.factor = static_cast<float>(rope.number("factor", factor));
    llama3.low_freq_factor = static_cast<float>(rope.number("low_freq_factor", positive));
    llama3.high_freq_factor = static_cast<float>(rope.number("high_freq_factor", positive));
    llama3.original_positions = rope.integer("original_max_position_embeddings", kTokens);
    if (!rope.error() && llama3.high_freq_factor <= llama3.low_freq_factor) {
      rope.fail(ErrorKind::kInvalidArgument, "high_freq_factor must be greater than low_freq_factor.");
    }
    config.llama3_rope = llama3;
  } else {
    rope.unsupported(key, "\"default\", \"yarn\", \"llama3\"");
  }
}

void read_mla(ConfigReader& text, ModelConfig& config) {
  config.mla.q_lora_rank = text.integer("q_lora_rank", kOptionalWidth, 0);
  config.mla.kv_lora_rank = text.integer("kv_lora_rank", kWidth);
  config.mla.nope_dim = text.integer("qk_nope_head_dim", kWidth);
  config.mla.rope_dim = text.integer("qk_rope_head_dim", kWidth);
  config.mla.v_dim = text.integer("v_head_dim", kWidth);
  if (!text.error() && config.mla.rope_dim % 2 != 0) text.unsupported("qk_rope_head_dim", "even numbers");
  if (config.rms_eps != config.latent_norm_eps) {
    std::ostringstream note;
    note << "q_a_layernorm and kv_a_layernorm use eps " << config.latent_norm_eps
         << " as the reference code does; rms_norm_eps (" << config.rms_eps << ") is for the other norms";
    config.notes.push_back(note.str());
  }
}

void read_moe(ConfigReader& text, ModelConfig& config) {
  MoeConfig& moe = config.moe;
  moe.experts = text.integer("n_routed_experts", {0, kCount.most}, 0);
  if (moe.experts == 0) return;
  moe.top_k = text.integer("num_experts_per_tok", kCount);
  moe.shared_experts = text.integer("n_shared_experts", {0, 64}, 0);
  moe.expert_width = text.integer("moe_intermediate_size", kWidth);
  moe.first_dense_layers = text.integer("first_k_dense_replace", {0, kLayers.most}, 0);
  moe.groups = text.integer("n_group", kCount, 1);
  moe.top_groups = text.integer("topk_group", kCount, 1);
  moe.normalise = text.flag("norm_topk_prob", true);
  moe.scaling = static_cast<float>(text.number("routed_scaling_factor", {0, 1e6}, 1.0));
  if (text.text("scoring_func", "sigmoid") != "sigmoid") text.unsupported("scoring_func", "\"sigmoid\"");
  if (text.text("topk_method", "noaux_tc") != "noaux_tc") text.unsupported("topk_method", "\"noaux_tc\"");
  if (text.integer("moe_layer_freq", kLayers, 1) != 1) text.unsupported("moe_layer_freq", "1");
  if (text.error()) return;
  const auto numbers = [](std::int64_t a, const char* between, std::int64_t b) {
    return " (" + std::to_string(a) + between + std::to_string(b) + ").";
  };
  if (moe.experts * config.layers > kMostExperts) {
    text.fail(ErrorKind::kTooLarge, "n_routed_experts times num_hidden_layers is over the limit" +
                                        numbers(moe.experts * config.layers, " > ", kMostExperts));
  } else if (moe.top_k > moe.experts) {
    text.fail(ErrorKind::kInvalidArgument,
              "num_experts_per_tok is over n_routed_experts" + numbers(moe.top_k, " > ", moe.experts));
  } else if (moe.experts % moe.groups != 0 || moe.top_groups > moe.groups) {
    text.fail(ErrorKind::kInvalidArgument,
              "n_group must divide n_routed_experts, and topk_group be at most n_group" +
                  numbers(moe.groups, ", ", moe.top_groups));
  } else if (moe.top_k > moe.experts / moe.groups * moe.top_groups) {
    text.fail(ErrorKind::kInvalidArgument,
              "topk_group groups hold fewer experts than num_experts_per_tok" +
                  numbers(moe.experts / moe.groups * moe.top_groups, " < ", moe.top_k));
  } else if (moe.first_dense_layers > config.layers) {
    text.fail(ErrorKind::kInvalidArgument, "first_k_dense_replace is over num_hidden_layers" +
                                               numbers(moe.first_dense_layers, " > ", config.layers));
  }
}

void read_gqa(ConfigReader& text, ModelConfig& config) {
  config.qk_norm =
      config.architecture == Architecture::kQwen3 || config.architecture == Architecture::kDFlash;
  config.kv_heads = text.integer("num_key_value_heads", kCount, config.heads);
  const bool given = text.has("head_dim");
  config.head_dim = text.integer("head_dim", kWidth, config.heads > 0 ? config.hidden / config.heads : 0);
  if (text.error()) return;
  if (!given && config.hidden % config.heads != 0) {
    text.fail(ErrorKind::kInvalidArgument, "num_attention_heads (" + std::to_string(config.heads) +
                                               ") must divide hidden_size (" + std::to_string(config.hidden) +
                                               "), as there is no head_dim.");
  } else if (config.heads % config.kv_heads != 0) {
    text.fail(ErrorKind::kInvalidArgument, "num_key_value_heads (" + std::to_string(config.kv_heads) +
                                               ") must divide num_attention_heads (" +
                                               std::to_string(config.heads) + ").");
  } else if (config.head_dim < 2 || config.head_dim % 2 != 0) {
    text.unsupported("head_dim", "even numbers");
  }
  if (text.flag("use_sliding_window", false)) text.unsupported("use_sliding_window", "false");
  if (text.flag("mlp_bias", false)) text.unsupported("mlp_bias", "false");
  for (const std::string& type : text.texts("layer_types")) {
    if (type != "full_attention") text.unsupported("layer_types", "\"full_attention\" in every layer");
  }
}

void read_draft(ConfigReader& text, ModelConfig& config) {
  DraftConfig draft;
  const IntegerRange layer{-1, kLayers.most};
  draft.target_hidden = text.integer("target_hidden_size", kWidth, config.hidden);
  draft.draft_vocab = text.integer("draft_vocab_size", kTokens, config.vocab);
  draft.target_layers = text.integer("num_target_layers", {0, kLayers.most}, 0);
  draft.norm_before_residual = text.flag("norm_before_residual", false);
  draft.fc_norm = text.flag("fc_norm", text.flag("use_aux_norm", false));
  draft.norm_output = text.flag("norm_output", false);
  if (text.flag("norm_before_fc", false)) text.unsupported("norm_before_fc", "false");
  if (text.has("eagle_aux_hidden_state_layer_ids")) {
    draft.aux_layers = text.integers("eagle_aux_hidden_state_layer_ids", layer);
    draft.aux_source = AuxLayerSource::kTopLevel;
  }
  if (text.has_object("eagle_config")) {
    ConfigReader eagle = text.inside("eagle_config");
    draft.use_aux = eagle.flag("use_aux_hidden_state", true);
    if (eagle.has("eagle_aux_hidden_state_layer_ids") && draft.aux_layers.empty()) {
      draft.aux_layers = eagle.integers("eagle_aux_hidden_state_layer_ids", layer);
      draft.aux_source = AuxLayerSource::kEagleConfig;
    }
    if (eagle.flag("use_mtp_layernorm", false)) eagle.unsupported("use_mtp_layernorm", "false");
    if (!eagle.flag("use_input_layernorm_in_first_layer", true)) {
      eagle.unsupported("use_input_layernorm_in_first_layer", "true");
    }
    if (!eagle.flag("use_last_layernorm", true)) eagle.unsupported("use_last_layernorm", "true");
  }
  if (config.architecture == Architecture::kDFlash) {
    if (!text.has_object("dflash_config")) {
      text.fail(ErrorKind::kInvalidArgument, "dflash_config is missing.");
      return;
    }
    ConfigReader dflash = text.inside("dflash_config");
    draft.mask_token = static_cast<std::int32_t>(dflash.integer("mask_token_id", {0, kTokens.most}));
    draft.aux_layers = dflash.integers("target_layer_ids", layer);
    draft.aux_source = AuxLayerSource::kDFlash;
    draft.block_size = text.has("block_size") ? text.integer("block_size", {2, 256})
                                              : dflash.integer("block_size", {2, 256});
    if (!text.error() && draft.aux_layers.empty()) {
      text.fail(ErrorKind::kInvalidArgument, "dflash_config.target_layer_ids is missing or empty.");
    }
    if (!text.error() && draft.mask_token >= config.vocab) {
      text.fail(ErrorKind::kInvalidArgument, "mask_token_id (" + std::to_string(draft.mask_token) +
                                                 ") lies outside the vocabulary (" +
                                                 std::to_string(config.vocab) + " tokens).");
    }
  }
  if (!text.error() && draft.draft_vocab > config.vocab) {
    text.fail(ErrorKind::kInvalidArgument, "draft_vocab_size (" + std::to_string(draft.draft_vocab) +
                                               ") is over vocab_size (" + std::to_string(config.vocab) +
                                               ").");
  }
  if (draft.aux_layers.size() > 64)
    text.fail(ErrorKind::kTooLarge, "More than 64 auxiliary layers are named.");
  config.draft = std::move(draft);
}

// eos_token_id: a number, a list, or nothing.
void add_end_tokens(const Json& object, std::string_view file, ModelConfig& config) {
  const auto at = object.find("eos_token_id");
  if (at == object.end() || at->is_null()) return;
  for (const Json& id : at->is_array() ? *at : Json::array({*at})) {
    if (id.is_number_integer() && id.get<std::int64_t>() >= 0 && id.get<std::int64_t>() < config.vocab) {
      config.end_tokens.push_back(id.get<std::int32_t>());
    } else {
      config.notes.push_back(std::string(file) + ": eos_token_id " + ConfigReader::shown(id) +
                             " is no token of the vocabulary and is not used");
    }
  }
}

void sort_end_tokens(ModelConfig& config) {
  auto& ids = config.end_tokens;
  std::ranges::sort(ids);
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
}

std::int32_t token_or_none(ConfigReader& reader, const std::string& key) {
  return static_cast<std::int32_t>(reader.integer(key, {-1, kTokens.most}, -1));
}

Result<std::string> read_text(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return Error{ErrorKind::kNotFound, path.string(), "Cannot open the file."};
  std::string text;
  char piece[65536];
  while (file.read(piece, sizeof piece) || file.gcount() > 0) {
    text.append(piece, static_cast<std::size_t>(file.gcount()));
    if (text.size() > kMaxConfigBytes) {
      return Error{ErrorKind::kTooLarge, path.string(),
                   "The file is over the limit of " + std::to_string(kMaxConfigBytes) + " bytes."};
    }
  }
  return text;
}

// A side file of the folder as an object; nothing when it is absent.
Result<std::optional<Json>> read_side_file(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return std::optional<Json>();
  TS_TRY(const std::string text, read_text(path));
  Json json = Json::parse(text, nullptr, false);
  if (!json.is_object())
    return Error{ErrorKind::kCorrupt, path.filename().string(), "The file holds no JSON object."};
  return std::optional(std::move(json));
}

// Kimi ends a turn with <|im_end|> and a text with [EOS], whichever of them the configs happen to name.
void add_kimi_end_tokens(const Json& tokenizer, ModelConfig& config) {
  const auto added = tokenizer.find("added_tokens_decoder");
  if (added == tokenizer.end() || !added->is_object()) return;
  for (const auto& [id, token] : added->items()) {
    if (!token.is_object()) continue;
    const auto content = token.find("content");
    if (content == token.end() || (*content != "[EOS]" && *content != "<|im_end|>")) continue;
    const bool digits =
        !id.empty() && id.size() < 9 && std::ranges::all_of(id, [](char c) { return c >= '0' && c <= '9'; });
    if (digits && std::stoll(id) < config.vocab) config.end_tokens.push_back(std::stoi(id));
  }
}

// ModelOpt repositories keep a stale quantization_config in config.json; this file says what is really there.
Result<void> refuse_modelopt(const Json& json) {
  const auto part = json.find("quantization");
  if (part == json.end() || !part->is_object()) return {};
  const auto algorithm = part->find("quant_algo");
  if (algorithm == part->end() || algorithm->is_null()) return {};
  return Error{
      ErrorKind::kUnsupported, "hf_quant_config.json",
      "quant_algo is " + ConfigReader::shown(*algorithm) +
          "; supported are the original checkpoints: bf16, int4 in groups of 32, fp8 in 128x128 blocks."};
}

}  // namespace

std::string_view name_of(Architecture architecture) {
  switch (architecture) {
    case Architecture::kDeepseekV3:
      return "DeepSeek-V3 (MLA, MoE)";
    case Architecture::kLlama:
      return "Llama";
    case Architecture::kQwen3:
      return "Qwen3";
    case Architecture::kEagle3Llama:
      return "EAGLE-3 draft (Llama layer)";
    case Architecture::kEagle3Mla:
      return "EAGLE-3 draft (MLA layer)";
    case Architecture::kDFlash:
      return "DFlash draft";
  }
  return "?";
}

Result<ModelConfig> parse_model_config(std::string_view json_text, std::string_view where) {
  const Json json = Json::parse(json_text, nullptr, false);
  if (!json.is_object())
    return Error{ErrorKind::kCorrupt, std::string(where), "The file holds no JSON object."};
  ConfigReader outer(json, std::string(where));
  ConfigReader text = outer.has_object("text_config") ? outer.inside("text_config") : outer;

  ModelConfig config;
  config.architecture = read_architecture(outer, text, config);
  if (outer.error()) return *outer.error();
  config.vocab = text.integer("vocab_size", kTokens);
  config.hidden = text.integer("hidden_size", kWidth);
  config.layers = text.integer("num_hidden_layers", kLayers);
  config.heads = text.integer("num_attention_heads", kCount);
  config.dense_width = text.integer("intermediate_size", kWidth);
  config.max_positions = text.integer("max_position_embeddings", kTokens);
  config.rms_eps = static_cast<float>(text.number("rms_norm_eps", {0, 1}, 1e-6));
  config.tied_embeddings = text.flag("tie_word_embeddings", outer.flag("tie_word_embeddings", false));
  config.bos_token = token_or_none(text, "bos_token_id");
  config.pad_token = token_or_none(text, "pad_token_id");
  if (text.text("hidden_act", "silu") != "silu") text.unsupported("hidden_act", "\"silu\"");
  if (text.flag("attention_bias", false)) text.unsupported("attention_bias", "false");
  read_rope(text, config);

  const bool is_mla =
      config.architecture == Architecture::kDeepseekV3 || config.architecture == Architecture::kEagle3Mla;
  if (is_mla) {
    read_mla(text, config);
    if (config.architecture == Architecture::kDeepseekV3) read_moe(text, config);
    config.kv_heads = config.heads;
  } else {
    read_gqa(text, config);
  }
  if (config.architecture >= Architecture::kEagle3Llama) read_draft(text, config);
  if (config.architecture == Architecture::kEagle3Llama || config.architecture == Architecture::kEagle3Mla) {
    if (config.layers != 1) text.unsupported("num_hidden_layers", "1 in an EAGLE-3 draft");
  }

  ConfigReader quantised = text.has_object("quantization_config") ? text : outer;
  if (quantised.has_object("quantization_config")) {
    config.quantisation = read_quantisation(quantised.inside("quantization_config"), config.notes);
  }
  if (outer.error()) return *outer.error();
  add_end_tokens(json, where, config);
  if (outer.has_object("text_config")) add_end_tokens(json["text_config"], where, config);
  sort_end_tokens(config);
  return config;
}

Result<ModelConfig> read_model_config(const std::filesystem::path& folder_or_file) {
  if (folder_or_file.extension() == ".json") {
    TS_TRY(const std::string text, read_text(folder_or_file));
    return parse_model_config(text, folder_or_file.filename().string());
  }
  const std::filesystem::path& folder = folder_or_file;
  if (!std::filesystem::is_directory(folder)) {
    return Error{ErrorKind::kNotFound, folder.string(), "There is no such model folder."};
  }
  TS_TRY(const std::string text, read_text(folder / "config.json"));
  TS_TRY(ModelConfig config, parse_model_config(text, "config.json"));

  TS_TRY(const auto modelopt, read_side_file(folder / "hf_quant_config.json"));
  if (modelopt) TS_TRY(refuse_modelopt(*modelopt));
  TS_TRY(const auto generation, read_side_file(folder / "generation_config.json"));
  if (generation) add_end_tokens(*generation, "generation_config.json", config);
  if (config.model_type.starts_with("kimi")) {
    TS_TRY(const auto tokenizer, read_side_file(folder / "tokenizer_config.json"));
    if (tokenizer) add_kimi_end_tokens(*tokenizer, config);
  }
  sort_end_tokens(config);
  return config;
}

}  // namespace tessera
