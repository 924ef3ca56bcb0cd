// EAGLE-3 with every option that published drafts have, against the formulas in f64: norms of the auxiliary
// states, residual before or after its norm, the normed output fed back; embedding and head of the target.
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "base/scratch_folder.h"
#include "checkpoint/synthetic_checkpoint.h"
#include "model/draft.h"
#include "model/rope.h"
#include "speculative/draft_cache.h"
#include "speculative/row_batch.h"
#include "support/f64_product.h"

namespace tessera::test {
namespace {

constexpr std::int32_t kTokens = 7;
constexpr std::int64_t kHidden = 160;  // of synthetic::kSmallConfig

struct Options {
  bool fc_norm = false;
  bool norm_before_residual = false;
  bool norm_output = false;
};

Row normalise(const Row& x, const std::vector<float>& weight, double eps) {
  double sum = 0;
  for (const double v : x) sum += v * v;
  const double scale = 1 / std::sqrt(sum / static_cast<double>(x.size()) + eps);
  Row y;
  for (std::size_t i = 0; i < x.size(); ++i) y.push_back(x[i] * scale * static_cast<double>(weight[i]));
  return y;
}

Row sum(Row a, const Row& b) {
  for (std::size_t i = 0; i < a.size(); ++i) a[i] += b[i];
  return a;
}

Row joined(Row a, const Row& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// One draft layer over a growing sequence, row by row.
class Reference {
 public:
  Reference(const Checkpoint& draft, const Checkpoint& target) : draft_(draft), target_(target) {}

  Row fuse(const Row& aux) const {
    Row in;
    for (std::size_t i = 0; i < 3; ++i) {
      Row part(aux.begin() + static_cast<std::ptrdiff_t>(i) * kHidden,
               aux.begin() + static_cast<std::ptrdiff_t>(i + 1) * kHidden);
      if (config().draft->fc_norm)
        part = normalise(part, draft_.vector("fc_norm." + std::to_string(i)), eps());
      in = joined(std::move(in), part);
    }
    return multiply(draft_.matrix("fc"), in);
  }

  // The next row: its logits; feedback() is then its hidden state for the next one.
  Row run(std::int32_t token, const Row& hidden) {
    std::vector<float> embedding(static_cast<std::size_t>(kHidden));
    target_.matrix("model.embed_tokens").dequantise_row(token, embedding.data());
    const std::string p = "layers.0.";
    const Row e =
        normalise(Row(embedding.begin(), embedding.end()), draft_.vector(p + "input_layernorm"), eps());
    const Row x = normalise(hidden, draft_.vector(p + "hidden_norm"), eps());
    const Row in = joined(e, x);
    const Row residual = sum(config().draft->norm_before_residual ? x : hidden, attend(in));
    const Row y = normalise(residual, draft_.vector(p + "post_attention_layernorm"), eps());
    Row gate = multiply(draft_.matrix(p + "mlp.gate_proj"), y);
    const Row up = multiply(draft_.matrix(p + "mlp.up_proj"), y);
    for (std::size_t i = 0; i < gate.size(); ++i) gate[i] = gate[i] / (1 + std::exp(-gate[i])) * up[i];
    const Row out = sum(residual, multiply(draft_.matrix(p + "mlp.down_proj"), gate));
    const Row normed = normalise(out, draft_.vector("norm"), eps());
    feedback_ = config().draft->norm_output ? normed : out;
    return multiply(target_.matrix("lm_head"), normed);
  }
  const Row& feedback() const { return feedback_; }

 private:
  const ModelConfig& config() const { return draft_.config(); }
  double eps() const { return static_cast<double>(config().rms_eps); }

  Row rotated(Row x, std::size_t position) const {
    const auto dim = static_cast<std::size_t>(config().head_dim);
    const std::vector<float> frequencies = rope_frequencies(config());
    for (std::size_t head = 0; head < x.size() / dim; ++head) {
      double* at = x.data() + head * dim;
      for (std::size_t i = 0; i < dim / 2; ++i) {
        const double angle = static_cast<double>(position) * static_cast<double>(frequencies[i]);
        const double a = at[i], b = at[i + dim / 2];
        at[i] = a * std::cos(angle) - b * std::sin(angle);
        at[i + dim / 2] = b * std::cos(angle) + a * std::sin(angle);
      }
    }
    return x;
  }

  Row attend(const Row& in) {
    const std::string p = "layers.0.self_attn.";
    const auto dim = static_cast<std::size_t>(config().head_dim);
    const auto heads = static_cast<std::size_t>(config().heads);
    const auto group = heads / static_cast<std::size_t>(config().kv_heads);
    const std::size_t t = keys_.size();
    const Row q = rotated(multiply(draft_.matrix(p + "q_proj"), in), t);
    keys_.push_back(rotated(multiply(draft_.matrix(p + "k_proj"), in), t));
    values_.push_back(multiply(draft_.matrix(p + "v_proj"), in));
    Row attended(heads * dim);
    for (std::size_t head = 0; head < heads; ++head) {
      const std::size_t kv = head / group * dim;
      Row weights;
      double peak = -1e300, total = 0;
      for (std::size_t s = 0; s <= t; ++s) {
        double dot = 0;
        for (std::size_t d = 0; d < dim; ++d) dot += q[head * dim + d] * keys_[s][kv + d];
        weights.push_back(dot / std::sqrt(static_cast<double>(dim)));
        peak = std::max(peak, weights.back());
      }
      for (double& w : weights) total += w = std::exp(w - peak);
      for (std::size_t s = 0; s <= t; ++s) {
        for (std::size_t d = 0; d < dim; ++d)
          attended[head * dim + d] += weights[s] / total * values_[s][kv + d];
      }
    }
    return multiply(draft_.matrix(p + "o_proj"), attended);
  }

  const Checkpoint& draft_;
  const Checkpoint& target_;
  std::vector<Row> keys_, values_;
  Row feedback_;
};

Checkpoint write_model(const ScratchFolder& folder, const std::string& json) {
  const auto config = parse_model_config(json, "config.json");
  TS_CHECK(config.ok(), config.error().message());
  synthetic::Model model;
  model.config = json;
  model.files["model.safetensors"] =
      synthetic::tensors_of_model(*config, [](const Parameter&) { return WeightFormat::kBF16; });
  model.write(folder.path());
  auto checkpoint = Checkpoint::open(folder.path());
  TS_CHECK(checkpoint.ok(), checkpoint.error().message());
  return *std::move(checkpoint);
}

std::string draft_config(const Options& options) {
  const auto flag = [](bool on) { return on ? "true" : "false"; };
  return std::string(R"({"architectures":["LlamaForCausalLMEagle3"],"model_type":"llama","vocab_size":48,
    "draft_vocab_size":48,"hidden_size":160,"num_hidden_layers":1,"num_attention_heads":4,"num_key_value_heads":2,
    "head_dim":16,"intermediate_size":96,"max_position_embeddings":128,"rms_norm_eps":1e-6,"rope_theta":50000,
    "eagle_aux_hidden_state_layer_ids":[1,2,3],"fc_norm":)") +
         flag(options.fc_norm) + R"(,"norm_before_residual":)" + flag(options.norm_before_residual) +
         R"(,"norm_output":)" + flag(options.norm_output) + "}";
}

void expect_reference(const Options& options) {
  const ScratchFolder target_folder, draft_folder;
  const Checkpoint target_checkpoint = write_model(target_folder, std::string(synthetic::kSmallConfig) + "}");
  const Checkpoint draft_checkpoint = write_model(draft_folder, draft_config(options));
  const auto backend = make_cpu_backend({.threads = 1});
  const StepLimits limits{.tokens = 16, .decode_tokens = 16, .seqs = 1, .logit_rows = 16, .positions = 64};
  auto target = load_model(target_checkpoint, *backend, {.limits = limits, .on_bytes = {}});
  ASSERT_TRUE(target.ok());
  auto draft =
      load_draft(draft_checkpoint, target_checkpoint.config(), **target, *backend, {.limits = limits});
  ASSERT_TRUE(draft.ok()) << draft.error().message();
  EXPECT_EQ((*draft)->aux_layers().after, (std::vector<std::int64_t>{0, 1, 2}));
  DraftCache cache = make_draft_cache(*backend, 1, (*draft)->kv_shape(), {.blocks = 4, .block_size = 16});

  std::mt19937 random(5);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> aux(static_cast<std::size_t>(kTokens * 3 * kHidden));
  for (float& x : aux) x = normal(random);
  RowBatch batch(*backend, {.rows = 16, .seqs = 1, .max_blocks = 4, .block_size = 16});
  const std::vector<std::int32_t> table = {2, 0, 1, 3};
  batch.add_sequence(table, false);
  Reference reference(draft_checkpoint, target_checkpoint);
  std::vector<Row> expected;
  for (std::int32_t t = 0; t < kTokens; ++t) {
    const std::int32_t token = (7 * t + 3) % 48;
    batch.add_row(token, t, t + 1);
    const float* at = aux.data() + t * 3 * kHidden;
    expected.push_back(reference.run(token, reference.fuse(Row(at, at + 3 * kHidden))));
  }
  (*draft)->observe(batch.upload(), Tensor::dense(aux.data(), DType::kF32, kTokens, 3 * kHidden),
                    cache.layers);
  const auto compare = [&](std::int32_t row, const Row& want, const char* what) {
    const Tensor logits = (*draft)->logits(&row, 1);
    double largest = 0;
    for (const double x : want) largest = std::max(largest, std::fabs(x));
    for (std::size_t v = 0; v < want.size(); ++v) {
      ASSERT_NEAR(static_cast<double>(logits.row<float>(0)[v]), want[v], 2e-4 * largest)
          << what << " token " << v;
    }
  };
  for (std::int32_t t = 0; t < kTokens; ++t) compare(t, expected[static_cast<std::size_t>(t)], "observed");

  std::int32_t from = kTokens - 1;
  for (std::int32_t k = 0; k < 3; ++k) {
    const std::int32_t token = 11 + k;
    batch.clear();
    batch.add_sequence(table, true);
    batch.add_row(token, kTokens + k, kTokens + k + 1);
    const ForwardBatch rows = batch.upload();
    (*draft)->advance({.ids = rows.ids, .from = &from, .attention = rows.decode}, cache.layers);
    const Row hidden = reference.feedback();
    compare(0, reference.run(token, hidden), "advanced");
    from = 0;
  }
}

TEST(Eagle3Options, EveryCombinationIsTheFormulas) {
  for (int bits = 0; bits < 8; ++bits) {
    const Options options{
        .fc_norm = (bits & 1) != 0, .norm_before_residual = (bits & 2) != 0, .norm_output = (bits & 4) != 0};
    SCOPED_TRACE(draft_config(options));
    expect_reference(options);
  }
}

TEST(Eagle3Options, ADraftThatBorrowsFromAWiderTargetIsRefused) {
  const ScratchFolder target_folder, draft_folder;
  const Checkpoint target_checkpoint = write_model(target_folder, std::string(synthetic::kSmallConfig) + "}");
  std::string json = draft_config({});
  json.replace(json.find("\"hidden_size\":160"), 17, "\"target_hidden_size\":160,\"hidden_size\":64");
  const Checkpoint draft_checkpoint = write_model(draft_folder, json);
  const auto backend = make_cpu_backend({.threads = 1});
  const StepLimits limits{.tokens = 4, .decode_tokens = 4, .seqs = 1, .logit_rows = 4, .positions = 64};
  auto target = load_model(target_checkpoint, *backend, {.limits = limits, .on_bytes = {}});
  ASSERT_TRUE(target.ok());
  const auto draft =
      load_draft(draft_checkpoint, target_checkpoint.config(), **target, *backend, {.limits = limits});
  ASSERT_FALSE(draft.ok());
  EXPECT_NE(draft.error().what.find("hidden_size 64"), std::string::npos) << draft.error().what;
  EXPECT_NE(draft.error().what.find("has 160"), std::string::npos) << draft.error().what;
}

}  // namespace
}  // namespace tessera::test
