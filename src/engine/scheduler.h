// Continuous batching: decides in each step which tokens of which sequences run and where their keys go. The
// only owner of request state and of KV blocks. Single-threaded; knows no device and no clock.
//
// A step is: plan_step(), run the plan, apply(). The next one may be planned before the result of this one is
// known: it counts on what is certain, reserves room for what may come on top, and leaves to the runner where
// between these a sequence goes on (step_rows.h). A sequence that turns out to have ended takes part in one
// step too many, whose tokens are dropped. Nobody is preempted while a step is under way, and a grammar wants
// to know the token before and the drafts: then may_plan_ahead() says no, and the result comes first.
//
// Decoding sequences come first, one token each; what the
// budget of query tokens leaves goes to prefills in order of rank, then to newcomers. A newcomer is let in
// when the pool can hold everybody to the end, as far as one can tell (admission.h), and nobody overtakes one
// of better rank. One whose next block a running prefill is about to make waits for it, so that equal prompts
// are computed once.
//
// A short sequence is replicated over the ranks of a decode context parallel group, a long one sharded
// (block_pool.h). When the pool is short of room, replicated sequences are sharded, the largest first: this
// moves no rows, only frees copies.
//
// When the pool is full nevertheless, the sequence that loses least returns to the queue. Its blocks stay
// findable until they are needed. What it may count on when it returns is stricter each time: the likely
// lengths of all, then the longest seen, then the reservation of every max_tokens, after which nothing can
// push it out: so no sequence is preempted more than twice.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/admission.h"
#include "engine/output_lengths.h"
#include "engine/plan_writer.h"
#include "engine/request.h"
#include "engine/sequence.h"
#include "engine/step_plan.h"
#include "kvcache/kv_cache.h"
#include "speculative/draft_health.h"

namespace tessera {

struct SchedulerOptions {
  std::int32_t max_num_seqs = 0;            // most sequences in a step
  std::int32_t max_num_batched_tokens = 0;  // most query tokens in a step
  std::int32_t max_model_len = 0;           // prompt + output
  std::int32_t block_size = 64;             // tokens
  std::int32_t kv_blocks = 0;               // on each rank
  std::int32_t dcp_ranks = 1;               // ranks that a sequence's blocks can be spread over
  // A sequence of more tokens is sharded; up to here it is replicated while the pool has room, which costs
  // memory and saves the exchange between ranks. 0: every sequence is sharded. Without meaning when dcp_ranks
  // is 1.
  std::int32_t replicate_up_to = 0;
  std::int32_t vocab = 0;
  std::int32_t most_drafts = 0;  // of a sequence in a step; 0: no speculation
  // Rows past the newest token that the runner needs in order to draft so many.
  std::int32_t draft_lookahead = 0;
  bool shared_table = false;  // the runner's drafts keep a cache of their own (StepPlan::shared_table)
  bool prefix_caching = true;
  bool aligned_chunks = false;  // end chunks of a prompt at block boundaries where the budget allows
  // Let newcomers in by forecast (admission.h); false: whatever fits at the moment, as a comparison.
  bool forecast_admission = true;
  HashKey hash_key;  // secret, drawn at start

  Result<void> validate() const;
};

// What requests are checked against before this scheduler sees them.
SequenceLimits sequence_limits(const SchedulerOptions& options, std::vector<std::int32_t> end_tokens);

struct SchedulerCounters {
  std::int64_t finished = 0;
  std::int64_t aborted = 0;
  std::int64_t failed = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t generation_tokens = 0;
  std::int64_t computed_tokens = 0;
  std::int64_t recomputed_tokens = 0;
  std::int64_t preemptions = 0;
  std::int64_t sharded = 0;  // sequences that went from replicated to sharded
  SpeculationCounters speculation = {};
  std::int64_t refused_drafts = 0;  // that a grammar does not allow, so that nothing verified them
  // Steps that were not planned ahead, because a grammar wanted the token before, or for want of blocks.
  std::int64_t awaited_constraint = 0;
  std::int64_t awaited_blocks = 0;
  std::int64_t prefix_queries = 0;
  std::int64_t prefix_hits = 0;
};

// News for one request's sink. Both live until the next call of the scheduler.
struct Delivery {
  Sequence* sequence = nullptr;
  RequestOutput output;
};

// Who drafts after a step, for the next one, and how far (speculative/gate.h decides).
struct DraftPolicy {
  std::int32_t drafts = 0;            // of each sequence, at most most_drafts
  std::int32_t longest_sequence = 0;  // sequences of more tokens do not draft; 0: no limit
};

// What the running decodes are like, for whoever decides about drafts.
struct DecodeLoad {
  std::int32_t sequences = 0;
  std::int32_t draftable = 0;  // of these, those that the policy lets draft
  std::int64_t context = 0;    // tokens that all of them attend to
};

class Scheduler {
 public:
  explicit Scheduler(const SchedulerOptions& options);  // validated

  void add(std::unique_ptr<Sequence> sequence);
  // Ends it between two steps. Nothing for an unknown or finished id.
  std::span<const Delivery> cancel(RequestId id);
  std::span<const Delivery> fail_all(const Error& error);
  std::span<const Delivery> cancel_all();

  // Drops the sequences that the last deliveries ended, and with them their sinks.
  void forget_ended() { begin_deliveries(); }

  bool has_work() const { return !sequences_.empty(); }
  // Plans that can be under way together.
  static constexpr std::size_t kMostFlying = 2;
  // Whether another step can be planned now; asked once before each plan_step() behind an unapplied one.
  bool may_plan_ahead();
  // The plan stands until it is applied. Without work it is nobody's to run or apply: there is none, or none
  // before the step under way is applied.
  const StepPlan& plan_step(Clock::time_point now, const DraftPolicy& drafts = {});
  // The result of the oldest plan that has not been applied.
  std::span<const Delivery> apply(StepResult& result, Clock::time_point now);
  // Which drafts wait for the next step, of the plan applied last: before anything else is planned. Grammars
  // want to know; without, it is enough to know how many may wait.
  void take_drafts(const StepResult& result);
  bool awaits_drafts() const;
  std::size_t flying() const { return flying_; }

  DecodeLoad decode_load(std::int32_t longest_sequence) const;
  // Sequences of the step applied last that verified as many drafts as the policy before had asked for, and
  // how many of these stood, by position.
  struct Verified {
    bool is_pure_decode = false;  // no prompt was in the step
    std::int32_t sequences = 0;
    std::vector<std::int32_t> accepted_at;  // [most_drafts]
  };
  const Verified& verified() const { return verified_; }
  // A sentence, once, when drafts turn out to be noise.
  std::optional<std::string> take_draft_alarm() { return std::exchange(draft_alarm_text_, std::nullopt); }

  std::int64_t running() const { return static_cast<std::int64_t>(running_.size()); }
  std::int64_t waiting() const { return static_cast<std::int64_t>(waiting_.size()); }
  const SchedulerCounters& counters() const { return counters_; }
  const KvCache& kv() const { return kv_; }
  const SchedulerOptions& options() const { return options_; }

  // Aborts on a contradiction between sequences, rows, slots and blocks. O(everything), for tests.
  void check_invariants() const;

 private:
  // --- planning
  void plan_decodes();
  void plan_drafts(Sequence& sequence, std::int32_t& spare);
  void want_drafts(Sequence& sequence, std::int32_t rows);
  void grow_if_free(Sequence& sequence, std::int32_t rows);
  std::int32_t decoding() const {
    return static_cast<std::int32_t>(decoding_[0].size() + decoding_[1].size());
  }
  void plan_prefills();
  void admit_waiting(Clock::time_point now);
  bool admit(Sequence& sequence, Clock::time_point now);
  bool fits(const Sequence& sequence, const KvCache::Hit& hit);
  bool is_being_computed(std::span<const BlockHash> chain, std::int32_t block) const;
  void plan_chunk(Sequence& sequence);
  std::int32_t blocks_to_gather(const Sequence& sequence) const;
  bool may_gather(const Sequence& sequence) const;
  void break_deadlock();
  void write_plan();
  void take_off();
  bool grow(Sequence& sequence, std::int32_t rows);
  bool is_to_be_sharded(std::int32_t tokens) const {
    return options_.dcp_ranks > 1 && tokens > options_.replicate_up_to;
  }
  bool shard_largest();
  void shard(Sequence& sequence);
  std::vector<Sequence*>& decoding_like(const Sequence& sequence) {
    return decoding_[static_cast<std::size_t>(sequence.blocks.spread)];
  }
  std::int32_t affordable_rows(const Sequence& sequence) const;
  std::int32_t likely_remaining(const Sequence& sequence, std::int32_t strictness) const;

  // --- leaving the running set
  Sequence* cheapest_victim(const Sequence* spared) const;
  void preempt(Sequence& sequence);
  void leave_running(Sequence& sequence);
  void start_decoding(Sequence& sequence);
  void stop_decoding(Sequence& sequence);

  // --- results
  void take_prompt_logprobs(const SequenceWork& work, const StepPlan& plan, StepResult& result,
                            std::size_t& next, RequestOutput& output);
  void drop_results(const SequenceWork& work, const StepPlan& plan, const StepResult& result,
                    std::size_t& next_sampling, std::size_t& next_logprob, std::span<SampledToken>& sampled);
  void take_tokens(Sequence& sequence, const SequenceWork& work, std::span<SampledToken> gained,
                   std::int32_t rows, RequestOutput& output, Clock::time_point now);
  void refuse_drafts(Sequence& sequence, std::span<const std::int32_t> drafts);
  void count_drafts(std::int32_t drafts, std::int32_t refused, std::int32_t accepted);
  void advance(Sequence& sequence, std::int32_t count);
  void take_token(Sequence& sequence, SampledToken& sampled, RequestOutput& output, Clock::time_point now);
  void finish(Sequence& sequence, FinishReason reason, RequestOutput& output);
  void learn_length(const Sequence& sequence);
  RequestOutput& deliver(Sequence& sequence);
  void begin_deliveries();
  std::span<const Delivery> deliveries() const { return {deliveries_.data(), delivered_}; }
  template <class End>
  std::span<const Delivery> end_all(const End& end);

  SchedulerOptions options_;
  std::int32_t most_running_ = 0;  // max_num_seqs, or fewer when the token budget is smaller
  KvCache kv_;
  PlanWriter writer_;
  // Experience with the lengths of outputs: tokens of the open-ended ones, and what the others used of their
  // max_tokens.
  static constexpr std::int64_t kWholeShare = 10000;
  OutputLengths lengths_;
  OutputLengths shares_;
  BlockForecast forecast_;

  std::unordered_map<std::uint64_t, std::unique_ptr<Sequence>> sequences_;  // by id
  std::set<Sequence*, RanksBefore> waiting_;
  std::vector<Sequence*> running_;                  // by rank
  std::array<std::vector<Sequence*>, 2> decoding_;  // of these, by spread and row of the plan
  std::vector<std::unique_ptr<Sequence>> ended_;    // until their deliveries are read
  std::vector<std::int32_t> free_slots_;
  std::vector<std::int32_t> retired_;  // slots whose end the runner has not been told yet

  // A plan whose result is not known yet.
  struct Flight {
    const StepPlan* plan = nullptr;
    std::vector<Sequence*> sequences;  // [work]; null: it has left since, and its results are nobody's
    std::int32_t verifying = 0;        // drafts that the policy of the plan before asked for
    bool has_constraint = false;       // a grammar waits for a token of it
  };
  std::array<Flight, kMostFlying> flights_;  // memory is kept; the oldest first
  std::size_t flying_ = 0;
  std::vector<Sequence*> planned_;  // [work] of the plan being made
  const StepPlan no_work_;

  DraftPolicy policy_;                  // of the plan made last
  std::int32_t verifying_ = 0;          // of the flight being applied
  std::vector<std::uint64_t> allowed_;  // [ceil(vocab / 64)] scratch
  bool needs_blocks_ = false;           // the plan made last went without somebody who needs another's blocks
  Verified verified_;
  DraftAlarm draft_alarm_;
  std::optional<std::string> draft_alarm_text_;
  std::int32_t budget_ = 0;    // query tokens left in the plan under way
  std::int32_t gathered_ = 0;  // blocks whose rows the plan's sharded prefills gather
  bool preempted_in_step_ = false;
  bool admission_may_succeed_ = true;  // false: the first in the queue was refused, and nothing left since
  std::uint64_t residences_ = 0;

  std::vector<Delivery> deliveries_;  // memory is kept; the first `delivered_` are this call's
  std::size_t delivered_ = 0;
  SchedulerCounters counters_;
};

}  // namespace tessera
