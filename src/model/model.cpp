#include "model/model.h"

#include <optional>
#include <string>
#include <vector>

#include "model/dense.h"
#include "model/kimi.h"

namespace tessera {
namespace {

// A dimension that ranks split evenly, cut at multiples of what its weight format can be cut at.
struct SplitDimension {
  std::string name;
  std::int64_t size = 0;
  std::int64_t granularity = 1;
};

// Columns can be cut at multiples of 32 (int4 groups) or 128 (fp8 blocks), or anywhere.
std::int64_t column_granularity(const HostMatrix& matrix) {
  switch (matrix.format) {
    case WeightFormat::kInt4Group32:
      return 32;
    case WeightFormat::kFp8Block128:
      return 128;
    case WeightFormat::kF32:
    case WeightFormat::kBF16:
      break;
  }
  return 1;
}

std::vector<SplitDimension> split_dimensions(const Checkpoint& checkpoint, bool expert_parallel) {
  const ModelConfig& config = checkpoint.config();
  const auto layer = [](std::int64_t l) { return "model.layers." + std::to_string(l) + "."; };
  const bool is_mla = config.mla.kv_lora_rank > 0;
  const std::int64_t v_dim = is_mla ? config.mla.v_dim : config.head_dim;
  const std::int64_t o_cut = column_granularity(checkpoint.matrix(layer(0) + "self_attn.o_proj"));
  // Heads are cut whole; where o_proj can only be cut every 128 columns, so many heads go together.
  std::vector<SplitDimension> result = {
      {"num_attention_heads", config.heads, std::max<std::int64_t>(1, o_cut / v_dim)}};
  if (!is_mla) result.push_back({"num_key_value_heads", config.kv_heads});
  const bool has_dense = config.moe.experts == 0 || config.moe.first_dense_layers > 0;
  if (has_dense) {
    result.push_back({"intermediate_size", config.dense_width,
                      column_granularity(checkpoint.matrix(layer(0) + "mlp.down_proj"))});
  }
  if (config.moe.experts > 0) {
    const std::string mlp = layer(config.moe.first_dense_layers) + "mlp.";
    if (!expert_parallel) {
      result.push_back({"moe_intermediate_size", config.moe.expert_width,
                        column_granularity(checkpoint.matrix(mlp + "experts.0.down_proj"))});
    }
    if (config.moe.shared_experts > 0) {
      result.push_back({"shared expert width", config.moe.shared_experts * config.moe.expert_width,
                        column_granularity(checkpoint.matrix(mlp + "shared_experts.down_proj"))});
    }
  }
  return result;
}

std::optional<SplitDimension> first_that_cannot(const std::vector<SplitDimension>& dimensions, int ranks) {
  for (const SplitDimension& d : dimensions) {
    if (d.size % (ranks * d.granularity) != 0) return d;
  }
  return std::nullopt;
}

}  // namespace

Result<void> check_shardable(const Checkpoint& checkpoint, int ranks, bool expert_parallel) {
  if (ranks == 1) return {};
  const std::vector<SplitDimension> dimensions = split_dimensions(checkpoint, expert_parallel);
  const std::optional<SplitDimension> bad = first_that_cannot(dimensions, ranks);
  if (!bad) return {};
  int nearest = 1;
  for (int candidate = 1; candidate <= 2 * ranks; ++candidate) {
    if (!first_that_cannot(dimensions, candidate) && std::abs(candidate - ranks) <= std::abs(nearest - ranks))
      nearest = candidate;
  }
  return Error{ErrorKind::kInvalidArgument, "--tensor-parallel-size",
               "is " + std::to_string(ranks) + ", but " + bad->name + " is " + std::to_string(bad->size) +
                   (bad->granularity > 1
                        ? ", which its weight format cuts at multiples of " + std::to_string(bad->granularity)
                        : "") +
                   "; the nearest size that works is " + std::to_string(nearest) + "."};
}

Result<void> check_context_shardable(const Checkpoint& checkpoint, int ranks, int dcp_ranks) {
  if (dcp_ranks == 1) return {};
  const auto refuse = [&](const std::string& why) {
    return Error{ErrorKind::kInvalidArgument, "--decode-context-parallel-size",
                 "is " + std::to_string(dcp_ranks) + ", but " + why};
  };
  if (checkpoint.config().mla.kv_lora_rank == 0)
    return refuse(
        checkpoint.config().architecture_name +
        " splits its keys and values by head already; only models with multi-head latent attention keep "
        "rows that every rank would copy. Use 1.");
  if (dcp_ranks >= 1 && dcp_ranks <= ranks && ranks % dcp_ranks == 0) return {};
  int nearest = 1;
  for (int candidate = 1; candidate <= ranks; ++candidate) {
    if (ranks % candidate == 0 && std::abs(candidate - dcp_ranks) <= std::abs(nearest - dcp_ranks))
      nearest = candidate;
  }
  return refuse("it must divide --tensor-parallel-size, which is " + std::to_string(ranks) +
                "; the nearest size that works is " + std::to_string(nearest) + ".");
}

Result<std::unique_ptr<Model>> load_model(const Checkpoint& checkpoint, Backend& backend,
                                          const LoadOptions& options) {
  TS_TRY(check_shardable(checkpoint, options.shard.ranks(), options.shard.expert_parallel));
  switch (checkpoint.config().architecture) {
    case Architecture::kDeepseekV3:
      return load_kimi(checkpoint, backend, options);
    case Architecture::kLlama:
    case Architecture::kQwen3:
      return load_dense(checkpoint, backend, options);
    case Architecture::kEagle3Llama:
    case Architecture::kEagle3Mla:
    case Architecture::kDFlash:
      break;
  }
  return Error{ErrorKind::kUnsupported, "config.json",
               "architecture '" + checkpoint.config().architecture_name +
                   "' is a draft for speculative decoding and cannot be served by itself."};
}

}  // namespace tessera
