// Llama and Qwen3 against a plain forward pass in f64, written from the formulas: grouped-query attention,
// rotation by halves, norms of q and k, tied embeddings.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "base/scratch_folder.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/synthetic_checkpoint.h"
#include "model/rope.h"
#include "support/f64_product.h"
#include "support/sequence_driver.h"
#include "support/tiny_model.h"

namespace tessera::test {
namespace {

Row normalise(const double* x, const std::vector<float>& weight, double eps) {
  double sum = 0;
  for (std::size_t i = 0; i < weight.size(); ++i) sum += x[i] * x[i];
  const double scale = 1 / std::sqrt(sum / static_cast<double>(weight.size()) + eps);
  Row y(weight.size());
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = x[i] * scale * weight[i];
  return y;
}

class Reference {
 public:
  explicit Reference(const Checkpoint& checkpoint) : weights_(checkpoint), config_(checkpoint.config()) {}

  // Logits of every position.
  std::vector<Row> run(const std::vector<std::int32_t>& ids) {
    std::vector<Row> h;
    const HostMatrix embedding = weights_.matrix("model.embed_tokens");
    for (const std::int32_t id : ids) {
      std::vector<float> row(static_cast<std::size_t>(config_.hidden));
      embedding.dequantise_row(id, row.data());
      h.emplace_back(row.begin(), row.end());
    }
    for (std::int64_t l = 0; l < config_.layers; ++l) run_layer("model.layers." + std::to_string(l) + ".", h);
    std::vector<Row> logits;
    const auto norm = weights_.vector("model.norm");
    for (const Row& row : h)
      logits.push_back(multiply(weights_.matrix("lm_head"), normalise(row.data(), norm, config_.rms_eps)));
    return logits;
  }

 private:
  void run_layer(const std::string& prefix, std::vector<Row>& h) {
    const auto dim = static_cast<std::size_t>(config_.head_dim);
    const auto heads = static_cast<std::size_t>(config_.heads);
    const auto kv_heads = static_cast<std::size_t>(config_.kv_heads);
    std::vector<Row> q, k, v;
    for (std::size_t t = 0; t < h.size(); ++t) {
      const Row x = normalise(h[t].data(), weights_.vector(prefix + "input_layernorm"), config_.rms_eps);
      q.push_back(
          rotated(multiply(weights_.matrix(prefix + "self_attn.q_proj"), x), prefix + "self_attn.q_norm", t));
      k.push_back(
          rotated(multiply(weights_.matrix(prefix + "self_attn.k_proj"), x), prefix + "self_attn.k_norm", t));
      v.push_back(multiply(weights_.matrix(prefix + "self_attn.v_proj"), x));
    }
    for (std::size_t t = 0; t < h.size(); ++t) {
      Row attended(heads * dim);
      for (std::size_t head = 0; head < heads; ++head) {
        const std::size_t kv_head = head / (heads / kv_heads);
        Row p(t + 1);
        double sum = 0;
        for (std::size_t s = 0; s <= t; ++s) {
          double dot = 0;
          for (std::size_t d = 0; d < dim; ++d) dot += q[t][head * dim + d] * k[s][kv_head * dim + d];
          p[s] = std::exp(dot / std::sqrt(static_cast<double>(dim)));
          sum += p[s];
        }
        for (std::size_t s = 0; s <= t; ++s) {
          for (std::size_t d = 0; d < dim; ++d)
            attended[head * dim + d] += p[s] / sum * v[s][kv_head * dim + d];
        }
      }
      add(h[t], multiply(weights_.matrix(prefix + "self_attn.o_proj"), attended));
      const Row x =
          normalise(h[t].data(), weights_.vector(prefix + "post_attention_layernorm"), config_.rms_eps);
      Row gate = multiply(weights_.matrix(prefix + "mlp.gate_proj"), x);
      const Row up = multiply(weights_.matrix(prefix + "mlp.up_proj"), x);
      for (std::size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
      add(h[t], multiply(weights_.matrix(prefix + "mlp.down_proj"), gate));
    }
  }

  Row rotated(Row x, const std::string& norm, std::size_t position) {
    const auto dim = static_cast<std::size_t>(config_.head_dim);
    const std::vector<float> frequencies = rope_frequencies(config_);
    for (std::size_t head = 0; head < x.size() / dim; ++head) {
      double* at = x.data() + head * dim;
      if (config_.qk_norm) std::ranges::copy(normalise(at, weights_.vector(norm), config_.rms_eps), at);
      for (std::size_t i = 0; i < dim / 2; ++i) {
        const double angle = static_cast<double>(position) * frequencies[i];
        const double a = at[i];
        const double b = at[i + dim / 2];
        at[i] = a * std::cos(angle) - b * std::sin(angle);
        at[i + dim / 2] = b * std::cos(angle) + a * std::sin(angle);
      }
    }
    return x;
  }

  static void add(Row& x, const Row& y) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += y[i];
  }

  const Checkpoint& weights_;
  const ModelConfig& config_;
};

struct Case {
  const char* name;
  const char* config;
  WeightFormat format;
};

class DenseModel : public testing::TestWithParam<Case> {};

TEST_P(DenseModel, LogitsAreTheFormulasInPrefillAndDecodeOnAnyRanks) {
  const ScratchFolder folder;
  synthetic::Model model;
  model.config = GetParam().config;
  const auto config = parse_model_config(model.config, "config.json");
  ASSERT_TRUE(config.ok()) << config.error().message();
  auto tensors = synthetic::tensors_of_model(*config, [&](const Parameter&) { return GetParam().format; });
  model.files["model.safetensors"] = std::move(tensors);
  model.write(folder.path());
  const auto checkpoint = Checkpoint::open(folder.path());
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.error().message();

  std::vector<std::int32_t> ids;
  for (std::int32_t i = 0; i < 75; ++i)
    ids.push_back((i * 29 + i * i) % static_cast<std::int32_t>(config->vocab));
  const std::vector<Row> want = Reference(*checkpoint).run(ids);
  double largest = 0;
  for (const Row& row : want) {
    for (const double x : row) largest = std::max(largest, std::fabs(x));
  }
  for (const int ranks : {1, 2}) {
    TinyModel loaded = load_tiny({.folder = folder.path(), .ranks = ranks});
    SequenceDriver driver(loaded);
    for (const std::int32_t chunk : {1, 32, 75}) {  // 1: every token of the prompt by itself
      driver.generate(ids, 1, chunk, true);
      for (std::size_t t = 0; t < ids.size(); ++t) {
        const std::vector<float>& got = driver.logits().at(static_cast<std::int32_t>(t));
        for (std::size_t i = 0; i < got.size(); ++i) {
          ASSERT_NEAR(got[i], want[t][i], 2e-4 * largest)
              << "position " << t << ", token " << i << ", chunks of " << chunk << ", " << ranks << " ranks";
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Families, DenseModel,
    testing::Values(Case{"llama_f32",
                         R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 96,
        "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 96,
        "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "eos_token_id": 1,
        "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 64}})",
                         WeightFormat::kF32},
                    Case{"llama_bf16_tied",
                         R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": 64,
        "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 4, "intermediate_size": 96,
        "max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "eos_token_id": 1, "tie_word_embeddings": true})",
                         WeightFormat::kBF16},
                    Case{"qwen3",
                         R"({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 96,
        "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 32,
        "intermediate_size": 96, "max_position_embeddings": 4096, "rms_norm_eps": 1e-6, "rope_theta": 1000000.0, "eos_token_id": 1})",
                         WeightFormat::kBF16}),
    [](const auto& one) { return std::string(one.param.name); });

}  // namespace
}  // namespace tessera::test
