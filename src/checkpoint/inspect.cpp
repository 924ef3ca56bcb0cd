#include "checkpoint/inspect.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

namespace tessera {
namespace {

constexpr KvFormat kKvFormats[] = {KvFormat::kF32, KvFormat::kBF16, KvFormat::kFp8, KvFormat::kFp8Grouped};

// Adds parameters one by one, in any order.
class Summing {
 public:
  explicit Summing(const ModelConfig& config) { result_.config = config; }

  void add(const Parameter& p, std::string_view format, int tensors, std::int64_t bytes) {
    ClassSummary& sum = classes_[{p.module_class, std::string(format)}];
    sum.module_class = p.module_class;
    sum.format = format;
    ++sum.modules;
    sum.tensors += tensors;
    sum.parameters += p.values();
    sum.bytes += bytes;
  }

  Inspection finish() {
    const MoeConfig& moe = result_.config.moe;
    for (auto& [key, sum] : classes_) {
      result_.tensors += sum.tensors;
      result_.bytes += sum.bytes;
      const bool is_map = sum.module_class == ModuleClass::kTokenMap;
      if (!is_map) result_.parameters += sum.parameters;
      // Of an embedding one row is read; where it is the head too, all of it works.
      const bool idle =
          is_map || (sum.module_class == ModuleClass::kEmbedding && !result_.config.tied_embeddings);
      const bool routed = sum.module_class == ModuleClass::kRoutedExpert;
      if (!idle) {
        result_.active_parameters += routed ? sum.parameters / moe.experts * moe.top_k : sum.parameters;
        result_.active_bytes += routed ? sum.bytes / moe.experts * moe.top_k : sum.bytes;
      }
      result_.classes.push_back(std::move(sum));
    }
    for (const KvFormat format : kKvFormats) {
      if (const auto bytes = kv_bytes_per_token(result_.config, format))
        result_.kv.push_back({format, *bytes});
    }
    return std::move(result_);
  }

 private:
  std::map<std::pair<ModuleClass, std::string>, ClassSummary> classes_;
  Inspection result_;
};

std::string grouped(std::int64_t number) {  // 1,026,408,232,448
  std::string text = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > (number < 0 ? 1 : 0); at -= 3) {
    text.insert(static_cast<std::size_t>(at), ",");
  }
  return text;
}

std::string scaled(std::int64_t number, const char* unit) {  // "594.21 G" + unit
  static constexpr std::array<std::pair<double, const char*>, 4> kScales = {
      {{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}}};
  char text[64];
  for (const auto& [scale, letter] : kScales) {
    if (static_cast<double>(number) < scale) continue;
    std::snprintf(text, sizeof text, "%.2f %s%s", static_cast<double>(number) / scale, letter, unit);
    return text;
  }
  std::snprintf(text, sizeof text, "%lld %s", static_cast<long long>(number), unit);
  return text;
}

std::string printed(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

std::string attention_text(const ModelConfig& c) {
  std::string text = std::to_string(c.heads) + " heads, ";
  if (c.has_mla()) {
    return text + "MLA: q rank " + std::to_string(c.mla.q_lora_rank) + ", latent " +
           std::to_string(c.mla.kv_lora_rank) + ", nope " + std::to_string(c.mla.nope_dim) + " + rope " +
           std::to_string(c.mla.rope_dim) + ", v " + std::to_string(c.mla.v_dim);
  }
  return text + std::to_string(c.kv_heads) + " KV heads of " + std::to_string(c.head_dim);
}

std::string rope_text(const ModelConfig& c) {
  std::string text = "theta " + printed(c.rope_theta);
  if (c.yarn) {
    text += ", YaRN factor " + printed(c.yarn->factor) + " over " +
            std::to_string(c.yarn->original_positions) + ", beta " + printed(c.yarn->beta_fast) + "/" +
            printed(c.yarn->beta_slow) + ", mscale " + printed(c.yarn->mscale) + "/" +
            printed(c.yarn->mscale_all_dim);
  }
  if (c.llama3_rope) {
    text += ", llama3 factor " + printed(c.llama3_rope->factor) + " over " +
            std::to_string(c.llama3_rope->original_positions);
  }
  return text;
}

std::string list_text(const std::vector<std::int32_t>& ids) {
  std::string text;
  for (const std::int32_t id : ids) text += (text.empty() ? "" : ", ") + std::to_string(id);
  return text.empty() ? "none" : text;
}

void line(std::string& out, const char* label, const std::string& value) {
  char text[32];
  std::snprintf(text, sizeof text, "%-16s ", label);
  out += text + value + "\n";
}

}  // namespace

KvRowShape kv_row_shape(const ModelConfig& config) {
  if (config.has_mla()) {
    return KvRowShape::mla(static_cast<std::int32_t>(config.mla.kv_lora_rank),
                           static_cast<std::int32_t>(config.mla.rope_dim));
  }
  return KvRowShape::gqa(static_cast<std::int32_t>(config.kv_heads),
                         static_cast<std::int32_t>(config.head_dim));
}

std::optional<std::int64_t> kv_bytes_per_token(const ModelConfig& config, KvFormat format) {
  const auto row = kv_row_bytes(format, kv_row_shape(config));
  if (!row) return std::nullopt;
  return *row * config.layers;
}

Inspection inspect(const Checkpoint& checkpoint) {
  const Binding& binding = checkpoint.binding();
  Summing sum(checkpoint.config());
  for (const BoundParameter& bound : binding.parameters) {
    const bool is_matrix = bound.parameter.is_matrix();
    sum.add(bound.parameter, is_matrix ? name_of(bound.weight.format) : name_of(bound.dtype), bound.tensors,
            bound.bytes);
  }
  Inspection result = sum.finish();
  result.from_files = true;
  result.rules = binding.rules;
  result.notes = checkpoint.config().notes;
  result.notes.insert(result.notes.end(), binding.notes.begin(), binding.notes.end());
  return result;
}

Inspection inspect(const ModelConfig& config) {
  Summing sum(config);
  auto rules = IgnoreRules::compile(config.quantisation.ignore, "config.json");
  for (const Parameter& p : parameters_of(config)) {
    const bool ignored = rules && p.is_matrix() && rules->match(p.name, p.name);
    if (p.optional) continue;
    if (p.is_matrix()) {
      const WeightFormat format = promised_format(config, p, ignored);
      sum.add(p, name_of(format), tensors_of(format), weight_bytes(format, p.rows, p.cols));
    } else {
      const DType dtype = p.role == ParameterRole::kTokenMap       ? DType::kI64
                          : p.module_class == ModuleClass::kRouter ? DType::kF32
                                                                   : DType::kBF16;
      sum.add(p, name_of(dtype), 1, p.values() * bytes_of(dtype));
    }
  }
  Inspection result = sum.finish();
  result.notes = config.notes;
  if (rules) {
    result.rules = rules->report();
  } else {
    result.notes.push_back("warning: " + rules.error().message());
  }
  return result;
}

Result<Inspection> inspect_model(const std::filesystem::path& folder_or_file) {
  const bool is_folder = std::filesystem::is_directory(folder_or_file);
  if (is_folder && TensorFiles::are_in(folder_or_file)) {
    TS_TRY(const Checkpoint checkpoint, Checkpoint::open(folder_or_file));
    return inspect(checkpoint);
  }
  TS_TRY(const ModelConfig config, read_model_config(folder_or_file));
  Inspection inspection = inspect(config);
  inspection.notes.push_back(
      "there are no weights beside the config: formats and sizes are what it promises");
  return inspection;
}

std::string inspect_text(const Inspection& inspection) {
  const ModelConfig& c = inspection.config;
  std::string out;
  line(out, "architecture",
       c.architecture_name + (c.model_type.empty() ? "" : " (" + c.model_type + ")") + ": " +
           std::string(name_of(c.architecture)));
  line(out, "layers",
       std::to_string(c.layers) +
           (c.moe.experts > 0 ? ", the first " + std::to_string(c.moe.first_dense_layers) + " dense" : ""));
  line(out, "hidden", std::to_string(c.hidden) + ", dense mlp " + std::to_string(c.dense_width));
  line(out, "attention", attention_text(c));
  if (c.moe.experts > 0) {
    line(out, "experts",
         std::to_string(c.moe.experts) + " of width " + std::to_string(c.moe.expert_width) + ", top " +
             std::to_string(c.moe.top_k) + ", " + std::to_string(c.moe.shared_experts) +
             " shared, scaled by " + printed(c.moe.scaling));
  }
  line(out, "rope", rope_text(c));
  line(out, "norm eps",
       printed(c.rms_eps) + (c.has_mla() ? ", q_a and kv_a " + printed(c.latent_norm_eps) : ""));
  line(out, "vocabulary",
       grouped(c.vocab) + (c.tied_embeddings ? ", tied head" : "") + ", end tokens " +
           list_text(c.end_tokens));
  line(out, "context", grouped(c.max_positions) + " tokens");
  line(out, "quantisation", c.quantisation.method.empty() ? "none" : c.quantisation.method);
  out += "\n";

  char text[160];
  std::snprintf(text, sizeof text, "%-16s %-12s %9s %9s %19s %19s\n",
                inspection.from_files ? "module" : "promised module", "format", "modules", "tensors",
                "parameters", "bytes");
  out += text;
  for (const ClassSummary& sum : inspection.classes) {
    std::snprintf(text, sizeof text, "%-16s %-12s %9s %9s %19s %19s\n",
                  std::string(name_of(sum.module_class)).c_str(), sum.format.c_str(),
                  grouped(sum.modules).c_str(), grouped(sum.tensors).c_str(), grouped(sum.parameters).c_str(),
                  grouped(sum.bytes).c_str());
    out += text;
  }
  std::snprintf(text, sizeof text, "%-16s %-12s %9s %9s %19s %19s\n\n", "total", "", "",
                grouped(inspection.tensors).c_str(), grouped(inspection.parameters).c_str(),
                grouped(inspection.bytes).c_str());
  out += text;

  line(out, "parameters",
       scaled(inspection.parameters, "") + ", " + scaled(inspection.active_parameters, "") +
           " work on one token (embedding left out)");
  line(out, "weights",
       scaled(inspection.bytes, "B") + ", " + scaled(inspection.active_bytes, "B") +
           " read for one token at batch 1");
  for (const KvSummary& kv : inspection.kv) {
    line(out, &kv == &inspection.kv.front() ? "KV per token" : "",
         std::string(name_of(kv.format)) + " " + grouped(kv.bytes_per_token) + " B");
  }
  for (const RuleMatch& rule : inspection.rules) {
    line(out, &rule == &inspection.rules.front() ? "ignore rules" : "",
         "\"" + rule.rule + "\": " +
             (rule.modules == 0 ? "no module"
                                : grouped(rule.modules) +
                                      (rule.modules == 1 ? " module, " : " modules, first ") + rule.example));
  }
  for (const std::string& note : inspection.notes)
    line(out, &note == &inspection.notes.front() ? "notes" : "", note);
  return out;
}

std::string inspect_json(const Inspection& inspection) {
  using Json = nlohmann::ordered_json;
  const ModelConfig& c = inspection.config;
  Json json;
  json["architecture"] = c.architecture_name;
  json["family"] = name_of(c.architecture);
  json["model_type"] = c.model_type;
  json["from_files"] = inspection.from_files;
  json["layers"] = c.layers;
  json["hidden"] = c.hidden;
  json["heads"] = c.heads;
  json["experts"] = c.moe.experts;
  json["experts_per_token"] = c.moe.top_k;
  json["vocab"] = c.vocab;
  json["max_positions"] = c.max_positions;
  json["rms_eps"] = std::stod(printed(c.rms_eps));
  if (c.has_mla()) json["latent_norm_eps"] = std::stod(printed(c.latent_norm_eps));
  json["end_tokens"] = c.end_tokens;
  json["quantisation"] = c.quantisation.method;
  json["tensors"] = inspection.tensors;
  json["parameters"] = inspection.parameters;
  json["active_parameters"] = inspection.active_parameters;
  json["bytes"] = inspection.bytes;
  json["active_bytes"] = inspection.active_bytes;
  json["classes"] = Json::array();
  for (const ClassSummary& sum : inspection.classes) {
    json["classes"].push_back({{"class", name_of(sum.module_class)},
                               {"format", sum.format},
                               {"modules", sum.modules},
                               {"tensors", sum.tensors},
                               {"parameters", sum.parameters},
                               {"bytes", sum.bytes}});
  }
  json["kv_bytes_per_token"] = Json::object();
  for (const KvSummary& kv : inspection.kv)
    json["kv_bytes_per_token"][std::string(name_of(kv.format))] = kv.bytes_per_token;
  json["ignore_rules"] = Json::array();
  for (const RuleMatch& rule : inspection.rules) {
    json["ignore_rules"].push_back(
        {{"rule", rule.rule}, {"modules", rule.modules}, {"example", rule.example}});
  }
  json["notes"] = inspection.notes;
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace tessera
