// The planning half of the scheduler: who runs, with how many tokens, in which blocks.
#include <algorithm>
#include <tuple>
#include <utility>

#include "base/check.h"
#include "engine/scheduler.h"

namespace tessera {
namespace {

// An output without a stated length is taken to have this many tokens while no experience says otherwise:
// longer than nearly all, yet a small part of a pool that is worth having.
constexpr std::int32_t kAssumedOutput = 16384;

bool is_within(const Sequence& sequence, std::int32_t longest) {
  return longest <= 0 || sequence.size() <= longest;
}

}  // namespace

const StepPlan& Scheduler::plan_step(Clock::time_point now, const DraftPolicy& drafts) {
  TS_CHECK(flying_ < kMostFlying, flying_);
  begin_deliveries();
  budget_ = options_.max_num_batched_tokens;
  gathered_ = 0;
  preempted_in_step_ = false;
  needs_blocks_ = false;
  const DraftPolicy before = std::exchange(policy_, drafts);
  plan_decodes();
  plan_prefills();
  if (!preempted_in_step_ && !needs_blocks_) admit_waiting(now);
  const bool is_idle = budget_ == options_.max_num_batched_tokens;
  if (is_idle && !running_.empty() && flying_ == 0) break_deadlock();
  if (budget_ == options_.max_num_batched_tokens) {
    policy_ = before;
    return no_work_;  // retired slots wait for the next plan
  }
  flights_[flying_].verifying = before.drafts;
  write_plan();
  take_off();
  return writer_.plan();
}

bool Scheduler::may_plan_ahead() {
  if (flying_ == 0) return true;
  if (flying_ == kMostFlying) return false;
  const auto waits = [&](std::int64_t& counter) {
    ++counter;
    return false;
  };
  if (needs_blocks_) return waits(counters_.awaited_blocks);
  const Flight& flight = flights_[0];
  const bool needs_token =
      flight.has_constraint && std::ranges::any_of(flight.sequences, [](const Sequence* sequence) {
        return sequence != nullptr && sequence->sampling.constraint && sequence->flying_tokens > 0;
      });
  return needs_token ? waits(counters_.awaited_constraint) : true;
}

DecodeLoad Scheduler::decode_load(std::int32_t longest_sequence) const {
  DecodeLoad load{.sequences = decoding(), .draftable = 0, .context = 0};
  for (const auto& rows : decoding_) {
    for (const Sequence* sequence : rows) {
      load.context += sequence->size();
      if (is_within(*sequence, longest_sequence)) ++load.draftable;
    }
  }
  return load;
}

void Scheduler::plan_decodes() {
  // One token is certain for each; what the budget leaves beyond these may go to drafts.
  std::int32_t spare = budget_ - decoding();
  for (std::size_t i = 0; i < running_.size();) {
    Sequence& sequence = *running_[i];
    if (sequence.decode_row < 0) {
      ++i;
      continue;
    }
    if (sequence.certain_remaining() == 0) {  // the step under way brings its last token
      ++i;
      continue;
    }
    const std::int32_t first = sequence.next_row();
    if (!grow(sequence, std::min(first + sequence.flying_drafts + 1, sequence.last_row()))) {
      if (flying_ > 0) {
        needs_blocks_ = true;
        ++i;
        continue;
      }
      // The cheapest victim leaves; when it ranks before us, our index moves down with the vector.
      Sequence& victim = *cheapest_victim(nullptr);
      if (&victim != &sequence && RanksBefore{}(&victim, &sequence)) --i;
      preempt(victim);
      continue;
    }
    sequence.planned = 1;
    sequence.places = std::min(sequence.flying_drafts + 1, sequence.last_row() - first);
    --budget_;
    if (options_.most_drafts > 0) plan_drafts(sequence, spare);
    ++i;
  }
}

// The drafts that wait are verified as far as budget, pool and max_tokens allow. Nobody is preempted or
// sharded for them.
void Scheduler::plan_drafts(Sequence& sequence, std::int32_t& spare) {
  const std::int32_t first = sequence.next_row();
  std::int32_t drafts = std::min({sequence.drafts, spare, sequence.last_row() - first - 1});
  if (drafts > 0) {
    grow_if_free(sequence, std::min(first + sequence.places + drafts, sequence.last_row()));
    const std::int32_t room = std::min(sequence.blocks.size() * options_.block_size, sequence.last_row());
    drafts = std::min(drafts, room - first - 1);
    sequence.places = std::min(sequence.places + drafts, room - first);
    sequence.planned += drafts;
    budget_ -= drafts;
    spare -= drafts;
  }
  want_drafts(sequence, first + sequence.places);
}

// After a step whose rows end before row `rows`.
void Scheduler::want_drafts(Sequence& sequence, std::int32_t rows) {
  sequence.drafts_wanted = 0;
  if (policy_.drafts == 0) return;
  if (!is_within(sequence, policy_.longest_sequence)) return;
  // After this step at least one token less remains, and the last one needs no draft.
  sequence.drafts_wanted = std::clamp(sequence.certain_remaining() - 2, 0, policy_.drafts);
  if (sequence.drafts_wanted == 0) return;
  grow_if_free(sequence, rows + 1 + options_.draft_lookahead);
}

void Scheduler::grow_if_free(Sequence& sequence, std::int32_t rows) {
  const std::int32_t missing =
      kv_.blocks_for(std::min(rows, options_.max_model_len)) - sequence.blocks.size();
  if (missing > 0) kv_.grow(sequence.blocks, missing);
}

void Scheduler::plan_prefills() {
  for (std::size_t i = 0; i < running_.size() && budget_ > 0; ++i) {
    Sequence& sequence = *running_[i];
    if (sequence.decode_row >= 0) continue;
    if (sequence.next_row() == sequence.size()) continue;  // the step under way has its last row
    while (affordable_rows(sequence) <= sequence.next_row()) {
      // A prefill waits for blocks rather than throw away work of its own priority.
      Sequence* victim = cheapest_victim(&sequence);
      if (victim == nullptr || victim->priority <= sequence.priority) break;
      if (flying_ > 0) {
        needs_blocks_ = true;
        break;
      }
      preempt(*victim);
    }
    plan_chunk(sequence);
  }
}

// Nothing could be planned: prefills fill the pool together and all need more. The first goes on, others
// yield.
void Scheduler::break_deadlock() {
  Sequence& first = *running_.front();
  while (affordable_rows(first) <= first.computed) {
    Sequence* victim = cheapest_victim(&first);
    TS_CHECK(victim != nullptr, first.id.value, first.blocks.size(), kv_.free_blocks());
    preempt(*victim);
  }
  plan_chunk(first);
}

// Rows that the sequence's blocks and all free ones could hold.
std::int32_t Scheduler::affordable_rows(const Sequence& sequence) const {
  const std::int64_t blocks = std::int64_t{sequence.blocks.size()} + kv_.free_blocks();
  return static_cast<std::int32_t>(std::min<std::int64_t>(blocks * options_.block_size, sequence.size()));
}

// As much of the prompt as budget and pool allow, which may be nothing.
void Scheduler::plan_chunk(Sequence& sequence) {
  const std::int32_t first = sequence.next_row();
  if (!may_gather(sequence)) return;
  std::int32_t end = std::min(affordable_rows(sequence), first + std::min(budget_, sequence.size() - first));
  if (options_.aligned_chunks && end < sequence.size()) {
    const std::int32_t aligned = end / options_.block_size * options_.block_size;
    if (aligned > first) end = aligned;
  }
  if (end <= first) return;
  TS_CHECK(grow(sequence, end), end, kv_.free_blocks());
  if (!may_gather(sequence)) return;  // growing has sharded it
  sequence.planned = end - first;
  sequence.places = sequence.planned;
  sequence.drafts_wanted = 0;
  if (end == sequence.size() && options_.most_drafts > 0) want_drafts(sequence, end);
  budget_ -= sequence.planned;
  gathered_ += blocks_to_gather(sequence);
}

// A step gathers at most the rows of one longest sequence, which bounds its memory and its time.
bool Scheduler::may_gather(const Sequence& sequence) const {
  return gathered_ == 0 || gathered_ + blocks_to_gather(sequence) <= writer_.plan().max_blocks;
}

// Blocks of earlier rows that the ranks must exchange to prefill the sequence's next chunk.
std::int32_t Scheduler::blocks_to_gather(const Sequence& sequence) const {
  const bool is_sharded = sequence.blocks.spread == Spread::kSharded;
  return is_sharded && sequence.decode_row < 0 ? kv_.blocks_for(sequence.next_row()) : 0;
}

void Scheduler::admit_waiting(Clock::time_point now) {
  if (running_.empty()) admission_may_succeed_ = true;
  while (admission_may_succeed_ && !waiting_.empty() && budget_ > 0 &&
         static_cast<std::int32_t>(running_.size()) < most_running_) {
    if (!admit(**waiting_.begin(), now)) break;
  }
}

bool Scheduler::admit(Sequence& sequence, Clock::time_point now) {
  // Reserved to the end, so that growing never allocates.
  const std::int32_t end = sequence.prompt_size + sequence.sampling.max_tokens;
  sequence.tokens.reserve(static_cast<std::size_t>(end));
  kv_.reserve(sequence.blocks, kv_.blocks_for(end));
  sequence.hashes.reserve(static_cast<std::size_t>(kv_.blocks_for(end)));
  if (sequence.sampling.constraint)
    sequence.draft_tokens.reserve(static_cast<std::size_t>(options_.most_drafts));

  // The last token must be computed for its logits, and with prompt logprobs every token whose successor's
  // logprob has not been handed out.
  std::int32_t findable = sequence.size() - 1;
  if (sequence.wants_prompt_logprobs()) findable = std::min(findable, sequence.prompt_logprobs_given);
  const auto chain =
      std::span(sequence.hashes)
          .first(std::min(sequence.hashes.size(), static_cast<std::size_t>(findable / options_.block_size)));
  const KvCache::Hit hit = kv_.find(chain);
  if (is_being_computed(chain, hit.blocks)) return false;  // asked again in the next step
  admission_may_succeed_ = fits(sequence, hit);
  if (!admission_may_succeed_) return false;

  const bool is_replicated = !is_to_be_sharded(sequence.size()) && hit.everywhere == hit.blocks &&
                             kv_.has_room_everywhere(kv_.blocks_for(sequence.size()) - hit.in_use);
  sequence.blocks.spread = is_replicated || kv_.ranks() == 1 ? Spread::kReplicated : Spread::kSharded;
  kv_.share(chain.first(static_cast<std::size_t>(hit.blocks)), sequence.blocks);
  sequence.computed = hit.blocks * options_.block_size;
  sequence.remembered = hit.blocks;
  sequence.slot = free_slots_.back();
  free_slots_.pop_back();
  sequence.residence = ++residences_;
  if (!sequence.was_scheduled) {
    sequence.was_scheduled = true;
    sequence.times.scheduled = now;
    sequence.cached_tokens = sequence.computed;
    if (options_.prefix_caching) {
      counters_.prefix_queries += sequence.prompt_size;
      counters_.prefix_hits += sequence.computed;
    }
  }
  waiting_.erase(waiting_.begin());
  running_.insert(std::ranges::upper_bound(running_, &sequence, RanksBefore{}), &sequence);
  plan_chunk(sequence);
  return true;
}

bool Scheduler::is_being_computed(std::span<const BlockHash> chain, std::int32_t block) const {
  const auto at = static_cast<std::size_t>(block);
  if (at >= chain.size()) return false;
  return std::ranges::any_of(running_, [&](const Sequence* other) {
    return other->remembered <= block && other->hashes.size() > at && other->hashes[at] == chain[at];
  });
}

bool Scheduler::fits(const Sequence& sequence, const KvCache::Hit& hit) {
  if (running_.empty()) return true;  // checked on submission; every block is free
  if (kv_.free_blocks() <= hit.blocks - hit.in_use) return false;

  std::int32_t strictness = sequence.preemptions;
  for (const Sequence* other : running_) strictness = std::max(strictness, other->preemptions);
  if (!options_.forecast_admission && strictness < 2) return true;
  forecast_.holdings.clear();
  forecast_.block_size = options_.block_size;
  std::int32_t exclusive = 0;
  for (const Sequence* other : running_) {
    const std::int32_t own = kv_.exclusive(other->blocks);
    exclusive += own;
    forecast_.holdings.push_back({.tokens = other->size(),
                                  .remaining = likely_remaining(*other, strictness),
                                  .shared_blocks = other->blocks.size() - own});
  }
  forecast_.holdings.push_back({.tokens = sequence.size(),
                                .remaining = likely_remaining(sequence, strictness),
                                .shared_blocks = hit.in_use});
  // What one sequence held alone and the newcomer shares would stay when the other leaves first.
  forecast_.permanent = std::max(kv_.used_blocks() - exclusive, 0) + hit.held_once;
  const std::int64_t blocks = strictness >= 2 ? forecast_.reserved_blocks() : forecast_.peak_blocks();
  return blocks <= kv_.blocks();
}

// strictness: 0 what is likely, 1 the longest seen, 2 all that was asked for.
std::int32_t Scheduler::likely_remaining(const Sequence& sequence, std::int32_t strictness) const {
  const std::int32_t most = sequence.remaining();
  if (strictness >= 2 || most <= 0 || sequence.stop_tokens.empty()) return most;
  const std::int32_t generated = sequence.generated();
  const std::int32_t least = std::clamp(sequence.sampling.min_tokens - generated, 0, most);
  const auto judge = [&](const OutputLengths& seen, std::int32_t so_far) {
    return strictness == 0 ? seen.likely_remaining(so_far) : seen.longest_remaining(so_far);
  };
  if (!sequence.is_open_ended) {
    const std::int64_t asked = sequence.sampling.max_tokens;
    const auto share = judge(shares_, static_cast<std::int32_t>(generated * kWholeShare / asked));
    if (!share) return most;
    return static_cast<std::int32_t>(std::clamp<std::int64_t>(*share * asked / kWholeShare + 1, least, most));
  }
  if (const auto seen = judge(lengths_, generated)) return std::clamp(*seen, least, most);
  if (strictness > 0) return most;
  return std::clamp(std::max(kAssumedOutput - generated, generated), least, most);
}

bool Scheduler::grow(Sequence& sequence, std::int32_t rows) {
  if (sequence.blocks.spread == Spread::kReplicated && is_to_be_sharded(rows)) shard(sequence);
  const std::int32_t missing = kv_.blocks_for(rows) - sequence.blocks.size();
  if (missing <= 0) return true;
  while (!kv_.grow(sequence.blocks, missing)) {
    if (!shard_largest()) return false;
  }
  return true;
}

// False: no sequence is left to be sharded.
bool Scheduler::shard_largest() {
  if (kv_.ranks() == 1) return false;
  Sequence* largest = nullptr;
  for (Sequence* sequence : running_) {
    if (sequence->blocks.spread == Spread::kSharded) continue;
    if (largest == nullptr || sequence->blocks.size() > largest->blocks.size()) largest = sequence;
  }
  if (largest != nullptr) shard(*largest);
  return largest != nullptr;
}

void Scheduler::shard(Sequence& sequence) {
  const bool decodes = sequence.decode_row >= 0;
  if (decodes) stop_decoding(sequence);
  kv_.shard(sequence.blocks);
  if (decodes) start_decoding(sequence);
  ++counters_.sharded;
  if (decodes || sequence.planned == 0) return;
  if (may_gather(sequence)) {
    gathered_ += blocks_to_gather(sequence);
  } else {  // its chunk waits for the next step
    budget_ += sequence.planned;
    sequence.planned = 0;
  }
}

// Worst priority; of these one that was not preempted before; of these the one with the fewest rows that
// nobody else holds, since those are what must be computed again; of these the last to arrive.
Sequence* Scheduler::cheapest_victim(const Sequence* spared) const {
  const auto cost = [&](const Sequence& s) {
    return std::tuple(-std::int64_t{s.priority}, s.preemptions, kv_.exclusive(s.blocks), ~s.id.value);
  };
  Sequence* cheapest = nullptr;
  for (Sequence* sequence : running_) {
    if (sequence == spared) continue;
    if (cheapest == nullptr || cost(*sequence) < cost(*cheapest)) cheapest = sequence;
  }
  return cheapest;
}

void Scheduler::preempt(Sequence& sequence) {
  budget_ += sequence.planned;
  if (sequence.planned > 0) gathered_ -= blocks_to_gather(sequence);
  sequence.planned = 0;
  sequence.drafts = 0;
  sequence.drafts_known = true;
  sequence.drafts_refused = 0;
  sequence.most_computed = std::max(sequence.most_computed, sequence.computed);
  leave_running(sequence);
  sequence.computed = 0;
  sequence.remembered = 0;
  ++sequence.preemptions;
  ++counters_.preemptions;
  waiting_.insert(&sequence);
  preempted_in_step_ = true;
}

void Scheduler::leave_running(Sequence& sequence) {
  if (sequence.decode_row >= 0) stop_decoding(sequence);
  kv_.give_back(sequence.blocks);
  for (Flight& flight : flights_) std::ranges::replace(flight.sequences, &sequence, nullptr);
  sequence.flying_rows = sequence.flying_drafts = sequence.flying_tokens = 0;
  if (sequence.is_started) retired_.push_back(sequence.slot);
  sequence.is_started = false;
  free_slots_.push_back(sequence.slot);
  sequence.slot = -1;
  running_.erase(std::ranges::lower_bound(running_, &sequence, RanksBefore{}));
  admission_may_succeed_ = true;
}

// Rows of decoding sequences stay where they are, so that their block tables need no rewriting; the last one
// fills the gap of one that leaves.
void Scheduler::start_decoding(Sequence& sequence) {
  auto& rows = decoding_like(sequence);
  sequence.decode_row = static_cast<std::int32_t>(rows.size());
  rows.push_back(&sequence);
}

void Scheduler::stop_decoding(Sequence& sequence) {
  auto& rows = decoding_like(sequence);
  const auto row = static_cast<std::size_t>(sequence.decode_row);
  rows[row] = rows.back();
  rows[row]->decode_row = sequence.decode_row;
  rows.pop_back();
  sequence.decode_row = -1;
}

void Scheduler::write_plan() {
  planned_.clear();
  writer_.begin(retired_);
  const auto add = [&](Sequence& sequence) {
    if (!sequence.is_started) writer_.start(sequence);
    sequence.is_started = true;
    writer_.add(sequence);
    planned_.push_back(&sequence);
  };
  for (const auto& rows : decoding_) {
    for (Sequence* sequence : rows) {
      if (sequence->planned > 0) add(*sequence);
    }
  }
  for (const Spread spread : {Spread::kReplicated, Spread::kSharded}) {
    for (Sequence* sequence : running_) {
      if (sequence->decode_row < 0 && sequence->planned > 0 && sequence->blocks.spread == spread)
        add(*sequence);
    }
  }
}

// The plan's rows fly from now on: the next plan counts on them.
void Scheduler::take_off() {
  const StepPlan& plan = writer_.plan();
  Flight& flight = flights_[flying_++];
  flight.plan = &plan;
  std::swap(flight.sequences, planned_);
  flight.has_constraint = false;
  for (std::size_t i = 0; i < plan.work.size(); ++i) {
    const SequenceWork& work = plan.work[i];
    Sequence& sequence = *flight.sequences[i];
    sequence.flying_step = plan.step;
    sequence.flying_rows = work.is_decode ? 1 : work.count;
    sequence.flying_drafts = work.is_decode ? sequence.planned - 1 : 0;
    sequence.flying_tokens = work.samples ? 1 : 0;
    sequence.drafts = work.samples ? sequence.drafts_wanted : 0;
    sequence.drafts_known = sequence.drafts == 0;
    sequence.draft_tokens.clear();
    sequence.planned = 0;
    if (work.samples && sequence.sampling.constraint) flight.has_constraint = true;
    if (work.samples && !work.is_decode) start_decoding(sequence);
  }
}

}  // namespace tessera
