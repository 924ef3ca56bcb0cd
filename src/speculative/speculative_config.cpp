#include "speculative/speculative_config.h"

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "base/check.h"
#include "checkpoint/config_reader.h"
#include "model/draft.h"

namespace tessera {
namespace {

constexpr std::string_view kWhere = "--speculative-config";
constexpr IntegerRange kTokens{1, 1 << 24};
constexpr IntegerRange kLimit{0, 1 << 30};

constexpr std::string_view kKeys[] = {"method",
                                      "model",
                                      "num_speculative_tokens",
                                      "rejection_sample_method",
                                      "draft_sample_method",
                                      "use_local_argmax_reduction",
                                      "draft_tensor_parallel_size",
                                      "draft_kv_cache_dtype",
                                      "kv_cache_dtype",
                                      "draft_attention_backend",
                                      "attention_backend",
                                      "max_model_len",
                                      "prompt_lookup_min",
                                      "prompt_lookup_max",
                                      "disable_by_batch_size",
                                      "disable_above_seq_len",
                                      "adaptive"};

// Keys of vLLM that are accepted for the sake of scripts that carry them.
struct Meaningless {
  std::string_view key;
  std::string_view reason;
};
constexpr Meaningless kMeaningless[] = {
    {"enforce_eager", "the draft runs as the target does"},
    {"revision", "models are folders"},
    {"code_revision", "models are folders"},
    {"quantization", "the draft's formats are read from its files"},
    {"disable_padded_drafter_batch", "rejected rows are never drafted from"},
    {"disable_logprobs", "log-probs are always the target's"},
    {"draft_load_config", "weights are read from safetensors"},
};

// Of single edits from one to the other.
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t corner = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = corner + (a[i - 1] == b[j - 1] ? 0 : 1);
      corner = row[j];
      row[j] = std::min({replaced, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row.back();
}

Error unknown_key(const std::string& key) {
  std::string_view nearest;
  std::size_t best = key.size() / 2 + 1;
  for (const std::string_view known : kKeys) {
    if (key.size() > 64) break;  // no typing error
    const std::size_t d = distance(key, known);
    if (d < best) {
      best = d;
      nearest = known;
    }
  }
  return {ErrorKind::kInvalidArgument, std::string(kWhere),
          "has the key " + ConfigReader::shown(key) + ", which is unknown" +
              (nearest.empty() ? "." : "; did you mean " + std::string(nearest) + "?")};
}

// One of a few words; an absent key gives the first.
std::string word(ConfigReader& reader, const std::string& key, std::span<const std::string_view> words) {
  const std::string value = reader.text(key, std::string(words.front()));
  if (std::ranges::find(words, value) != words.end()) return value;
  std::string list;
  for (const std::string_view w : words) list += (list.empty() ? "" : ", ") + std::string(w);
  reader.unsupported(key, list);
  return std::string(words.front());
}

void read_method(ConfigReader& reader, SpeculativeConfig& config) {
  if (!reader.has("method")) return;
  constexpr std::array words = {std::string_view("eagle3"), std::string_view("dflash"),
                                std::string_view("draft_model"), std::string_view("ngram")};
  const std::string method = word(reader, "method", words);
  config.method = static_cast<SpeculativeMethod>(std::ranges::find(words, method) - words.begin());
}

// vLLM has had two keys for this; a script may carry either, or both where they agree.
void read_sampling(ConfigReader& reader, SpeculativeConfig& config) {
  constexpr std::array rejection = {std::string_view("standard"), std::string_view("greedy"),
                                    std::string_view("probabilistic")};
  constexpr std::array sampling = {std::string_view("greedy"), std::string_view("probabilistic")};
  const std::string verified = word(reader, "rejection_sample_method", rejection);
  const std::string drafted = word(reader, "draft_sample_method", sampling);
  config.draws_drafts = verified == "probabilistic" || drafted == "probabilistic";
  if (reader.has("draft_sample_method") && verified != "standard" && verified != drafted) {
    reader.fail(ErrorKind::kInvalidArgument, "rejection_sample_method is " + verified +
                                                 ", but draft_sample_method is " + drafted +
                                                 ": leave one of them out.");
  }
  config.local_argmax = reader.flag("use_local_argmax_reduction", !config.draws_drafts);
  if (config.draws_drafts && config.local_argmax) {
    reader.fail(
        ErrorKind::kInvalidArgument,
        "use_local_argmax_reduction is true, but drafts that are drawn (probabilistic) need all logits: "
        "leave one of them out.");
  }
}

void read_draft_cache(ConfigReader& reader, SpeculativeConfig& config) {
  const std::string key = reader.has("draft_kv_cache_dtype") ? "draft_kv_cache_dtype" : "kv_cache_dtype";
  const std::string name = reader.text(key, "auto");
  if (name == "f32" || name == "float32") {
    config.draft_kv_format = KvFormat::kF32;
  } else if (name == "bf16" || name == "bfloat16") {
    config.draft_kv_format = KvFormat::kBF16;
  } else if (name == "fp8" || name == "fp8_e4m3") {
    config.draft_kv_format = KvFormat::kFp8;
  } else if (name == "fp8_ds_mla") {
    config.draft_kv_format = KvFormat::kFp8Grouped;
  } else if (name != "auto") {
    reader.unsupported(key, "auto, f32, bf16, fp8, fp8_ds_mla");
  }
  const std::string backend_key =
      reader.has("draft_attention_backend") ? "draft_attention_backend" : "attention_backend";
  config.draft_attention_backend = reader.text(backend_key, "auto");
  if (config.draft_attention_backend != "auto") {
    config.notes.push_back(backend_key +
                           " names a kernel of vLLM; here the draft's layout and device choose, " +
                           "apart from the target's.");
  }
}

void read_lookup(ConfigReader& reader, SpeculativeConfig& config) {
  config.prompt_lookup_min = static_cast<std::int32_t>(reader.integer("prompt_lookup_min", {1, 64}, 0));
  config.prompt_lookup_max = static_cast<std::int32_t>(reader.integer("prompt_lookup_max", {1, 64}, 0));
  const bool both = config.prompt_lookup_min > 0 && config.prompt_lookup_max > 0;
  if (both && config.prompt_lookup_min > config.prompt_lookup_max) {
    reader.fail(ErrorKind::kInvalidArgument,
                "prompt_lookup_min (" + std::to_string(config.prompt_lookup_min) +
                    ") is over prompt_lookup_max (" + std::to_string(config.prompt_lookup_max) + ").");
  }
}

bool is_draft_head(const ModelConfig& model) { return model.draft.has_value(); }

SpeculativeMethod method_of(const ModelConfig& draft) {
  switch (draft.architecture) {
    case Architecture::kEagle3Llama:
    case Architecture::kEagle3Mla:
      return SpeculativeMethod::kEagle3;
    case Architecture::kDFlash:
      return SpeculativeMethod::kDFlash;
    case Architecture::kDeepseekV3:
    case Architecture::kLlama:
    case Architecture::kQwen3:
      break;
  }
  return SpeculativeMethod::kDraftModel;
}

Error refuse(ErrorKind kind, std::string what) { return {kind, std::string(kWhere), std::move(what)}; }

Result<void> check_tokens(SpeculativeConfig& config, const ModelConfig* draft) {
  const bool block = config.method == SpeculativeMethod::kDFlash;
  const std::int64_t of_block = block ? draft->draft->block_size - 1 : kMostSpeculativeTokens;
  if (config.num_speculative_tokens == 0) {
    if (!block) {
      return refuse(ErrorKind::kInvalidArgument, "num_speculative_tokens is missing: 1 to " +
                                                     std::to_string(kMostSpeculativeTokens) + ".");
    }
    config.num_speculative_tokens =
        static_cast<std::int32_t>(std::min<std::int64_t>(of_block, kMostSpeculativeTokens));
  }
  const std::string k = "num_speculative_tokens is " + std::to_string(config.num_speculative_tokens);
  if (config.num_speculative_tokens > of_block) {
    return refuse(
        ErrorKind::kInvalidArgument,
        k + (block ? ", but a block of " + draft->architecture_name + " is " +
                         std::to_string(draft->draft->block_size) +
                         " tokens, of which the first is known: at most " + std::to_string(of_block) + "."
                   : ", but a step verifies at most " + std::to_string(kMostSpeculativeTokens) +
                         " drafts of a sequence."));
  }
  if (config.num_speculative_tokens > kMostSpeculativeTokens) {
    return refuse(ErrorKind::kInvalidArgument, k + ", but a step verifies at most " +
                                                   std::to_string(kMostSpeculativeTokens) +
                                                   " drafts of a sequence.");
  }
  return {};
}

Result<void> check_language_model(const ModelConfig& draft, const ModelConfig& target) {
  if (is_draft_head(draft)) {
    return refuse(ErrorKind::kMismatch, "method is draft_model, but " + draft.architecture_name +
                                            " is no language model; its method is " +
                                            std::string(name_of(method_of(draft))) + ".");
  }
  if (draft.vocab != target.vocab) {
    return refuse(ErrorKind::kMismatch, "the draft " + draft.architecture_name + " has a vocabulary of " +
                                            std::to_string(draft.vocab) + " tokens, the target " +
                                            target.architecture_name + " of " + std::to_string(target.vocab) +
                                            ": they must share one.");
  }
  return {};
}

}  // namespace

std::string_view name_of(SpeculativeMethod method) {
  switch (method) {
    case SpeculativeMethod::kEagle3:
      return "eagle3";
    case SpeculativeMethod::kDFlash:
      return "dflash";
    case SpeculativeMethod::kDraftModel:
      return "draft_model";
    case SpeculativeMethod::kNgram:
      return "ngram";
  }
  return "?";
}

Result<SpeculativeConfig> parse_speculative_config(std::string_view text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  if (!json.is_object()) {
    return refuse(
        ErrorKind::kInvalidArgument,
        R"(is no JSON object; for example {"method":"eagle3","model":"DIR","num_speculative_tokens":3}.)");
  }
  SpeculativeConfig config;
  for (const auto& item : json.items()) {
    const auto known = std::ranges::find(kMeaningless, item.key(), &Meaningless::key);
    if (known != std::end(kMeaningless)) {
      config.notes.push_back(item.key() + " has no effect: " + std::string(known->reason) + ".");
    } else if (std::ranges::find(kKeys, item.key()) == std::end(kKeys)) {
      return unknown_key(item.key());
    }
  }
  ConfigReader reader(json, std::string(kWhere));
  read_method(reader, config);
  config.model = reader.text("model", "");
  config.num_speculative_tokens =
      static_cast<std::int32_t>(reader.integer("num_speculative_tokens", {1, 128}, 0));
  read_sampling(reader, config);
  read_draft_cache(reader, config);
  read_lookup(reader, config);
  if (reader.has("draft_tensor_parallel_size")) {
    config.draft_tensor_parallel_size =
        static_cast<std::int32_t>(reader.integer("draft_tensor_parallel_size", {1, 1024}));
  }
  if (reader.has("max_model_len")) {
    config.draft_max_model_len = static_cast<std::int32_t>(reader.integer("max_model_len", kTokens));
  }
  config.disable_by_batch_size =
      static_cast<std::int32_t>(reader.integer("disable_by_batch_size", kLimit, 0));
  config.disable_above_seq_len =
      static_cast<std::int32_t>(reader.integer("disable_above_seq_len", kLimit, 0));
  config.adaptive = reader.flag("adaptive", true);
  if (reader.error()) return *reader.error();
  if (!config.method && config.model.empty()) {
    return refuse(ErrorKind::kInvalidArgument, "names neither a method nor a model.");
  }
  if (config.method == SpeculativeMethod::kNgram && !config.model.empty() && config.model != "ngram") {
    return refuse(ErrorKind::kInvalidArgument, "method is ngram, which uses no model, but model is " +
                                                   ConfigReader::shown(config.model) + ".");
  }
  if (config.method == SpeculativeMethod::kNgram) {
    config.model.clear();
  } else if (config.model.empty()) {
    return refuse(ErrorKind::kInvalidArgument,
                  "method is " + std::string(name_of(*config.method)) + ", which needs a model.");
  }
  return config;
}

Result<SpeculativeConfig> resolve_speculation(SpeculativeConfig config, const ModelConfig& target,
                                              const ModelConfig* draft, std::int32_t tensor_parallel_size) {
  TS_CHECK((draft == nullptr) == (config.method == SpeculativeMethod::kNgram));
  if (!config.method) config.method = method_of(*draft);
  switch (*config.method) {
    case SpeculativeMethod::kEagle3:
    case SpeculativeMethod::kDFlash:
      TS_TRY(check_draft(*draft, target));
      if (method_of(*draft) != *config.method) {
        return refuse(ErrorKind::kMismatch, "method is " + std::string(name_of(*config.method)) + ", but " +
                                                draft->architecture_name + " is of the method " +
                                                std::string(name_of(method_of(*draft))) + ".");
      }
      break;
    case SpeculativeMethod::kDraftModel:
      TS_TRY(check_language_model(*draft, target));
      break;
    case SpeculativeMethod::kNgram:
      if (config.draws_drafts) {
        return refuse(
            ErrorKind::kInvalidArgument,
            "method is ngram, which has no distribution to draw from, but drafts are to be probabilistic.");
      }
      if (config.prompt_lookup_max == 0) config.prompt_lookup_max = std::max(3, config.prompt_lookup_min);
      if (config.prompt_lookup_min == 0) config.prompt_lookup_min = 1;
      break;
  }
  TS_TRY(check_tokens(config, draft));
  const std::int32_t draft_ranks = config.draft_tensor_parallel_size.value_or(tensor_parallel_size);
  if (draft_ranks != 1 && draft_ranks != tensor_parallel_size) {
    return refuse(ErrorKind::kInvalidArgument,
                  "draft_tensor_parallel_size is " + std::to_string(draft_ranks) +
                      ", the target's --tensor-parallel-size " + std::to_string(tensor_parallel_size) +
                      "; supported: the same, or 1 (the whole draft on every rank).");
  }
  if (config.draft_kv_format == KvFormat::kFp8Grouped && !(draft != nullptr && draft->has_mla())) {
    return refuse(ErrorKind::kMismatch,
                  "draft_kv_cache_dtype is fp8_ds_mla, which holds latents, but " +
                      (draft != nullptr ? draft->architecture_name + " has keys and values for each head"
                                        : std::string("ngram has no cache")) +
                      "; use auto, bf16 or fp8.");
  }
  if (draft != nullptr && draft->max_positions < target.max_positions) {
    config.notes.push_back("the draft " + draft->architecture_name + " knows " +
                           std::to_string(draft->max_positions) + " positions, the target " +
                           std::to_string(target.max_positions) + ": longer sequences go on without drafts.");
  }
  return config;
}

}  // namespace tessera
