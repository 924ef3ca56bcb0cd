// A runner for tests and benchmarks: no model, but for each rank a pool of rows and a block table of its own,
// kept like a device's.
//
// A row holds a hash of all tokens up to its own, chained through the row before it, which is found through
// the tables. A sampled token is a function of that hash. So a request gets the tokens it would get alone
// exactly when every row it ever reads was written by itself or by an equal prefix, and not overwritten
// since. Rows also know their positions, so that one can tell whether the ranks see each position of a
// sharded sequence exactly once.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <set>
#include <utility>
#include <vector>

#include "base/check.h"
#include "engine/request.h"
#include "engine/step_plan.h"
#include "engine/step_rows.h"

namespace tessera {

class FakeRunner final : public StepRunner {
 public:
  struct Options {
    std::int32_t max_num_seqs = 0;
    std::int32_t max_num_batched_tokens = 0;
    std::int32_t block_size = 0;
    std::int32_t kv_blocks = 0;  // on each rank
    std::int32_t dcp_ranks = 1;
    std::int32_t vocab = 0;
    bool shared_table = false;
    bool drafts_noise = false;  // every draft is wrong; else three of four are right
    bool verify = true;         // every row of every sequence in every step, and the plan's own promises
  };
  using Hash = std::uint64_t;

  explicit FakeRunner(const Options& options)
      : options_(options),
        ranks_(static_cast<std::size_t>(options.dcp_ranks)),
        resolvers_(ranks_.size(), RowResolver(options.max_num_batched_tokens, options.max_num_seqs)),
        rows_(ranks_.size()),
        slots_(static_cast<std::size_t>(options.max_num_seqs)) {
    if (options.shared_table)
      shared_.pool.resize(index(options.dcp_ranks) * index(options.kv_blocks) * index(options.block_size));
    for (Rank& rank : ranks_) rank.pool.resize(index(options.kv_blocks) * index(options.block_size));
  }

  // Called before each step, and before the drafts that it makes; may throw or wait.
  std::function<void(const StepPlan&)> before_step;
  std::function<void()> before_drafts;
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
    TS_CHECK(plan.views.size() == ranks_.size(), plan.views.size());
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      copy_table(plan, plan.views[r].block_table, plan.views[r].table_writes, ranks_[r].table);
    copy_table(plan, plan.shared_table, plan.shared_writes, shared_.table);
    if (options_.verify) check(plan);
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      rows_[r] = resolvers_[r].resolve(plan, static_cast<std::int32_t>(r), [this](std::int32_t slot) {
        return SlotStanding{
            .newest_position = static_cast<std::int32_t>(slots_[index(slot)].tokens.size()) - 1,
            .drafts = static_cast<std::int32_t>(slots_[index(slot)].drafts.size())};
      });
    }
    current_ = 1 - current_;
    result().clear();
    for (std::size_t i = 0; i < plan.work.size(); ++i) run(plan, plan.work[i], rows_.front().work[i]);
    if (listener_) listener_(result());
    if (before_drafts) before_drafts();
    make_drafts(plan);
    ++steps;
    return result();
  }
  void set_listener(Listener listener) override { listener_ = std::move(listener); }

  std::int64_t steps = 0;

 private:
  struct Slot {
    bool active = false;
    std::int32_t banned_until = 0;  // min_tokens
    std::int32_t prompt = 0;
    std::vector<std::int32_t> tokens;  // all that the host knows
    std::vector<std::int32_t> end_tokens;
    std::vector<std::int32_t> drafts = {};
    // Of the step under way: the contexts of the rows that stand, and the position of the first.
    std::vector<Hash> standing = {};
    std::int32_t first_standing = 0;
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
    slot.standing.reserve(32);
    slot.drafts.reserve(32);
    slot.tokens.reserve(start.prompt.size() + index(start.sampling.max_tokens) + 1);
  }

  struct Row {
    Hash hash = 0;
    std::int32_t position = -1;
  };
  struct Rank {
    std::vector<Row> pool;            // [kv_blocks * block_size]
    std::vector<std::int32_t> table;  // [table_rows, max_blocks]
  };

  static void copy_table(const StepPlan& plan, const std::vector<std::int32_t>& entries,
                         const std::vector<TableWrite>& writes, std::vector<std::int32_t>& table) {
    table.resize(entries.size(), -1);
    for (const TableWrite& write : writes) {
      const auto first = entries.begin() + std::int64_t{write.row} * plan.max_blocks + write.first;
      std::copy(first, first + write.count, table.begin() + (first - entries.begin()));
    }
  }

  // Where row `i` of a sequence lies in a rank's pool.
  std::size_t place(const StepPlan& plan, const Rank& rank, const SequenceWork& work, std::int32_t i) const {
    const std::int32_t block =
        rank.table[index(work.table_row) * index(plan.max_blocks) + index(i / options_.block_size)];
    const std::size_t at = index(block) * index(options_.block_size) + index(i % options_.block_size);
    TS_CHECK(block >= 0 && at < rank.pool.size(), block, work.table_row, i);
    return at;
  }
  std::size_t place(const StepPlan& plan, std::size_t r, const SequenceWork& work, std::int32_t i) const {
    return place(plan, ranks_[r], work, i);
  }

  void check(const StepPlan& plan) const {
    TS_CHECK(!plan.work.empty() && plan.work.size() <= index(options_.max_num_seqs), plan.work.size());
    std::int32_t rows = 0;
    for (const SequenceWork& work : plan.work) rows += work.open_rows > 0 ? work.open_rows : work.count;
    TS_CHECK(rows > 0 && rows <= options_.max_num_batched_tokens, rows);
    TS_CHECK(plan.positions.size() == plan.tokens.size() && plan.next_tokens.size() == plan.tokens.size(),
             plan.tokens.size());
    TS_CHECK(plan.context_owners.size() <= index(plan.max_blocks), plan.context_owners.size());
    std::vector<std::set<std::int64_t>> written(ranks_.size());
    std::set<std::int32_t> seen;
    std::int32_t token = 0;
    std::int32_t group = 0;  // replicated decodes, sharded decodes, replicated prefills, sharded prefills
    std::int32_t table_row = -1;
    for (const SequenceWork& work : plan.work) {
      TS_CHECK(slots_[index(work.slot)].active && seen.insert(work.slot).second, work.slot);
      TS_CHECK(work.first_token == token && work.count > 0, work.first_token, token, work.count);
      const std::int32_t own_group = (work.is_decode ? 0 : 2) + (work.is_sharded ? 1 : 0);
      TS_CHECK(own_group >= group && work.table_row < plan.table_rows, own_group, group, work.table_row);
      TS_CHECK(own_group > group || table_row < 0 || work.table_row == table_row + 1, work.table_row,
               table_row);
      group = own_group;
      table_row = work.table_row;
      for (std::size_t r = 0; r < ranks_.size(); ++r) {  // the delta describes the whole table
        for (std::int32_t i = 0; i < plan.max_blocks; ++i) {
          const std::size_t at = index(work.table_row) * index(plan.max_blocks) + index(i);
          TS_CHECK(ranks_[r].table[at] == plan.views[r].block_table[at], r, work.table_row, i);
        }
      }
      for (std::int32_t i = 0; i < work.count; ++i, ++token) {
        TS_CHECK(plan.positions[index(token)] == work.first_position + i, token, work.first_position, i);
        check_slots(plan, work, token, written);
      }
      check_owners(plan, work);
    }
  }

  void check_slots(const StepPlan& plan, const SequenceWork& work, std::int32_t token,
                   std::vector<std::set<std::int64_t>>& written) const {
    std::size_t homes = 0;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const std::int64_t slot = plan.views[r].slots[index(token)];
      const std::int32_t visible = plan.views[r].visible_rows[index(token)];
      if (!work.is_sharded) TS_CHECK(visible == plan.positions[index(token)] + 1, r, token, visible);
      if (slot < 0) continue;
      ++homes;
      TS_CHECK(slot == static_cast<std::int64_t>(place(plan, r, work, visible - 1)), r, token, slot, visible);
      TS_CHECK(written[r].insert(slot).second, r, slot);
    }
    TS_CHECK(homes == (work.is_sharded ? 1 : ranks_.size()), homes, token);
  }

  // The owners of a sharded prefill's earlier blocks are those that hold them.
  void check_owners(const StepPlan& plan, const SequenceWork& work) const {
    if (!work.is_sharded || work.is_decode) {
      TS_CHECK(work.context_owners < 0, work.context_owners);
      return;
    }
    std::vector<std::int32_t> next(ranks_.size(), 0);
    for (std::int32_t i = 0; i * options_.block_size < work.first_position; ++i) {
      const std::size_t r = plan.context_owners[index(work.context_owners + i)];
      const Row& row = ranks_[r].pool[place(plan, r, work, next[r]++ * options_.block_size)];
      TS_CHECK(row.position == i * options_.block_size, r, i, row.position);
    }
  }

  // What the sequence sees before its first token of this step, on the rank: its visible rows there.
  std::int32_t rows_before(std::size_t r, const SequenceWork& work) const {
    const StepRows& rows = rows_[r];
    return rows.visible_rows[index(work.first_token)] - (rows.slots[index(work.first_token)] >= 0 ? 1 : 0);
  }

  // The ranks together see each earlier position once, or each rank sees all, with the right content.
  void check_rows(const StepPlan& plan, const SequenceWork& work, const Slot& slot) const {
    std::vector<Hash> expected(1, 0);
    for (std::int32_t p = 0; p < work.first_position; ++p)
      expected.push_back(chain(expected.back(), slot.tokens[index(p)]));
    if (options_.shared_table) {
      for (std::int32_t p = 0; p < work.first_position; ++p) {
        const Row& row = shared_.pool[place(plan, shared_, work, p)];
        TS_CHECK(row.hash == expected[index(p) + 1], plan.step, work.slot, p);
      }
    }
    std::vector<std::size_t> seen(index(work.first_position), 0);
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      std::int32_t last = -1;
      for (std::int32_t i = 0; i < rows_before(r, work); ++i) {
        const Row& row = ranks_[r].pool[place(plan, r, work, i)];
        TS_CHECK(row.position > last && row.position < work.first_position, plan.step, r, i, row.position);
        TS_CHECK(row.hash == expected[index(row.position) + 1], plan.step, r, i, row.position);
        ++seen[index(row.position)];
        last = row.position;
      }
    }
    for (const std::size_t times : seen) TS_CHECK(times == (work.is_sharded ? 1 : ranks_.size()), times);
  }

  // The hash of all tokens before the first of this step.
  Hash context_before(const StepPlan& plan, const SequenceWork& work) const {
    if (work.first_position == 0) return 0;
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const std::int32_t here = rows_before(r, work);
      if (here == 0) continue;
      const Row& row = ranks_[r].pool[place(plan, r, work, here - 1)];
      if (row.position == work.first_position - 1) return row.hash;
    }
    TS_CHECK(false, plan.step, work.slot, work.first_position);
    return 0;
  }

  void run(const StepPlan& plan, const SequenceWork& planned, const SequenceWork& work) {
    Slot& slot = slots_[index(work.slot)];
    slot.standing.clear();
    if (planned.samples && !work.samples) {  // has ended
      TS_CHECK(planned.open_rows > 0, work.slot);
      result().gained.push_back(0);
      result().rows.push_back(0);
      return;
    }
    if (options_.verify) check_rows(plan, work, slot);
    const StepRows& rows = rows_.front();
    Hash context = context_before(plan, work);
    std::vector<Hash>& contexts = contexts_;
    contexts.clear();
    for (std::int32_t i = 0; i < work.count; ++i) {
      const std::size_t t = index(work.first_token + i);
      const std::size_t position = index(rows.positions[t]);
      const bool is_draft = position >= slot.tokens.size();
      const std::int32_t token = is_draft ? slot.drafts.at(index(i - 1)) : slot.tokens[position];
      const bool is_newest = position + 1 == slot.tokens.size();
      TS_CHECK(rows.tokens[t] == (is_draft ? -1 : token) || (is_newest && rows.tokens[t] == -1), plan.step,
               work.slot, rows.positions[t]);
      context = chain(context, token);
      contexts.push_back(context);
      for (std::size_t r = 0; r < ranks_.size(); ++r) {
        const std::int64_t at = rows_[r].slots[t];
        if (at >= 0)
          ranks_[r].pool[static_cast<std::size_t>(at)] = {.hash = context, .position = rows.positions[t]};
      }
      if (work.prompt_logprobs >= 0 && rows.next_tokens[t] >= 0) {
        SampledToken logprob;
        logprob.token = rows.next_tokens[t];
        logprob.logprob = logprob_of(context, rows.next_tokens[t]);
        logprob.top.resize(index(work.prompt_logprobs));
        result().prompt_logprobs.push_back(std::move(logprob));
      }
    }
    const std::int32_t standing = work.samples ? sample(plan, work, slot) : work.count;
    slot.standing.assign(contexts.begin(), contexts.begin() + standing);
    slot.first_standing = work.first_position;
  }

  // The tokens that a work gains. Returns how many of its rows stand.
  std::int32_t sample(const StepPlan& plan, const SequenceWork& work, Slot& slot) {
    const std::int32_t drafts = work.is_decode ? work.count - 1 : 0;
    std::int32_t gained = 0;
    for (bool stands = true; stands;) {
      const Hash context = contexts_[index(work.count - 1 - drafts + gained)];
      result().sampled.push_back(next_token(plan, work, slot, context, gained));
      const SampledToken& token = result().sampled.back();
      stands = gained < drafts && !token.invalid && token.token == slot.drafts[index(gained)];
      slot.tokens.push_back(token.token);
      ++gained;
    }
    slot.drafts.clear();
    result().gained.push_back(gained);
    result().rows.push_back(work.is_decode ? work.count : 1);
    return work.is_decode ? gained : work.count;
  }

  // The draft's own rows, and new drafts, some of them wrong. Reads the plan after the listener has heard of
  // the step's tokens, as a real draft does.
  void make_drafts(const StepPlan& plan) {
    for (const SequenceWork& work : plan.work) {
      Slot& slot = slots_[index(work.slot)];
      for (std::size_t i = 0; options_.shared_table && i < slot.standing.size(); ++i) {
        const std::int32_t position = slot.first_standing + static_cast<std::int32_t>(i);
        shared_.pool[place(plan, shared_, work, position)] = {.hash = slot.standing[i], .position = position};
      }
      if (!work.samples) continue;
      if (!slot.standing.empty()) draft(slot, work.drafts_wanted);
      result().drafted.push_back(static_cast<std::int32_t>(slot.drafts.size()));
      result().draft_tokens.insert(result().draft_tokens.end(), slot.drafts.begin(), slot.drafts.end());
    }
  }

  // As many as a hash says, if so many are wanted, each right with a probability of 3/4.
  void draft(Slot& slot, std::int32_t wanted) const {
    Hash context = chain(slot.standing.back(), slot.tokens.back());
    const auto guesses = std::min(wanted, static_cast<std::int32_t>((context >> 8U) % 8U));
    for (std::int32_t i = 0; i < guesses; ++i) {
      const std::int32_t right = token_after(context, options_.vocab);
      const bool is_wrong = options_.drafts_noise || (context >> 16U) % 4 == 0;
      slot.drafts.push_back(is_wrong ? (right + 1) % options_.vocab : right);
      context = chain(context, slot.drafts.back());
    }
  }

  StepResult& result() { return results_[current_]; }

  // row: of those with logits.
  SampledToken next_token(const StepPlan& plan, const SequenceWork& work, const Slot& slot, Hash context,
                          std::int32_t row) const {
    SampledToken sampled;
    sampled.token = token_after(context, options_.vocab);
    const auto generated = static_cast<std::int32_t>(slot.tokens.size()) - slot.prompt;
    while (generated < slot.banned_until && std::ranges::count(slot.end_tokens, sampled.token) > 0)
      sampled.token = (sampled.token + 1) % options_.vocab;
    if (work.allowed_mask >= 0) {
      const auto& mask = plan.allowed_masks[index(work.allowed_mask + row)];
      std::int32_t tried = 0;
      const auto allowed = [&](std::int32_t id) {
        return (mask[index(id / 64)] >> index(id % 64) & 1U) != 0;
      };
      while (!allowed(sampled.token) && tried++ < options_.vocab)
        sampled.token = (sampled.token + 1) % options_.vocab;
      sampled.invalid = !allowed(sampled.token);
    }
    if (is_invalid && is_invalid(context)) sampled.invalid = true;
    return sampled;
  }

  Options options_;
  std::vector<Rank> ranks_;
  Rank shared_;                         // what a draft keeps: rows of tokens that are certain
  std::vector<RowResolver> resolvers_;  // [ranks]
  std::vector<StepRows> rows_;          // [ranks] of the step under way
  std::vector<Slot> slots_;             // [max_num_seqs]
  std::vector<Hash> contexts_;
  Listener listener_;
  std::array<StepResult, 2> results_;  // of this step and the one before, which the listener may still read
  std::size_t current_ = 0;            // of results_
};

}  // namespace tessera
