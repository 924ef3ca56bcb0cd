// The shipped drafts against what PyTorch computed in float32 from the same hidden states: logits within
// 1e-3, tokens equal, whole prompts or chunks, on any number of ranks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "speculative/draft_cache.h"
#include "speculative/row_batch.h"
#include "support/draft_rig.h"
#include "support/golden.h"

namespace tessera::test {
namespace {

constexpr float kTolerance = 1e-3F;
constexpr std::int32_t kBlockSize = 16;
constexpr std::int32_t kBlocks = 8;  // of the sequence, which lies scattered: last block first

std::vector<std::int32_t> block_table() {
  std::vector<std::int32_t> table(kBlocks);
  for (std::int32_t b = 0; b < kBlocks; ++b) table[static_cast<std::size_t>(b)] = kBlocks - b;
  return table;
}

struct Case {
  std::string draft;
  std::string prompt;
  std::int32_t chunk = 1000;
  bool decode_form = false;  // observe the prompt in the absorbed form
  KvFormat format = KvFormat::kF32;
  int ranks = 1;
  bool whole_draft = false;  // on every rank
};

struct Drafted {
  std::vector<std::int32_t> tokens;
  std::vector<std::vector<float>> logits;
};

class Drafting {
 public:
  Drafting(const Case& c, Communicator* tp)
      : case_(c),
        prompt_(golden_prompt(c.prompt).ids),
        golden_(golden_draft(c.draft, c.prompt)),
        rig_(load_draft_rig(
            c.draft, {.tokens = 8, .decode_tokens = 8, .seqs = 1, .logit_rows = 8, .positions = 128},
            {.tokens = 128, .decode_tokens = 128, .seqs = 1, .logit_rows = 8, .positions = 128}, tp,
            c.whole_draft)),
        cache_(make_draft_cache(*rig_.backend, rig_.draft->layers(), rig_.draft->kv_shape(),
                                {.format = c.format, .blocks = kBlocks + 1, .block_size = kBlockSize})),
        batch_(*rig_.backend, {.rows = 128, .seqs = 1, .max_blocks = kBlocks, .block_size = kBlockSize}) {}

  Drafted run() {
    observe();
    return rig_.draft->block_size() > 0 ? draft_block() : draft_one_by_one();
  }

 private:
  void observe() {
    const auto n = static_cast<std::int32_t>(prompt_.size());
    for (std::int32_t first = 0; first < n; first += case_.chunk) {
      const std::int32_t end = std::min(n, first + case_.chunk);
      batch_.clear();
      batch_.add_sequence(block_table(), case_.decode_form);
      std::vector<float> aux;
      for (std::int32_t p = first; p < end; ++p) {
        batch_.add_row(p + 1 < n ? prompt_[static_cast<std::size_t>(p) + 1] : golden_.next_token, p, p + 1);
        const auto& row = golden_.aux[static_cast<std::size_t>(p)];
        aux.insert(aux.end(), row.begin(), row.end());
      }
      const auto width = static_cast<std::int64_t>(golden_.aux.front().size());
      rig_.draft->observe(batch_.upload(), Tensor::dense(aux.data(), DType::kF32, end - first, width),
                          cache_.layers);
      last_row_ = end - first - 1;
    }
  }

  void choose(std::int32_t row, Drafted& drafted) {
    std::int32_t token = -1;
    rig_.draft->argmax(&row, 1, &token);
    drafted.tokens.push_back(token);
    const Tensor logits = rig_.draft->logits(&row, 1);
    drafted.logits.emplace_back(logits.row<float>(0), logits.row<float>(0) + logits.cols);
  }

  Drafted draft_one_by_one() {
    Drafted drafted;
    const auto n = static_cast<std::int32_t>(prompt_.size());
    std::int32_t from = last_row_;
    for (std::int32_t k = 0;; ++k) {
      choose(from, drafted);
      if (drafted.tokens.size() == golden_.tokens.size()) return drafted;
      batch_.clear();
      batch_.add_sequence(block_table(), true);
      batch_.add_row(drafted.tokens.back(), n + k, n + k + 1);
      const ForwardBatch batch = batch_.upload();
      rig_.draft->advance({.ids = batch.ids, .from = &from, .attention = batch.decode}, cache_.layers);
      from = 0;
    }
  }

  Drafted draft_block() {
    Drafted drafted;
    const auto n = static_cast<std::int32_t>(prompt_.size());
    const auto block = static_cast<std::int32_t>(rig_.draft->block_size());
    batch_.clear();
    batch_.add_sequence(block_table(), true);
    for (std::int32_t i = 0; i < block; ++i) {
      batch_.add_row(i == 0 ? golden_.next_token : rig_.draft->config().draft->mask_token, n + i, n + block);
    }
    const ForwardBatch batch = batch_.upload();
    rig_.draft->advance({.ids = batch.ids, .from = nullptr, .attention = batch.decode}, cache_.layers);
    for (std::int32_t i = 1; i < block; ++i) choose(i, drafted);
    return drafted;
  }

  Case case_;
  std::vector<std::int32_t> prompt_;
  GoldenDraft golden_;
  DraftRig rig_;
  DraftCache cache_;
  RowBatch batch_;
  std::int32_t last_row_ = 0;
};

void expect_golden(const Case& c, float tolerance = kTolerance) {
  const GoldenDraft golden = golden_draft(c.draft, c.prompt);
  on_ranks(c.ranks, [&](Communicator* tp) {
    const Drafted drafted = Drafting(c, tp).run();
    EXPECT_EQ(drafted.tokens, golden.tokens) << c.draft << " after " << c.prompt;
    ASSERT_EQ(drafted.logits.size(), golden.logits.size());
    float worst = 0;
    for (std::size_t i = 0; i < golden.logits.size(); ++i) {
      ASSERT_EQ(drafted.logits[i].size(), golden.logits[i].size());
      for (std::size_t v = 0; v < golden.logits[i].size(); ++v) {
        worst = std::max(worst, std::fabs(drafted.logits[i][v] - golden.logits[i][v]));
      }
    }
    if (tp == nullptr) testing::Test::RecordProperty("largest difference", std::to_string(worst));
    EXPECT_LE(worst, tolerance) << c.draft << " after " << c.prompt << " in chunks of " << c.chunk << " on "
                                << c.ranks << " ranks";
  });
}

class Drafts : public testing::TestWithParam<const char*> {};

TEST_P(Drafts, LogitsAndTokensAreTheReferences) {
  for (const char* prompt : {"len64", "chat"}) expect_golden({.draft = GetParam(), .prompt = prompt});
}

TEST_P(Drafts, ChunksOfAnySizeGiveTheSameDrafts) {
  for (const char* prompt : {"len64", "chat"}) {
    for (const std::int32_t chunk : {1, 7, 16, 63}) {
      for (const bool decode_form : {false, true}) {
        expect_golden({.draft = GetParam(), .prompt = prompt, .chunk = chunk, .decode_form = decode_form});
      }
    }
  }
}

// Layers are split where heads and widths divide (else whole on every rank), the head always.
TEST_P(Drafts, AnyNumberOfRanksGivesTheSameDrafts) {
  for (const int ranks : {2, 4, 8}) {
    for (const char* prompt : {"len64", "chat"}) {
      expect_golden({.draft = GetParam(), .prompt = prompt, .ranks = ranks});
      if (ranks == 2)
        expect_golden({.draft = GetParam(), .prompt = prompt, .ranks = ranks, .whole_draft = true});
    }
  }
}

// Narrow rows of the draft's own cache move its logits; the bounds are twice the largest differences measured
// (DFlash: 0.134 and 1.28).
TEST_P(Drafts, NarrowCacheRowsStayClose) {
  expect_golden({.draft = GetParam(), .prompt = "len64", .format = KvFormat::kBF16}, 0.27F);
  expect_golden({.draft = GetParam(), .prompt = "len64", .format = KvFormat::kFp8}, 2.56F);
}

INSTANTIATE_TEST_SUITE_P(Golden, Drafts, testing::Values("eagle3", "eagle3-mla", "dflash"));

TEST(AuxStates, AreTheResidualStreamsAfterTheNamedLayers) {
  const std::vector<std::int32_t> ids = golden_prompt("len64").ids;
  for (const int ranks : {1, 2}) {
    on_ranks(ranks, [&](Communicator* tp) {
      const DraftRig rig = load_draft_rig(
          "eagle3", {.tokens = 64, .decode_tokens = 1, .seqs = 1, .logit_rows = 1, .positions = 128},
          {.tokens = 64, .decode_tokens = 1, .seqs = 1, .logit_rows = 1, .positions = 128}, tp);
      EXPECT_EQ(rig.draft->aux_layers().after, (std::vector<std::int64_t>{0, 2, 4}));
      DraftCache cache = make_draft_cache(*rig.backend, rig.target->layers(), rig.target->kv_shape(),
                                          {.blocks = kBlocks + 1, .block_size = kBlockSize});
      RowBatch batch(*rig.backend, {.rows = 64, .seqs = 1, .max_blocks = kBlocks, .block_size = kBlockSize});
      batch.add_sequence(block_table(), false);
      for (std::int32_t p = 0; p < 64; ++p) batch.add_row(ids[static_cast<std::size_t>(p)], p, p + 1);
      rig.target->forward(batch.upload(), cache.layers);
      const Tensor aux = rig.target->aux_states();
      const auto golden = golden_draft("eagle3", "len64").aux;
      ASSERT_EQ(aux.rows, 64);
      ASSERT_EQ(aux.cols, 768);
      for (std::int64_t t = 0; t < aux.rows; ++t) {
        for (std::int64_t i = 0; i < aux.cols; ++i) {
          ASSERT_NEAR(aux.row<float>(t)[i], golden[static_cast<std::size_t>(t)][static_cast<std::size_t>(i)],
                      kTolerance)
              << "token " << t << " value " << i;
        }
      }
    });
  }
}

// The choice among shards is the choice among gathered logits, and what ranks exchange is counted in pairs.
TEST(TargetArgmax, IsTheArgmaxOfTheLogitsOnAnyNumberOfRanks) {
  const GoldenPrompt prompt = golden_prompt("len64");
  for (const int ranks : {1, 2, 4}) {
    on_ranks(ranks, [&](Communicator* tp) {
      const DraftRig rig = load_draft_rig(
          "eagle3", {.tokens = 64, .decode_tokens = 1, .seqs = 1, .logit_rows = 5, .positions = 128},
          {.tokens = 64, .decode_tokens = 1, .seqs = 1, .logit_rows = 1, .positions = 128}, tp);
      DraftCache cache = make_draft_cache(*rig.backend, rig.target->layers(), rig.target->kv_shape(),
                                          {.blocks = kBlocks + 1, .block_size = kBlockSize});
      RowBatch batch(*rig.backend, {.rows = 64, .seqs = 1, .max_blocks = kBlocks, .block_size = kBlockSize});
      batch.add_sequence(block_table(), false);
      for (std::int32_t p = 0; p < 64; ++p) batch.add_row(prompt.ids[static_cast<std::size_t>(p)], p, p + 1);
      const Tensor hidden = rig.target->forward(batch.upload(), cache.layers);
      std::vector<std::int32_t> rows(64);
      std::iota(rows.begin(), rows.end(), 0);
      std::vector<std::int32_t> tokens(64, -7);
      rig.target->argmax(hidden, rows.data(), 64, tokens.data());  // in pieces of logit_rows
      for (std::int32_t r = 0; r < 64; ++r) {
        const Tensor logits = rig.target->logits(hidden, rows.data() + r, 1);
        const float* row = logits.row<float>(0);
        EXPECT_EQ(tokens[static_cast<std::size_t>(r)], std::max_element(row, row + logits.cols) - row);
      }
      EXPECT_EQ(tokens.back(), prompt.greedy.front());
    });
  }
}

}  // namespace
}  // namespace tessera::test
