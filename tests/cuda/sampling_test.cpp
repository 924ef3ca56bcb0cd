#include <algorithm>
#include <limits>

#include "cuda/device_fixture.h"

namespace tessera::test {
namespace {

using Sampling = OnGpu;
INSTANTIATE_TEST_SUITE_P(Cuda, Sampling, testing::Values(false), [](const auto&) { return "any"; });

struct Lists {
  std::vector<std::pair<std::int32_t, float>> bias;
  std::vector<std::int32_t> banned, prompt;
  std::vector<std::uint64_t> allowed;
  std::vector<std::pair<std::int32_t, std::int32_t>> counts;
};

// Settings of every kind, alone and together.
SamplingRow random_row(Random& random, std::int32_t vocab, Lists& lists) {
  const auto token = [&] { return static_cast<std::int32_t>(random.whole(0, vocab - 1)); };
  const auto sometimes = [&] { return random.whole(0, 2) == 0; };
  SamplingRow row;
  row.temperature = sometimes() ? 0.0F : 0.3F + 0.1F * static_cast<float>(random.whole(0, 12));
  if (sometimes()) row.top_k = static_cast<std::int32_t>(random.whole(1, 60));
  if (sometimes()) row.top_p = 0.05F * static_cast<float>(random.whole(0, 20));
  if (sometimes()) row.min_p = 0.02F * static_cast<float>(random.whole(0, 20));
  if (sometimes()) row.repetition_penalty = 1.3F;
  if (sometimes()) row.frequency_penalty = 0.7F;
  if (sometimes()) row.presence_penalty = -0.4F;
  row.seed = random.bits();
  row.draw = static_cast<std::uint64_t>(random.whole(0, 100));
  row.logprobs = static_cast<std::int32_t>(random.whole(-1, 6));
  for (int i = 0; sometimes() && i < 20; ++i) {
    const std::int32_t t = token();
    if (std::ranges::none_of(lists.bias, [&](const auto& b) { return b.first == t; })) {
      lists.bias.emplace_back(t, random.normal(3));
    }
  }
  if (sometimes()) lists.banned = {token(), token(), vocab + 5, -1};
  for (int i = 0; i < 50; ++i) lists.prompt.push_back(token());
  for (std::int32_t i = 0; i < 30; ++i) {
    lists.counts.emplace_back((i * 37 + 11) % vocab, static_cast<std::int32_t>(random.whole(0, 4)));
  }
  if (sometimes()) {
    lists.allowed.resize(static_cast<std::size_t>(vocab + 63) / 64);
    for (std::uint64_t& word : lists.allowed) word = random.bits() & random.bits();
  }
  row.logit_bias = lists.bias;
  row.banned = lists.banned;
  row.prompt_tokens = lists.prompt;
  row.out_counts = lists.counts;
  row.allowed = lists.allowed;
  return row;
}

TEST_P(Sampling, DrawsAreTheCpus) {
  for (const std::int32_t vocab : {40, 1000, 4096, 163840}) {
    const std::int64_t rows = vocab > 10000 ? 130 : 500;
    std::vector<float> logits = random_.normals(rows * vocab, 3);
    for (std::size_t i = 0; i + 5 < logits.size(); i += 3) logits[i + 5] = logits[i];  // ties
    std::vector<Lists> lists(static_cast<std::size_t>(rows));
    std::vector<SamplingRow> settings;
    for (Lists& list : lists) settings.push_back(random_row(random_, vocab, list));
    const Tensor on_gpu = Tensor::dense(upload(logits), DType::kF32, rows, vocab);
    std::vector<SampledToken> want(static_cast<std::size_t>(rows)), got(static_cast<std::size_t>(rows));
    cpu_->sample(rows_of(logits, rows, vocab), settings, want);
    gpu_->sample(on_gpu, settings, got);
    for (std::size_t r = 0; r < want.size(); ++r) {
      const auto what = testing::Message() << "vocab " << vocab << ", row " << r << ", temperature "
                                           << settings[r].temperature << ", k " << settings[r].top_k << ", p "
                                           << settings[r].top_p << ", min_p " << settings[r].min_p;
      EXPECT_EQ(got[r].invalid, want[r].invalid) << what;
      EXPECT_EQ(got[r].token, want[r].token) << what;
      EXPECT_NEAR(got[r].logprob, want[r].logprob, 1e-4) << what;
      EXPECT_EQ(got[r].rank, want[r].rank) << what;
      ASSERT_EQ(got[r].top.size(), want[r].top.size()) << what;
      for (std::size_t n = 0; n < want[r].top.size(); ++n) {
        EXPECT_EQ(got[r].top[n].token, want[r].top[n].token) << what;
        EXPECT_EQ(got[r].top[n].rank, want[r].top[n].rank) << what;
        EXPECT_NEAR(got[r].top[n].logprob, want[r].top[n].logprob, 1e-4) << what;
      }
    }
  }
}

TEST_P(Sampling, DraftsStandAndAreReplacedAsOnTheCpu) {
  for (const std::int32_t vocab : {40, 4096}) {
    const std::int64_t rows = 400;
    std::vector<float> logits = random_.normals(rows * vocab, 2);
    std::vector<Lists> lists(static_cast<std::size_t>(rows));
    std::vector<SamplingRow> settings;
    std::vector<DraftDraw> drafts;
    // Distributions close to the row's own: some drafts stand, some do not. Every other one over a part of
    // the vocabulary, with ids; every fifth draft was not drawn.
    std::vector<std::vector<float>> probs(static_cast<std::size_t>(rows));
    std::vector<std::int32_t> odd;
    for (std::int32_t token = 1; token < vocab; token += 2) odd.push_back(token);
    for (std::int64_t r = 0; r < rows; ++r) {
      const auto i = static_cast<std::size_t>(r);
      settings.push_back(random_row(random_, vocab, lists[i]));
      settings.back().logprobs = -1;
      const bool is_part = r % 2 == 1;
      const auto count = is_part ? odd.size() : static_cast<std::size_t>(vocab);
      double sum = 0;
      for (std::size_t e = 0; e < count; ++e) {
        const std::size_t token = is_part ? static_cast<std::size_t>(odd[e]) : e;
        const float logit = logits[i * static_cast<std::size_t>(vocab) + token] + random_.normal(0.5F);
        probs[i].push_back(std::exp(logit));
        sum += static_cast<double>(probs[i].back());
      }
      for (float& p : probs[i]) p = static_cast<float>(static_cast<double>(p) / sum);
      const auto entry = static_cast<std::size_t>(std::ranges::max_element(probs[i]) - probs[i].begin());
      DraftDraw draft{.token = is_part ? odd[entry] : static_cast<std::int32_t>(entry),
                      .prob = probs[i][entry]};
      if (r % 5 != 0) draft.probs = probs[i];
      if (r % 5 != 0 && is_part) draft.ids = odd;
      drafts.push_back(draft);
    }
    std::vector<SampledToken> want(settings.size()), got(settings.size());
    const Tensor on_gpu = Tensor::dense(upload(logits), DType::kF32, rows, vocab);
    cpu_->verify(rows_of(logits, rows, vocab), settings, drafts, want);
    gpu_->verify(on_gpu, settings, drafts, got);
    int standing = 0;
    int unequal = 0;
    for (std::size_t r = 0; r < got.size(); ++r) {
      EXPECT_EQ(got[r].invalid, want[r].invalid) << r;
      standing += got[r].token == drafts[r].token ? 1 : 0;
      unequal += got[r].token != want[r].token ? 1 : 0;
    }
    EXPECT_GT(standing, 50);
    EXPECT_LT(standing, 350);
    EXPECT_LE(unequal, 2);  // a draw between two tokens whose running sum is rounded differently
    buffers_.clear();
  }
}

TEST_P(Sampling, RowsThatCannotBeDrawnFromAreInvalidAndHarmNobody) {
  constexpr float kNone = -std::numeric_limits<float>::infinity();
  constexpr float kAll = std::numeric_limits<float>::infinity();
  const std::int64_t vocab = 300;
  std::vector<float> logits = random_.normals(5 * vocab);
  logits[vocab + 17] = std::numeric_limits<float>::quiet_NaN();
  std::fill_n(logits.begin() + 2 * vocab, vocab, kNone);
  logits[3 * vocab + 200] = kAll;
  logits[3 * vocab + 100] = kAll;
  std::vector<SamplingRow> rows(5);
  for (SamplingRow& row : rows) row.logprobs = 1;
  rows[0].temperature = 0;
  rows[3].temperature = 0;
  const Tensor on_gpu = Tensor::dense(upload(logits), DType::kF32, 5, vocab);
  std::vector<SampledToken> want(5), got(5);
  cpu_->sample(rows_of(logits, 5, vocab), rows, want);
  gpu_->sample(on_gpu, rows, got);
  for (std::size_t r = 0; r < 5; ++r) {
    EXPECT_EQ(got[r].invalid, want[r].invalid) << r;
    EXPECT_EQ(got[r].token, want[r].token) << r;
  }
  EXPECT_TRUE(got[1].invalid);
  EXPECT_TRUE(got[2].invalid);
  EXPECT_EQ(got[3].token, 100);
}

TEST_P(Sampling, LogprobsOfTargetsAreTheCpus) {
  for (const std::int32_t top : {0, 1, 20, 700}) {
    const std::int64_t rows = 70, vocab = 1000;
    std::vector<float> logits = random_.normals(rows * vocab, 3);
    for (std::size_t i = 0; i + 5 < logits.size(); i += 3) logits[i + 5] = logits[i];
    std::vector<std::int32_t> targets;
    for (std::int64_t r = 0; r < rows; ++r)
      targets.push_back(static_cast<std::int32_t>(random_.whole(0, vocab - 1)));
    std::vector<SampledToken> want(static_cast<std::size_t>(rows)), got(static_cast<std::size_t>(rows));
    const Tensor on_gpu = Tensor::dense(upload(logits), DType::kF32, rows, vocab);
    cpu_->logprobs(rows_of(logits, rows, vocab), targets, top, want);
    gpu_->logprobs(on_gpu, targets, top, got);
    for (std::size_t r = 0; r < want.size(); ++r) {
      EXPECT_EQ(got[r].token, want[r].token);
      EXPECT_EQ(got[r].rank, want[r].rank);
      EXPECT_NEAR(got[r].logprob, want[r].logprob, 1e-4);
      ASSERT_EQ(got[r].top.size(), want[r].top.size());
      for (std::size_t n = 0; n < want[r].top.size(); ++n)
        EXPECT_EQ(got[r].top[n].token, want[r].top[n].token);
    }
  }
}

TEST_P(Sampling, TheBestLogitsAreTheHosts) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const std::int32_t vocab : {1, 31, 1000, 163840}) {
    const std::int64_t rows = vocab > 10000 ? 20 : 300;
    std::vector<float> logits = random_.normals(rows * vocab, 1);
    for (float& x : logits) x = std::round(x * 8) / 8;  // many are equal
    const auto row = [&](std::int64_t r) { return logits.begin() + r * vocab; };
    std::fill(row(3), row(4), -kInfinity);
    row(5)[vocab / 2] = std::numeric_limits<float>::quiet_NaN();
    row(6)[vocab - 1] = kInfinity;
    std::fill(row(7), row(8), -3.0F);
    const Tensor there = Tensor::dense(upload(logits), DType::kF32, rows, vocab);
    std::vector<BestLogit> found(static_cast<std::size_t>(rows));
    std::vector<BestLogit> want(found.size());
    auto* best = upload(found);
    for (int run = 0; run < 3; ++run) gpu_->argmax_shard(there, 500, best);
    gpu_->copy_to_host(found.data(), best, found.size() * sizeof(BestLogit));
    gpu_->synchronise();
    cpu_->argmax_shard(rows_of(logits, rows, vocab), 500, want.data());
    for (std::size_t r = 0; r < found.size(); ++r) {
      EXPECT_EQ(found[r].token, want[r].token) << vocab << ", row " << r;
      EXPECT_TRUE(found[r].value == want[r].value || std::isnan(want[r].value)) << vocab << ", row " << r;
    }

    // Three shards: the row itself, its neighbour's best, and one that may choose nothing.
    std::vector<BestLogit> shards = want;
    shards.insert(shards.end(), want.begin() + 1, want.end());
    shards.push_back(want[0]);
    shards.insert(shards.end(), want.size(), {.value = -kInfinity, .token = -1});
    std::vector<std::int32_t> map(static_cast<std::size_t>(500 + vocab));
    for (std::size_t i = 0; i < map.size(); ++i) map[i] = static_cast<std::int32_t>(7 * i);
    for (const bool mapped : {false, true}) {
      std::vector<std::int32_t> want_tokens(want.size());
      std::vector<std::int32_t> tokens(want.size());
      cpu_->merge_argmax(shards.data(), 3, rows, mapped ? map.data() : nullptr, want_tokens.data());
      auto* merged = upload(tokens);
      gpu_->merge_argmax(upload(shards), 3, rows, mapped ? upload(map) : nullptr, merged);
      gpu_->copy_to_host(tokens.data(), merged, tokens.size() * sizeof(std::int32_t));
      gpu_->synchronise();
      EXPECT_EQ(tokens, want_tokens) << vocab;
    }
    buffers_.clear();
  }
}

}  // namespace
}  // namespace tessera::test
