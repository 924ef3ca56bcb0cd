// The other half of the scheduler: what comes in, what a step's results change, what goes out.
#include "engine/scheduler.h"

#include <algorithm>
#include <exception>
#include <string>
#include <utility>

#include "base/check.h"
#include "speculative/speculative_config.h"

namespace tessera {
namespace {

Result<void> at_least_one(const char* name, std::int32_t value) {
  if (value >= 1) return {};
  return Error{ErrorKind::kInvalidArgument, name,
               std::string(name) + " is " + std::to_string(value) + ", but must be at least 1."};
}

}  // namespace

Result<void> SchedulerOptions::validate() const {
  TS_TRY(at_least_one("max-num-seqs", max_num_seqs));
  TS_TRY(at_least_one("max-num-batched-tokens", max_num_batched_tokens));
  TS_TRY(at_least_one("max-model-len", max_model_len));
  TS_TRY(at_least_one("block-size", block_size));
  TS_TRY(at_least_one("the number of KV blocks", kv_blocks));
  TS_TRY(at_least_one("decode-context-parallel-size", dcp_ranks));
  TS_CHECK(most_drafts >= 0 && most_drafts <= kMostSpeculativeTokens, most_drafts);
  TS_TRY(at_least_one("the vocabulary", vocab));
  return {};
}

SequenceLimits sequence_limits(const SchedulerOptions& options, std::vector<std::int32_t> end_tokens) {
  return {.vocab = options.vocab,
          .max_model_len = options.max_model_len,
          .block_size = options.block_size,
          .kv_blocks = options.kv_blocks * options.dcp_ranks,
          .prefix_caching = options.prefix_caching,
          .end_tokens = std::move(end_tokens),
          .hash_key = options.hash_key};
}

Scheduler::Scheduler(const SchedulerOptions& options)
    : options_(options),
      // So that decodes alone never exceed the budget, and a prefill among them always gets a token.
      most_running_(std::min(options.max_num_seqs, options.max_num_batched_tokens)),
      kv_(options.dcp_ranks, options.kv_blocks, options.block_size, options.hash_key),
      writer_({.max_num_seqs = options.max_num_seqs,
               .max_num_batched_tokens = options.max_num_batched_tokens,
               .max_blocks = kv_.blocks_for(options.max_model_len),
               .most_drafts = options.most_drafts,
               .shared_table = options.shared_table,
               .vocab = options.vocab},
              kv_) {
  const auto seqs = static_cast<std::size_t>(options.max_num_seqs);
  running_.reserve(seqs);
  for (auto& rows : decoding_) rows.reserve(seqs);
  planned_.reserve(seqs);
  for (Flight& flight : flights_) flight.sequences.reserve(seqs);
  deliveries_.resize(seqs);
  allowed_.resize((static_cast<std::size_t>(options.vocab) + 63) / 64);
  counters_.speculation.accepted_at.assign(static_cast<std::size_t>(options.most_drafts), 0);
  counters_.speculation.verified_at.assign(static_cast<std::size_t>(options.most_drafts), 0);
  verified_.accepted_at.assign(static_cast<std::size_t>(options.most_drafts), 0);
  for (std::int32_t slot = options.max_num_seqs; slot-- > 0;) free_slots_.push_back(slot);
}

void Scheduler::add(std::unique_ptr<Sequence> sequence) {
  Sequence& added = *sequence;
  const bool is_new = sequences_.emplace(added.id.value, std::move(sequence)).second;
  TS_CHECK(is_new, added.id.value);
  waiting_.insert(&added);
  if (*waiting_.begin() == &added) admission_may_succeed_ = true;
}

std::span<const Delivery> Scheduler::cancel(RequestId id) {
  begin_deliveries();
  const auto found = sequences_.find(id.value);
  if (found != sequences_.end()) {
    Sequence& sequence = *found->second;
    finish(sequence, FinishReason::kAbort, deliver(sequence));
  }
  return deliveries();
}

template <class End>
std::span<const Delivery> Scheduler::end_all(const End& end) {
  begin_deliveries();
  while (!sequences_.empty()) {
    Sequence& sequence = *sequences_.begin()->second;
    end(sequence, deliver(sequence));
  }
  return deliveries();
}

std::span<const Delivery> Scheduler::cancel_all() {
  return end_all([&](Sequence& s, RequestOutput& output) { finish(s, FinishReason::kAbort, output); });
}

std::span<const Delivery> Scheduler::fail_all(const Error& error) {
  return end_all([&](Sequence& s, RequestOutput& output) {
    output.error = error;
    finish(s, FinishReason::kError, output);
  });
}

std::span<const Delivery> Scheduler::apply(StepResult& result, Clock::time_point now) {
  TS_CHECK(flying_ > 0);
  std::swap(flights_[0], flights_[1]);  // what is applied lies in the second place until the next is planned
  --flying_;
  Flight& flight = flights_[1];
  const StepPlan& plan = *flight.plan;
  verifying_ = flight.verifying;
  begin_deliveries();
  std::span<SampledToken> sampled(result.sampled);
  std::size_t next_sampling = 0;
  std::size_t next_logprob = 0;
  verified_.is_pure_decode = std::ranges::all_of(plan.work, &SequenceWork::is_decode);
  verified_.sequences = 0;
  std::ranges::fill(verified_.accepted_at, 0);
  for (std::size_t i = 0; i < plan.work.size(); ++i) {
    const SequenceWork& work = plan.work[i];
    if (flight.sequences[i] == nullptr) {
      drop_results(work, plan, result, next_sampling, next_logprob, sampled);
      continue;
    }
    Sequence& sequence = *flight.sequences[i];
    const bool flies_on = sequence.flying_step != plan.step;  // in the plan behind this one
    if (!flies_on) sequence.flying_rows = sequence.flying_drafts = sequence.flying_tokens = 0;
    if (!work.is_decode) advance(sequence, work.count);
    const bool has_logprobs = work.prompt_logprobs >= 0;
    if (!has_logprobs && !work.samples && sequence.computed < sequence.size()) continue;
    RequestOutput& output = deliver(sequence);
    if (has_logprobs) {
      take_prompt_logprobs(work, plan, result, next_logprob, output);
      sequence.prompt_logprobs_given += static_cast<std::int32_t>(output.prompt_logprobs.size());
    }
    if (work.samples) {
      TS_CHECK(next_sampling < result.gained.size(), next_sampling, result.gained.size());
      const std::int32_t gained = result.gained[next_sampling];
      const std::int32_t rows = result.rows[next_sampling];
      TS_CHECK(gained >= 1 && gained <= rows && rows <= (work.is_decode ? work.count : 1), gained, rows,
               work.count);
      TS_CHECK(static_cast<std::size_t>(gained) <= sampled.size(), gained, sampled.size());
      ++next_sampling;
      const auto tokens = sampled.first(static_cast<std::size_t>(gained));
      sampled = sampled.subspan(static_cast<std::size_t>(gained));
      take_tokens(sequence, work, tokens, rows, output, now);
    } else if (sequence.computed == sequence.size()) {
      finish(sequence, FinishReason::kLength, output);  // max_tokens is 0: the prompt was all
    }
  }
  TS_CHECK(sampled.empty() && next_sampling == result.gained.size(), sampled.size(), result.gained.size());
  TS_CHECK(next_logprob == result.prompt_logprobs.size(), next_logprob, result.prompt_logprobs.size());
  return deliveries();
}

bool Scheduler::awaits_drafts() const {
  const Flight& flight = flights_[1];
  return flying_ == 0 && flight.has_constraint &&
         std::ranges::any_of(flight.sequences, [](const Sequence* sequence) {
           return sequence != nullptr && sequence->sampling.constraint && !sequence->drafts_known;
         });
}

void Scheduler::take_drafts(const StepResult& result) {
  const Flight& flight = flights_[1];
  std::span<const std::int32_t> tokens(result.draft_tokens);
  std::size_t next = 0;
  for (std::size_t i = 0; i < flight.plan->work.size(); ++i) {
    if (!flight.plan->work[i].samples) continue;
    TS_CHECK(next < result.drafted.size(), next, result.drafted.size());
    const auto drafts = tokens.first(static_cast<std::size_t>(result.drafted[next++]));
    tokens = tokens.subspan(drafts.size());
    Sequence* sequence = flight.sequences[i];
    if (sequence == nullptr || sequence->flying_step != flight.plan->step) continue;  // left, or flies on
    sequence->drafts = static_cast<std::int32_t>(drafts.size());
    sequence->drafts_known = true;
    if (sequence->sampling.constraint) refuse_drafts(*sequence, drafts);
  }
}

// A draft that the grammar does not allow cannot stand, nor can those behind it.
void Scheduler::refuse_drafts(Sequence& sequence, std::span<const std::int32_t> drafts) {
  TokenConstraint& grammar = *sequence.sampling.constraint;
  sequence.draft_tokens.clear();
  try {
    for (const std::int32_t token : drafts) {
      std::ranges::fill(allowed_, 0);
      grammar.allowed(allowed_);
      if ((allowed_[static_cast<std::size_t>(token / 64)] >> static_cast<unsigned>(token % 64) & 1U) == 0)
        break;
      grammar.accept(token);
      sequence.draft_tokens.push_back(token);
    }
  } catch (const std::exception&) {
    // Thrown again where the grammar is asked for the token itself: that fails the request.
  }
  sequence.drafts = static_cast<std::int32_t>(sequence.draft_tokens.size());
  grammar.rollback(sequence.drafts);
  sequence.drafts_refused = static_cast<std::int32_t>(drafts.size()) - sequence.drafts;
  counters_.refused_drafts += sequence.drafts_refused;
}

// The sequence has left since the plan was made.
void Scheduler::drop_results(const SequenceWork& work, const StepPlan& plan, const StepResult& result,
                             std::size_t& next_sampling, std::size_t& next_logprob,
                             std::span<SampledToken>& sampled) {
  if (work.prompt_logprobs >= 0) {
    for (std::int32_t t = work.first_token; t < work.first_token + work.count; ++t)
      next_logprob += plan.next_tokens[static_cast<std::size_t>(t)] >= 0 ? 1 : 0;
  }
  if (work.samples) {
    sampled = sampled.subspan(static_cast<std::size_t>(result.gained[next_sampling]));
    counters_.computed_tokens += result.rows[next_sampling++];
  }
}

// What a step with drafts gives a sequence: each token before the last was a draft, and its row stands. The
// rows of drafts that fell are computed and worth nothing; the next step writes over them.
void Scheduler::take_tokens(Sequence& sequence, const SequenceWork& work, std::span<SampledToken> gained,
                            std::int32_t rows, RequestOutput& output, Clock::time_point now) {
  const auto accepted = static_cast<std::int32_t>(gained.size()) - 1;
  if (work.is_decode) {
    counters_.computed_tokens += rows - static_cast<std::int32_t>(gained.size());
    count_drafts(rows - 1, std::exchange(sequence.drafts_refused, 0), accepted);
  }
  for (SampledToken& token : gained) {
    if (work.is_decode) advance(sequence, 1);  // the row of the token before this one
    take_token(sequence, token, output, now);
    if (output.finished) break;
  }
  output.accepted_drafts = std::min(accepted, static_cast<std::int32_t>(output.tokens.size()));
}

void Scheduler::count_drafts(std::int32_t drafts, std::int32_t refused, std::int32_t accepted) {
  if (drafts + refused == 0) return;
  if (drafts > 0) {
    counters_.speculation.record(drafts, accepted);
    // N-grams, which have no cache, may well find nothing in a text; a model that guesses nothing does not
    // fit.
    if (options_.shared_table) {
      if (auto alarm = draft_alarm_.record(drafts, accepted)) draft_alarm_text_ = std::move(alarm);
    }
  }
  const bool is_full = drafts + refused == verifying_;  // what a grammar refused did not stand
  if (is_full) ++verified_.sequences;
  for (std::size_t i = 0; is_full && i < static_cast<std::size_t>(accepted); ++i) ++verified_.accepted_at[i];
}

// So many rows of known tokens are in the pool now.
void Scheduler::advance(Sequence& sequence, std::int32_t count) {
  counters_.computed_tokens += count;
  counters_.recomputed_tokens += std::clamp(sequence.most_computed - sequence.computed, 0, count);
  sequence.computed += count;
  extend_hashes(sequence, sequence.computed, options_.block_size, options_.hash_key);
  for (const std::int32_t full = sequence.computed / options_.block_size; sequence.remembered < full;
       ++sequence.remembered) {
    const auto at = static_cast<std::size_t>(sequence.remembered);
    kv_.remember(sequence.hashes[at], sequence.blocks.ids[at]);
  }
  if (sequence.computed >= sequence.prompt_size && !sequence.prefill_counted) {
    sequence.prefill_counted = true;
    counters_.prompt_tokens += sequence.prompt_size;
  }
}

void Scheduler::take_prompt_logprobs(const SequenceWork& work, const StepPlan& plan, StepResult& result,
                                     std::size_t& next, RequestOutput& output) {
  for (std::int32_t t = work.first_token; t < work.first_token + work.count; ++t) {
    if (plan.next_tokens[static_cast<std::size_t>(t)] < 0) continue;
    TS_CHECK(next < result.prompt_logprobs.size(), next, result.prompt_logprobs.size());
    output.prompt_logprobs.push_back(std::move(result.prompt_logprobs[next++]));
  }
}

void Scheduler::take_token(Sequence& sequence, SampledToken& sampled, RequestOutput& output,
                           Clock::time_point now) {
  const std::int32_t token = sampled.token;
  const auto fail = [&](std::string what) {
    output.error =
        Error{ErrorKind::kInternal, "request " + std::to_string(sequence.id.value), std::move(what)};
    finish(sequence, FinishReason::kError, output);
  };
  if (sampled.invalid)
    return fail("The logits of token " + std::to_string(sequence.size()) +
                " hold a NaN, or no token is allowed there; the request ends here.");
  if (token < 0 || token >= options_.vocab)
    return fail("The sampler gave token " + std::to_string(token) + ", but the vocabulary has " +
                std::to_string(options_.vocab) + ".");
  try {
    if (sequence.sampling.constraint) sequence.sampling.constraint->accept(token);
  } catch (const std::exception& failure) {
    return fail("The grammar refused token " + std::to_string(token) + ": " + failure.what());
  }
  sequence.tokens.push_back(token);
  if (sequence.generated() == 1) sequence.times.first_token = now;
  sequence.times.last_token = now;
  output.times = sequence.times;
  output.tokens.push_back(std::move(sampled));
  ++counters_.generation_tokens;

  // Up to min_tokens the runner bans what would stop, so a stop there can only be a token that was forced.
  if (sequence.generated() > sequence.sampling.min_tokens &&
      std::ranges::count(sequence.stop_tokens, token) > 0) {
    output.stop_token = token;
    finish(sequence, FinishReason::kStop, output);
  } else if (sequence.remaining() == 0) {
    finish(sequence, FinishReason::kLength, output);
  }
}

void Scheduler::finish(Sequence& sequence, FinishReason reason, RequestOutput& output) {
  output.finished = reason;
  if (reason == FinishReason::kAbort) {
    ++counters_.aborted;
  } else if (reason == FinishReason::kError) {
    ++counters_.failed;
  } else {
    ++counters_.finished;
    learn_length(sequence);
  }
  if (sequence.slot >= 0) {
    leave_running(sequence);
  } else {
    admission_may_succeed_ = true;
    waiting_.erase(&sequence);
  }
  auto node = sequences_.extract(sequence.id.value);
  ended_.push_back(std::move(node.mapped()));
}

void Scheduler::learn_length(const Sequence& sequence) {
  const std::int64_t asked = sequence.sampling.max_tokens;
  if (asked == 0 || sequence.stop_tokens.empty()) return;  // its length was known
  if (sequence.is_open_ended) {
    lengths_.add(sequence.generated());
  } else {
    shares_.add(static_cast<std::int32_t>(sequence.generated() * kWholeShare / asked));
  }
}

void Scheduler::begin_deliveries() {
  delivered_ = 0;
  ended_.clear();
}

RequestOutput& Scheduler::deliver(Sequence& sequence) {
  if (delivered_ == deliveries_.size()) deliveries_.emplace_back();
  Delivery& delivery = deliveries_[delivered_++];
  delivery.sequence = &sequence;
  RequestOutput& output = delivery.output;
  output.id = sequence.id;
  output.tokens.clear();
  output.prompt_logprobs.clear();
  output.accepted_drafts = 0;
  output.finished.reset();
  output.stop_token.reset();
  output.error.reset();
  output.cached_tokens = sequence.cached_tokens;
  output.preemptions = sequence.preemptions;
  output.times = sequence.times;
  return output;
}

void Scheduler::check_invariants() const {
  kv_.check_invariants();
  TS_CHECK(sequences_.size() == running_.size() + waiting_.size(), sequences_.size(), running_.size());
  TS_CHECK(std::ranges::is_sorted(running_, RanksBefore{}), running_.size());
  TS_CHECK(free_slots_.size() + running_.size() == static_cast<std::size_t>(options_.max_num_seqs),
           free_slots_.size(), running_.size());

  std::unordered_map<std::int32_t, std::int32_t> holders;  // block -> sequences
  std::set<std::int32_t> slots(free_slots_.begin(), free_slots_.end());
  std::size_t decoding = 0;
  const bool counts_hold = flying_ < kMostFlying;  // else they speak of the newest plan alone
  for (const Sequence* s : running_) {
    TS_CHECK(slots.insert(s->slot).second, s->slot);
    TS_CHECK(s->planned == 0 && s->next_row() <= s->certain_size(), s->planned, s->next_row());
    TS_CHECK(flying_ > 0 || (s->flying_rows == 0 && s->flying_tokens == 0), s->id.value, s->flying_rows);
    const std::int64_t room = std::int64_t{s->blocks.size()} * options_.block_size;
    TS_CHECK(s->next_row() <= room, s->next_row(), room);
    for (const BlockId block : s->blocks.ids) ++holders[block.value];
    if (s->decode_row < 0) continue;
    ++decoding;
    const auto& rows = decoding_[static_cast<std::size_t>(s->blocks.spread)];
    TS_CHECK(rows[static_cast<std::size_t>(s->decode_row)] == s, s->decode_row);
    TS_CHECK(!counts_hold || s->next_row() == s->certain_size() - 1, s->next_row(), s->certain_size());
  }
  TS_CHECK(decoding == decoding_[0].size() + decoding_[1].size(), decoding, decoding_[0].size());
  for (const Sequence* s : waiting_)
    TS_CHECK(s->blocks.ids.empty() && s->slot < 0 && s->decode_row < 0, s->id.value);
  TS_CHECK(holders.size() == static_cast<std::size_t>(kv_.used_blocks()), holders.size(), kv_.used_blocks());
  for (const auto& [block, count] : holders) TS_CHECK(kv_.references({block}) == count, block, count);
}

}  // namespace tessera
