// A runner for tests and benchmarks: no model, but a pool of rows and a block table of its own, kept like a
// device's.
//
// A row holds a hash of all tokens up to its own, chained through the row before it, which is found through
// the table. A sampled token is a function of that hash. So a request gets the tokens it would get alone
// exactly when every row it ever reads was written by itself or by an equal prefix, and not overwritten
// since.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <set>
#include <vector>

#include "base/check.h"
#include "engine/request.h"
#include "engine/step_plan.h"

namespace tessera {

class FakeRunner final : public StepRunner {
 public:
  struct Options {
    std::int32_t max_num_seqs = 0;
    std::int32_t max_num_batched_tokens = 0;
    std::int32_t block_size = 0;
    std::int32_t kv_blocks = 0;
    std::int32_t vocab = 0;
    bool verify = true;  // every row of every sequence in every step, and the plan's own promises
  };
  using Hash = std::uint64_t;

  explicit FakeRunner(const Options& options)
      : options_(options),
        pool_(static_cast<std::size_t>(options.kv_blocks) * static_cast<std::size_t>(options.block_size)),
        slots_(static_cast<std::size_t>(options.max_num_seqs)) {}

  // Called before each step; may throw or wait.
  std::function<void(const StepPlan&)> before_step;
  // Rows whose context hash it picks are reported as NaN.
  std::function<bool(Hash)> is_invalid;

  static Hash chain(Hash before, std::int32_t token) {
    Hash h = (before ^ static_cast<Hash>(token + 1)) * 0x9e3779b97f4a7c15U;
    h ^= h >> 29U;
    h *= 0xbf58476d1ce4e5b9U;
    return h ^ h >> 32U;
  }
  static Hash context(const std::vector<std::int32_t>& tokens) {
    Hash h = 0;
    for (const std::int32_t token : tokens) h = chain(h, token);
    return h;
  }
  static std::int32_t token_after(Hash context, std::int32_t vocab) {
    return static_cast<std::int32_t>(context % static_cast<Hash>(vocab));
  }
  static float logprob_of(Hash context, std::int32_t token) {
    return -static_cast<float>(chain(context, token) % 10007) / 100.0F;
  }

  StepResult& step(const StepPlan& plan) override {
    if (before_step) before_step(plan);
    for (const std::int32_t slot : plan.retired) slots_[index(slot)] = {};
    for (const SequenceStart& start : plan.starts) begin(start);
    copy_table(plan);
    if (options_.verify) check(plan);
    result_.sampled.clear();
    result_.prompt_logprobs.clear();
    for (std::size_t row = 0; row < plan.work.size(); ++row) run(plan, row);
    ++steps;
    return result_;
  }

  std::int64_t steps = 0;

 private:
  struct Slot {
    bool active = false;
    std::int32_t banned_until = 0;  // min_tokens
    std::int32_t prompt = 0;
    std::vector<std::int32_t> tokens;  // all that the host knows
    std::vector<std::int32_t> end_tokens;
  };
  static std::size_t index(std::int32_t value) { return static_cast<std::size_t>(value); }

  void begin(const SequenceStart& start) {
    Slot& slot = slots_[index(start.slot)];
    TS_CHECK(!slot.active, start.slot);
    slot = {.active = true,
            .banned_until = start.sampling.min_tokens,
            .prompt = static_cast<std::int32_t>(start.prompt.size()),
            .tokens = start.prompt,
            .end_tokens = start.end_tokens};
    slot.tokens.insert(slot.tokens.end(), start.output.begin(), start.output.end());
    // So that a decode step allocates nothing here.
    slot.tokens.reserve(start.prompt.size() + index(start.sampling.max_tokens));
  }

  void copy_table(const StepPlan& plan) {
    table_.resize(plan.block_table.size(), -1);
    for (const TableWrite& write : plan.table_writes) {
      const auto first = plan.block_table.begin() + std::int64_t{write.row} * plan.max_blocks + write.first;
      std::copy(first, first + write.count, table_.begin() + (first - plan.block_table.begin()));
    }
  }

  std::size_t place(const StepPlan& plan, std::size_t row, std::int32_t position) const {
    const std::int32_t block = table_[row * index(plan.max_blocks) + index(position / options_.block_size)];
    TS_CHECK(block >= 0 && block < options_.kv_blocks, block, row, position);
    return index(block) * index(options_.block_size) + index(position % options_.block_size);
  }

  void check(const StepPlan& plan) const {
    TS_CHECK(!plan.work.empty() && plan.work.size() <= index(options_.max_num_seqs), plan.work.size());
    TS_CHECK(!plan.tokens.empty() && plan.tokens.size() <= index(options_.max_num_batched_tokens),
             plan.tokens.size());
    TS_CHECK(plan.positions.size() == plan.tokens.size() && plan.slots.size() == plan.tokens.size() &&
                 plan.next_tokens.size() == plan.tokens.size(),
             plan.tokens.size());
    std::set<std::int64_t> written;
    std::set<std::int32_t> seen;
    std::int32_t token = 0;
    bool decodes = true;
    for (std::size_t row = 0; row < plan.work.size(); ++row) {
      const SequenceWork& work = plan.work[row];
      TS_CHECK(slots_[index(work.slot)].active && seen.insert(work.slot).second, work.slot);
      TS_CHECK(work.first_token == token && work.count > 0, work.first_token, token, work.count);
      TS_CHECK(decodes || !work.is_decode, row);
      decodes = work.is_decode;
      for (std::int32_t i = 0; i < plan.max_blocks; ++i) {  // the delta describes the whole table
        const std::size_t at = row * index(plan.max_blocks) + index(i);
        TS_CHECK(table_[at] == plan.block_table[at], row, i, table_[at], plan.block_table[at]);
      }
      for (std::int32_t i = 0; i < work.count; ++i, ++token) {
        const std::int32_t position = plan.positions[index(token)];
        TS_CHECK(position == work.first_position + i, position, work.first_position, i);
        TS_CHECK(plan.slots[index(token)] == static_cast<std::int64_t>(place(plan, row, position)), row,
                 position);
        TS_CHECK(written.insert(plan.slots[index(token)]).second, plan.slots[index(token)]);
      }
    }
  }

  void run(const StepPlan& plan, std::size_t row) {
    const SequenceWork& work = plan.work[row];
    Slot& slot = slots_[index(work.slot)];
    if (options_.verify) {
      Hash expected = 0;
      for (std::int32_t p = 0; p < work.first_position; ++p) {
        expected = chain(expected, slot.tokens[index(p)]);
        TS_CHECK(pool_[place(plan, row, p)] == expected, plan.step, row, p);
      }
    }
    Hash context = work.first_position == 0 ? 0 : pool_[place(plan, row, work.first_position - 1)];
    for (std::int32_t i = 0; i < work.count; ++i) {
      const std::size_t t = index(work.first_token + i);
      TS_CHECK(plan.tokens[t] == slot.tokens[index(plan.positions[t])], plan.step, row, plan.positions[t]);
      context = chain(context, plan.tokens[t]);
      pool_[index(static_cast<std::int32_t>(plan.slots[t]))] = context;
      if (work.prompt_logprobs >= 0 && plan.next_tokens[t] >= 0) {
        SampledToken logprob;
        logprob.token = plan.next_tokens[t];
        logprob.logprob = logprob_of(context, plan.next_tokens[t]);
        logprob.top.resize(index(work.prompt_logprobs));
        result_.prompt_logprobs.push_back(std::move(logprob));
      }
    }
    if (!work.samples) return;
    SampledToken sampled;
    sampled.token = token_after(context, options_.vocab);
    const auto generated = static_cast<std::int32_t>(slot.tokens.size()) - slot.prompt;
    while (generated < slot.banned_until && std::ranges::count(slot.end_tokens, sampled.token) > 0)
      sampled.token = (sampled.token + 1) % options_.vocab;
    if (work.allowed_mask >= 0) {
      const auto& mask = plan.allowed_masks[index(work.allowed_mask)];
      std::int32_t tried = 0;
      const auto allowed = [&](std::int32_t id) {
        return (mask[index(id / 64)] >> index(id % 64) & 1U) != 0;
      };
      while (!allowed(sampled.token) && tried++ < options_.vocab)
        sampled.token = (sampled.token + 1) % options_.vocab;
      sampled.invalid = !allowed(sampled.token);
    }
    if (is_invalid && is_invalid(context)) sampled.invalid = true;
    slot.tokens.push_back(sampled.token);
    result_.sampled.push_back(std::move(sampled));
  }

  Options options_;
  std::vector<Hash> pool_;           // [kv_blocks * block_size]
  std::vector<std::int32_t> table_;  // [max_num_seqs, max_blocks]
  std::vector<Slot> slots_;          // [max_num_seqs]
  StepResult result_;
};

}  // namespace tessera
