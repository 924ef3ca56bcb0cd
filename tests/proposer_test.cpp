// Whole speculative decoding loops without an engine: each proposer over the shipped model. Tokens are those
// of plain greedy decoding, whatever was proposed, however sequences are mixed; caches recover from rejected
// drafts bit by bit.
#include "speculative/proposer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <random>
#include <string>

#include "backend/cpu/cpu_backend.h"
#include "base/check.h"
#include "base/test_seed.h"
#include "speculative/draft_trial.h"
#include "speculative/hidden_state_proposer.h"
#include "speculative/make_proposer.h"
#include "speculative/verification.h"
#include "support/draft_rig.h"
#include "support/golden.h"

namespace tessera::test {
namespace {

constexpr std::int32_t kBlockSize = 16;
constexpr std::int32_t kMaxLen = 512;
constexpr std::int32_t kSeqs = 4;
constexpr std::int32_t kBlocksEach = kMaxLen / kBlockSize;
constexpr std::int32_t kMaxTokens = 320;

struct LoopOptions {
  std::string method = "eagle3";  // eagle3, eagle3-mla, dflash, draft_model, ngram
  std::int32_t most_drafts = 3;
  std::int32_t deferred_rows = 32;
  std::int32_t chunk = 1000;  // of prompts
  KvFormat draft_format = KvFormat::kF32;
  Communicator* tp = nullptr;
  float temperature = 0;  // above 0: requests sample, each with its slot as seed
  bool draws_drafts = false;
  bool keeps_seed = false;
};

struct Sequence {
  std::vector<std::int32_t> tokens;  // known: prompt and output
  std::int32_t prompt = 0;
  std::int32_t computed = 0;  // rows of the target's cache that stand
  std::vector<std::int32_t> table = {};
  std::vector<std::int32_t> drafts = {};  // to be verified in the next step
  std::vector<float> probs = {};          // what they were drawn from
  std::int32_t proposed = 0, accepted = 0, steps = 0;

  std::vector<std::int32_t> output() const { return {tokens.begin() + prompt, tokens.end()}; }
};

// Hands its proposer the hidden states of the layers in another order: what a wrong config does.
class Permuting final : public Proposer {
 public:
  explicit Permuting(Proposer& inner) : inner_(inner) {}
  std::int32_t most_drafts() const override { return inner_.most_drafts(); }
  std::int32_t lookahead(std::int32_t drafts) const override { return inner_.lookahead(drafts); }
  void start(std::int32_t slot, std::span<const std::int32_t> tokens, std::int32_t cached) override {
    inner_.start(slot, tokens, cached);
  }
  void retire(std::int32_t slot) override { inner_.retire(slot); }
  void propose(std::span<const ProposerWork> work, const Tensor& aux,
               std::span<Proposal> proposals) override {
    std::vector<float> values(static_cast<std::size_t>(aux.size()));
    const std::int64_t third = aux.cols / 3;
    for (std::int64_t r = 0; r < aux.rows; ++r) {
      for (std::int64_t i = 0; i < aux.cols; ++i) {
        values[static_cast<std::size_t>(r * aux.cols + i)] = aux.row<float>(r)[(i + third) % aux.cols];
      }
    }
    inner_.propose(work, Tensor::dense(values.data(), DType::kF32, aux.rows, aux.cols), proposals);
  }

 private:
  Proposer& inner_;
};

// Target and proposer, and the steps of a scheduler reduced to what speculation needs.
class Loop {
 public:
  explicit Loop(const LoopOptions& options)
      : options_(options),
        target_checkpoint_(open_model("tessera-tiny")),
        backend_(make_cpu_backend({.threads = 1})),
        batch_(*backend_,
               {.rows = kMaxTokens, .seqs = kSeqs, .max_blocks = kBlocksEach, .block_size = kBlockSize}),
        proposals_(kSeqs) {
    const ModelConfig& target_config = target_checkpoint_.config();
    SpeculativeConfig config;
    config.num_speculative_tokens = options.most_drafts;
    config.draws_drafts = options.draws_drafts;
    config.draft_kv_format = options.draft_format;
    std::optional<Checkpoint> draft;
    if (options.method == "ngram") {
      config.method = SpeculativeMethod::kNgram;
    } else {  // the target itself as the draft model: every draft must be right
      draft = open_model(options.method == "draft_model" ? "tessera-tiny" : "tessera-tiny-" + options.method);
    }
    const ModelConfig* draft_config = draft ? &draft->config() : nullptr;
    const auto resolved =
        resolve_speculation(config, target_config, draft_config, options.tp ? options.tp->size() : 1);
    TS_CHECK(resolved.ok(), resolved.error().message());
    auto target = load_model(target_checkpoint_, *backend_,
                             {.limits = {.tokens = kMaxTokens,
                                         .decode_tokens = kMaxTokens,
                                         .seqs = kSeqs,
                                         .logit_rows = 16,
                                         .positions = kMaxLen},
                              .shard = {.tp = options.tp},
                              .on_bytes = {},
                              .aux_layers = aux_layers_for(*resolved, target_config, draft_config)});
    TS_CHECK(target.ok(), target.error().message());
    target_ = *std::move(target);
    cache_ = make_draft_cache(*backend_, target_->layers(), target_->kv_shape(),
                              {.blocks = kSeqs * kBlocksEach, .block_size = kBlockSize});
    auto proposer = make_proposer(*resolved, {.backend = *backend_,
                                              .target = *target_,
                                              .target_config = target_config,
                                              .draft = draft ? &*draft : nullptr,
                                              .shard = {.tp = options.tp},
                                              .max_seqs = kSeqs,
                                              .max_tokens = kMaxTokens,
                                              .max_model_len = kMaxLen,
                                              .blocks = kSeqs * kBlocksEach,
                                              .block_size = kBlockSize,
                                              .deferred_rows = options.deferred_rows});
    TS_CHECK(proposer.ok(), proposer.error().message());
    proposer_ = *std::move(proposer);
  }

  void start(std::int32_t slot, const std::vector<std::int32_t>& prompt) {
    Sequence& s = sequences_[slot];
    s = {.tokens = prompt, .prompt = static_cast<std::int32_t>(prompt.size())};
    for (std::int32_t b = 0; b < kBlocksEach; ++b) s.table.push_back((b * 7 % kBlocksEach) * kSeqs + slot);
    proposer_->start(slot, prompt, 0);
  }
  // A prefix-cache hit: the first `cached` tokens lie in blocks of `table`, which another sequence has
  // written.
  void start_shared(std::int32_t slot, const std::vector<std::int32_t>& prompt,
                    const std::vector<std::int32_t>& table, std::int32_t cached) {
    start(slot, prompt);
    Sequence& s = sequences_[slot];
    std::copy_n(table.begin(), cached / kBlockSize, s.table.begin());
    s.computed = cached;
    proposer_->start(slot, prompt, cached);
  }
  void retire(std::int32_t slot) {
    proposer_->retire(slot);
    sequences_.erase(slot);
  }

  // One step of the sequences in `slots`: chunks of prompts, or a token and its drafts. drafts(slot) says how
  // many are wanted next.
  template <class Wanted>
  void step(std::vector<std::int32_t> slots, const Wanted& wanted) {
    std::stable_partition(slots.begin(), slots.end(),
                          [&](std::int32_t slot) { return decodes(sequences_.at(slot)); });
    batch_.clear();
    std::vector<std::int32_t> first_rows;
    std::vector<std::int32_t> counts;
    for (const std::int32_t slot : slots) {
      const Sequence& s = sequences_.at(slot);
      first_rows.push_back(batch_.rows());
      batch_.add_sequence(s.table, decodes(s));
      std::vector<std::int32_t> rows(s.tokens.begin() + s.computed, s.tokens.end());
      if (!decodes(s))
        rows.resize(std::min<std::size_t>(rows.size(), static_cast<std::size_t>(options_.chunk)));
      if (decodes(s)) rows.insert(rows.end(), s.drafts.begin(), s.drafts.end());
      for (std::size_t i = 0; i < rows.size(); ++i) {
        const std::int32_t position = s.computed + static_cast<std::int32_t>(i);
        batch_.add_row(rows[i], position, position + 1);
      }
      counts.push_back(static_cast<std::int32_t>(rows.size()));
    }
    const std::int32_t rows = batch_.rows();
    const Tensor hidden = target_->forward(batch_.upload(), cache_.layers);
    std::vector<std::int32_t> all(static_cast<std::size_t>(rows)), best(all.size());
    std::iota(all.begin(), all.end(), 0);
    if (options_.temperature <= 0) target_->argmax(hidden, all.data(), rows, best.data());

    std::vector<ProposerWork> work;
    std::vector<std::vector<std::int32_t>> standing(slots.size());
    for (std::size_t i = 0; i < slots.size(); ++i) {
      Sequence& s = sequences_.at(slots[i]);
      const bool decode = decodes(s);
      const std::int32_t first_position = s.computed;
      if (options_.temperature > 0) {
        verify(slots[i], s, hidden,
               std::span(all).subspan(static_cast<std::size_t>(first_rows[i]),
                                      static_cast<std::size_t>(counts[i])),
               std::span(best).subspan(static_cast<std::size_t>(first_rows[i])));
      }
      const auto result = [&](std::int32_t row) {
        return best[static_cast<std::size_t>(first_rows[i] + row)];
      };
      std::int32_t accepted = 0;
      if (decode) {
        while (accepted < static_cast<std::int32_t>(s.drafts.size()) &&
               result(accepted) == s.drafts[static_cast<std::size_t>(accepted)]) {
          ++accepted;
        }
        s.proposed += static_cast<std::int32_t>(s.drafts.size());
        s.accepted += accepted;
        ++s.steps;
        s.tokens.insert(s.tokens.end(), s.drafts.begin(), s.drafts.begin() + accepted);
        s.tokens.push_back(result(accepted));
        s.computed += 1 + accepted;
      } else {
        s.computed += counts[i];
        if (s.computed == static_cast<std::int32_t>(s.tokens.size()))
          s.tokens.push_back(result(counts[i] - 1));
      }
      s.drafts.clear();
      standing[i].assign(s.tokens.begin() + first_position, s.tokens.begin() + s.computed + 1);
      const bool may_draft = s.computed + 1 == static_cast<std::int32_t>(s.tokens.size());
      work.push_back({.slot = slots[i],
                      .is_decode = decode,
                      .first_row = first_rows[i],
                      .first_position = first_position,
                      .tokens = standing[i],
                      .block_table = s.table,
                      .drafts = may_draft ? wanted(slots[i]) : 0,
                      .temperature = options_.temperature,
                      .seed = static_cast<std::uint64_t>(slots[i]),
                      .draw = s.tokens.size() - static_cast<std::size_t>(s.prompt),
                      .keeps_seed = options_.keeps_seed});
    }
    proposer_->propose(work, target_->aux_states(), std::span(proposals_).first(work.size()));
    for (std::size_t i = 0; i < slots.size(); ++i) {
      sequences_.at(slots[i]).drafts = proposals_[i].tokens;
      sequences_.at(slots[i]).probs = proposals_[i].probs;
      drawn_ += proposals_[i].probs.empty() ? 0 : 1;
    }
  }

  // As the engine does at start; `permuted` feeds the draft its hidden states in another order.
  DraftTrialReport trial(std::int32_t first_token, bool permuted) {
    Permuting wrong(*proposer_);
    return try_draft({.backend = *backend_,
                      .target = *target_,
                      .proposer = permuted ? wrong : *proposer_,
                      .hidden = 256,
                      .kv = cache_.layers,
                      .first_token = first_token});
  }

  Sequence& sequence(std::int32_t slot) { return sequences_.at(slot); }
  Proposer& proposer() { return *proposer_; }

  std::vector<std::int32_t> generate(const std::vector<std::int32_t>& prompt, std::int32_t count,
                                     std::int32_t drafts) {
    start(0, prompt);
    while (static_cast<std::int32_t>(sequence(0).output().size()) < count) {
      step({0}, [&](std::int32_t) { return drafts; });
    }
    last_ = sequence(0);
    retire(0);
    std::vector<std::int32_t> output = last_.output();
    output.resize(static_cast<std::size_t>(count));
    return output;
  }
  const Sequence& last() const { return last_; }
  int drawn() const { return drawn_; }  // proposals with probs

 private:
  // Samples the last row and those of drafts as the target would: tokens[i] for rows[i].
  void verify(std::int32_t slot, const Sequence& s, const Tensor& hidden, std::span<const std::int32_t> rows,
              std::span<std::int32_t> tokens) {
    SamplingRow next;
    next.temperature = options_.temperature;
    next.top_p = 0.95F;
    next.seed = static_cast<std::uint64_t>(slot);
    next.draw = s.tokens.size() - static_cast<std::size_t>(s.prompt);
    verification_.clear();
    verification_.add({.next = next,
                       .drafts = s.drafts,
                       .end_tokens = {},
                       .probs = s.probs,
                       .token_ids = proposer_->token_ids()});
    const std::size_t count = 1 + s.drafts.size();
    const Tensor logits =
        target_->logits(hidden, rows.data() + rows.size() - count, static_cast<std::int64_t>(count));
    std::vector<SampledToken> results(count);
    backend_->verify(logits, verification_.rows(), verification_.drafts(), results);
    for (std::size_t i = 0; i < count; ++i) tokens[rows.size() - count + i] = results[i].token;
  }

  static bool decodes(const Sequence& s) { return s.computed >= s.prompt; }
  LoopOptions options_;
  Checkpoint target_checkpoint_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Model> target_;
  DraftCache cache_;
  RowBatch batch_;
  std::unique_ptr<Proposer> proposer_;
  std::vector<Proposal> proposals_;
  VerificationRows verification_;
  std::map<std::int32_t, Sequence> sequences_;
  Sequence last_;
  int drawn_ = 0;
};

class Proposers : public testing::TestWithParam<const char*> {};

std::int32_t drafts_of(const std::string& method) { return method == "dflash" ? 7 : 3; }

TEST_P(Proposers, GreedyTokensAreThoseWithoutSpeculation) {
  for (const std::int32_t chunk : {1000, 17}) {
    Loop loop({.method = GetParam(), .most_drafts = drafts_of(GetParam()), .chunk = chunk});
    for (const GoldenPrompt& prompt : golden_prompts()) {
      if (prompt.ids.size() > 320) continue;
      EXPECT_EQ(loop.generate(prompt.ids, 48, drafts_of(GetParam())), prompt.greedy) << prompt.name;
    }
  }
}

// The first drafts are the reference's, through the target's own hidden states.
TEST_P(Proposers, FirstDraftsAreTheReferences) {
  const std::string method = GetParam();
  if (method == "ngram" || method == "draft_model") GTEST_SKIP() << "no reference";
  for (const char* name : {"len64", "chat"}) {
    Loop loop({.method = method, .most_drafts = drafts_of(method)});
    loop.start(0, golden_prompt(name).ids);
    loop.step({0}, [&](std::int32_t) { return drafts_of(method); });
    EXPECT_EQ(loop.sequence(0).drafts, golden_draft(method, name).tokens) << name;
  }
}

// Accepted drafts a step over the golden prompts: not far below what the model cards state, and for the
// target as its own draft, all of them.
TEST_P(Proposers, ManyDraftsStand) {
  const std::string method = GetParam();
  const std::map<std::string, double> least = {
      {"eagle3", 1.2}, {"eagle3-mla", 1.45}, {"dflash", 1.7}, {"draft_model", 2.999}, {"ngram", 0.1}};
  Loop loop({.method = method, .most_drafts = drafts_of(method)});
  double accepted = 0, steps = 0;
  for (const GoldenPrompt& prompt : golden_prompts()) {
    if (prompt.ids.size() > 320 || prompt.ids.size() < 8) continue;
    loop.generate(prompt.ids, 100, drafts_of(method));
    accepted += loop.last().accepted;
    steps += loop.last().steps;
    if (method == "draft_model") {
      // The first decode step has what the prompt's step proposed, so every step's drafts stand.
      EXPECT_EQ(loop.last().accepted, loop.last().proposed) << prompt.name;
    }
  }
  RecordProperty("accepted_per_step", std::to_string(accepted / steps));
  EXPECT_GE(accepted / steps, least.at(method)) << method;
}

// Sequences of several lengths in one step, each wanting another number of drafts each time, sequences coming
// and going: each gives its own golden tokens.
TEST_P(Proposers, AnyMixtureOfSequencesAndDraftLengthsGivesTheSameTokens) {
  const std::string method = GetParam();
  std::mt19937 random(test_seed());
  std::vector<GoldenPrompt> prompts;
  for (const GoldenPrompt& prompt : golden_prompts()) {
    if (prompt.ids.size() <= 64) prompts.push_back(prompt);
  }
  Loop loop({.method = method, .most_drafts = drafts_of(method), .deferred_rows = 6, .chunk = 30});
  std::map<std::int32_t, std::size_t> running;  // slot -> prompt
  int finished = 0;
  for (int step = 0; finished < 12; ++step) {
    ASSERT_LT(step, 2000);
    for (std::int32_t slot = 0; slot < kSeqs; ++slot) {
      if (!running.contains(slot) && random() % 3 == 0) {
        running[slot] = random() % prompts.size();
        loop.start(slot, prompts[running[slot]].ids);
      }
    }
    std::vector<std::int32_t> slots;
    for (const auto& [slot, prompt] : running) {
      if (random() % 4 != 0) slots.push_back(slot);
    }
    if (slots.empty()) continue;
    const bool quiet = random() % 3 == 0;  // nobody drafts: rows may wait
    loop.step(slots, [&](std::int32_t) {
      return quiet ? 0 : static_cast<std::int32_t>(random() % 5) * drafts_of(method) / 4;
    });
    for (const std::int32_t slot : slots) {
      const std::vector<std::int32_t> output = loop.sequence(slot).output();
      const GoldenPrompt& prompt = prompts[running[slot]];
      const auto count = std::min(output.size(), prompt.greedy.size());
      ASSERT_TRUE(std::equal(output.begin(), output.begin() + static_cast<std::ptrdiff_t>(count),
                             prompt.greedy.begin()))
          << method << ": " << prompt.name << " in slot " << slot << " after step " << step;
      if (output.size() >= prompt.greedy.size()) {
        loop.retire(slot);
        running.erase(slot);
        ++finished;
      }
    }
  }
}

// Rolling back is seeing fewer rows: after rejected drafts, steps without drafts, and rows that waited, the
// next drafts are those of a proposer that has seen nothing else.
TEST_P(Proposers, DraftsDoNotRememberWhatWasRejectedOrWaited) {
  const std::string method = GetParam();
  const GoldenPrompt prompt = golden_prompt("len64");
  std::mt19937 random(test_seed() + 5);
  for (const std::int32_t deferred : {0, 4, 32}) {
    Loop loop({.method = method, .most_drafts = drafts_of(method), .deferred_rows = deferred});
    Loop fresh({.method = method, .most_drafts = drafts_of(method), .deferred_rows = 0});
    loop.start(0, prompt.ids);
    fresh.start(0, prompt.ids);
    for (int step = 0; step < 24; ++step) {
      const bool last = step % 6 == 5;
      const std::int32_t wanted = last ? drafts_of(method) : static_cast<std::int32_t>(random() % 3);
      loop.step({0}, [&](std::int32_t) { return wanted; });
      if (!last && !loop.sequence(0).drafts.empty() && random() % 2 == 0) {
        loop.sequence(0).drafts.front() = 17;  // a guess that the target rejects
      }
      while (fresh.sequence(0).tokens.size() < loop.sequence(0).tokens.size()) {
        const bool there = fresh.sequence(0).tokens.size() + 1 == loop.sequence(0).tokens.size();
        fresh.step({0}, [&](std::int32_t) { return there && last ? drafts_of(method) : 0; });
      }
      if (last) {
        EXPECT_EQ(loop.sequence(0).drafts, fresh.sequence(0).drafts)
            << method << " step " << step << " deferring " << deferred;
      }
    }
  }
}

// Whoever meets a sequence's blocks in the prefix cache finds the draft's rows complete, although the steps
// that wrote them wanted no drafts: after the sequence has left, and while it still runs.
TEST_P(Proposers, SharedBlocksAreComplete) {
  const std::string method = GetParam();
  const GoldenPrompt prompt = golden_prompt("len64");
  for (const bool first_has_left : {true, false}) {
    std::vector<std::vector<std::int32_t>> drafts;
    std::vector<std::vector<float>> probs;
    for (const std::int32_t deferred : {0, 32}) {
      Loop loop({.method = method,
                 .most_drafts = drafts_of(method),
                 .deferred_rows = deferred,
                 .temperature = 1,
                 .draws_drafts = method != "ngram"});  // so that every bit of the draft's logits is seen
      loop.start(0, prompt.ids);
      while (loop.sequence(0).computed < 90) loop.step({0}, [](std::int32_t) { return 0; });
      const std::vector<std::int32_t> text(loop.sequence(0).tokens.begin(),
                                           loop.sequence(0).tokens.begin() + 90);
      const std::vector<std::int32_t> table = loop.sequence(0).table;
      if (first_has_left) loop.retire(0);
      loop.start_shared(1, text, table, 80);  // rows 64 to 79 have waited
      loop.step({1}, [&](std::int32_t) { return drafts_of(method); });
      drafts.push_back(loop.sequence(1).drafts);
      probs.push_back(loop.sequence(1).probs);
    }
    EXPECT_EQ(drafts[1], drafts[0]) << method;
    EXPECT_TRUE(probs[1] == probs[0]) << method << (first_has_left ? ", left" : ", running");
    EXPECT_TRUE(method == "ngram" || !drafts[0].empty());
  }
}

TEST_P(Proposers, RanksGuessTheSame) {
  const std::string method = GetParam();
  const GoldenPrompt prompt = golden_prompt("chat");
  for (const int ranks : {2, 4}) {
    on_ranks(ranks, [&](Communicator* tp) {
      Loop loop({.method = method, .most_drafts = drafts_of(method), .tp = tp});
      EXPECT_EQ(loop.generate(prompt.ids, 32, drafts_of(method)),
                std::vector<std::int32_t>(prompt.greedy.begin(), prompt.greedy.begin() + 32))
          << "rank " << tp->rank() << " of " << ranks;
      // 8 bytes for each rank and draft, also for those proposed in the last step, which nobody verified.
      const std::int64_t bytes = loop.proposer().exchanged_bytes();
      EXPECT_EQ(bytes % (8 * ranks), 0);
      if (method == "ngram") {
        EXPECT_EQ(bytes, 0);
      } else {
        EXPECT_GE(bytes / (8 * ranks), loop.last().proposed);
        EXPECT_LE(bytes / (8 * ranks), loop.last().proposed + drafts_of(method));
      }
    });
  }
}

// Blocks that end before the drafts do give fewer drafts, never a row outside.
TEST_P(Proposers, FewBlocksGiveFewDrafts) {
  const std::string method = GetParam();
  const GoldenPrompt prompt = golden_prompt("len64");
  Loop loop({.method = method, .most_drafts = drafts_of(method)});
  loop.start(0, prompt.ids);
  loop.sequence(0).table.resize(5);  // 80 rows: 64 of the prompt, 16 more
  while (loop.sequence(0).computed < 80) {
    loop.step({0}, [&](std::int32_t) {
      const std::int32_t room = 80 - loop.sequence(0).computed;  // of the target, for the next step
      return std::max(0, std::min(drafts_of(method), room - 1));
    });
  }
  const std::vector<std::int32_t> output = loop.sequence(0).output();
  EXPECT_EQ(output.size(), 17U);
  EXPECT_TRUE(std::equal(output.begin(), output.end(), prompt.greedy.begin()));
}

// A seed's tokens are the same without drafts, with chosen ones, and with drawn ones that keep the seed.
TEST_P(Proposers, SeededTokensAreThoseWithoutSpeculation) {
  const std::string method = GetParam();
  const GoldenPrompt prompt = golden_prompt("chat");
  for (const float temperature : {0.7F, 1.0F}) {
    Loop plain({.method = method, .most_drafts = drafts_of(method), .temperature = temperature});
    const auto expected = plain.generate(prompt.ids, 60, 0);
    EXPECT_EQ(plain.generate(prompt.ids, 60, drafts_of(method)), expected) << temperature;
    Loop drawn({.method = method,
                .most_drafts = drafts_of(method),
                .temperature = temperature,
                .draws_drafts = method != "ngram",
                .keeps_seed = true});
    EXPECT_EQ(drawn.generate(prompt.ids, 60, drafts_of(method)), expected) << temperature;
  }
}

// Drawn and verified by rejection: the law is verified elsewhere; here, that what was drawn and what it was
// drawn from belong together, which shows in how many stand.
TEST_P(Proposers, DrawnDraftsStandByRejectionSampling) {
  const std::string method = GetParam();
  if (method == "ngram") GTEST_SKIP() << "has no distribution";
  const std::map<std::string, double> least = {
      {"eagle3", 0.9}, {"eagle3-mla", 1.1}, {"dflash", 1.2}, {"draft_model", 2.5}};
  Loop loop({.method = method, .most_drafts = drafts_of(method), .temperature = 0.7F, .draws_drafts = true});
  double accepted = 0, steps = 0;
  for (const char* name : {"len7", "len64", "chat"}) {
    loop.generate(golden_prompt(name).ids, 100, drafts_of(method));
    accepted += loop.last().accepted;
    steps += loop.last().steps;
  }
  EXPECT_GT(loop.drawn(), 0) << "proposals said what they were drawn from";
  RecordProperty("accepted_per_step", std::to_string(accepted / steps));
  EXPECT_GE(accepted / steps, least.at(method)) << method;
}

INSTANTIATE_TEST_SUITE_P(Methods, Proposers,
                         testing::Values("eagle3", "eagle3-mla", "dflash", "draft_model", "ngram"));

// A fitting draft guesses best from its own hidden states; one that is fed another order is told apart,
// whatever the text begins with: token 4032 is the one that begins texts.
TEST(DraftTrial, TellsAFittingDraftFromOneWithPermutedHiddenStates) {
  for (const char* method : {"eagle3", "eagle3-mla", "dflash"}) {
    Loop loop({.method = method, .most_drafts = drafts_of(method)});
    for (const std::int32_t first : {4032, 0, 1000}) {
      const DraftTrialReport fitting = loop.trial(first, false);
      const DraftTrialReport permuted = loop.trial(first, true);
      SCOPED_TRACE(std::string(method) + " after " + std::to_string(first) + ": " +
                   std::to_string(fitting.right) + " of " + std::to_string(fitting.guessed) + ", " +
                   std::to_string(fitting.best_other) + "; permuted " + std::to_string(permuted.right));
      EXPECT_FALSE(warning_of(fitting));
      EXPECT_GT(fitting.rate(), 0.2);
      EXPECT_TRUE(warning_of(permuted));
      EXPECT_EQ(permuted.best_other, fitting.right) << "the right order is one of the others";
    }
  }
}

TEST(Deferral, ObservesManyStepsInOnePass) {
  Loop at_once({.method = "eagle3", .deferred_rows = 0});
  Loop later({.method = "eagle3", .deferred_rows = 16});
  const GoldenPrompt prompt = golden_prompt("chat");
  EXPECT_EQ(at_once.generate(prompt.ids, 48, 0), prompt.greedy);
  EXPECT_EQ(later.generate(prompt.ids, 48, 0), prompt.greedy);
  const auto passes = [](Loop& loop) { return dynamic_cast<HiddenStateProposer&>(loop.proposer()).passes(); };
  EXPECT_EQ(passes(at_once), 48);
  EXPECT_LE(passes(later), 5);
}

// A narrow cache of the draft changes guesses, never what the target says.
TEST(DraftCacheFormat, IsTheDraftsOwn) {
  const GoldenPrompt prompt = golden_prompt("len64");
  for (const char* method : {"eagle3", "eagle3-mla", "dflash"}) {
    for (const KvFormat format : {KvFormat::kBF16, KvFormat::kFp8}) {
      Loop loop({.method = method, .most_drafts = drafts_of(method), .draft_format = format});
      EXPECT_EQ(loop.generate(prompt.ids, 48, drafts_of(method)), prompt.greedy) << method;
      EXPECT_GT(loop.last().accepted, 10) << method << " " << name_of(format);
    }
  }
  Loop grouped({.method = "eagle3-mla", .draft_format = KvFormat::kFp8Grouped});
  EXPECT_EQ(grouped.generate(prompt.ids, 48, 3), prompt.greedy);
}

}  // namespace
}  // namespace tessera::test
