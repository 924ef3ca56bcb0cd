// What `tessera inspect MODEL` prints: architecture, formats, counts and bytes, ignore rules, KV bytes a
// token.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/ignore_rules.h"
#include "checkpoint/model_config.h"
#include "checkpoint/parameters.h"
#include "tensor/kv_format.h"

namespace tessera {

struct ClassSummary {
  ModuleClass module_class = ModuleClass::kEmbedding;
  std::string format;  // "int4 g32", "bf16", …
  std::int64_t modules = 0;
  std::int64_t tensors = 0;
  std::int64_t parameters = 0;  // logical weights
  std::int64_t bytes = 0;
};
struct KvSummary {
  KvFormat format = KvFormat::kF32;
  std::int64_t bytes_per_token = 0;  // all layers
};

struct Inspection {
  ModelConfig config;
  bool from_files = false;  // else computed from the config alone: what the files should hold
  std::vector<ClassSummary> classes;
  std::int64_t tensors = 0;
  std::int64_t parameters = 0;
  std::int64_t active_parameters = 0;  // that work on one token: without the embedding and the idle experts
  std::int64_t bytes = 0;
  std::int64_t active_bytes = 0;  // read for one token at batch 1
  std::vector<KvSummary> kv;
  std::vector<RuleMatch> rules;
  std::vector<std::string> notes;
};

Inspection inspect(const Checkpoint& checkpoint);
Inspection inspect(const ModelConfig& config);

// Of a model folder, a folder that holds config.json but no weights, or a config file. A folder with weights
// that do not pass Checkpoint::open is an error, never a report of its config alone.
Result<Inspection> inspect_model(const std::filesystem::path& folder_or_file);

std::string inspect_text(const Inspection& inspection);
std::string inspect_json(const Inspection& inspection);  // one object, two-space indented
inline std::string inspect_text(const Checkpoint& checkpoint) { return inspect_text(inspect(checkpoint)); }

// The shape of a cache row, and how the model's layers multiply it.
KvRowShape kv_row_shape(const ModelConfig& config);
std::optional<std::int64_t> kv_bytes_per_token(const ModelConfig& config, KvFormat format);

}  // namespace tessera
