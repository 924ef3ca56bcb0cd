#include "engine/engine.h"

#include <algorithm>
#include <exception>
#include <stdexcept>
#include <string>
#include <utility>

#include "base/check.h"

namespace tessera {
namespace {

double seconds(Clock::duration duration) { return std::chrono::duration<double>(duration).count(); }

// Nobody outside may know it (block_hash.h), so the seed of the requests does not determine it.
HashKey draw_hash_key() {
  std::random_device device;
  const auto word = [&] { return std::uint64_t{device()} << 32U | device(); };
  return {.low = word(), .high = word()};
}

EngineOptions with_hash_key(EngineOptions options) {
  options.scheduler.hash_key = draw_hash_key();
  return options;
}

}  // namespace

Result<std::unique_ptr<Engine>> Engine::create(EngineOptions options, std::unique_ptr<StepRunner> runner) {
  TS_TRY(options.scheduler.validate());
  for (const std::int32_t token : options.end_tokens) {
    if (token < 0 || token >= options.scheduler.vocab)
      return Error{ErrorKind::kInvalidArgument, "end tokens",
                   "End token " + std::to_string(token) + " lies outside the vocabulary of " +
                       std::to_string(options.scheduler.vocab) + "."};
  }
  return std::unique_ptr<Engine>(new Engine(with_hash_key(std::move(options)), std::move(runner)));
}

Engine::Engine(EngineOptions options, std::unique_ptr<StepRunner> runner)
    : options_(std::move(options)),
      scheduler_(options_.scheduler),
      pipeline_(std::move(runner), options_.pipeline),
      gate_(options_.gate),
      seeds_(options_.seed) {
  const SchedulerOptions& s = options_.scheduler;
  limits_ = sequence_limits(s, options_.end_tokens);
  info_ = {.vocab = s.vocab,
           .max_model_len = s.max_model_len,
           .block_size = s.block_size,
           .kv_blocks = limits_.kv_blocks,
           .kv_tokens = std::int64_t{limits_.kv_blocks} * s.block_size,
           .max_num_seqs = s.max_num_seqs,
           .max_num_batched_tokens = s.max_num_batched_tokens,
           .kv_cache_dtype = options_.kv_cache_dtype,
           .prefix_caching = s.prefix_caching,
           .end_tokens = options_.end_tokens,
           .ranks = options_.ranks,
           .dcp_ranks = s.dcp_ranks,
           .most_drafts = s.most_drafts,
           .fingerprint = options_.fingerprint,
           .memory = options_.memory,
           .collectives = options_.collectives,
           .all_reduces = options_.all_reduces};
  books_.kv_usage_of.resize(static_cast<std::size_t>(s.dcp_ranks));
  thread_ = std::thread([this] { run(); });
}

Engine::~Engine() {
  drain(std::chrono::milliseconds(0));
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
  }
  wake_.notify_one();
  thread_.join();
}

Result<void> Engine::admit_submission() const {
  if (fatal_) return Error{ErrorKind::kUnavailable, "engine", "The engine has stopped: " + fatal_->message()};
  if (draining_) return Error{ErrorKind::kUnavailable, "engine", "The server is shutting down."};
  if (options_.max_waiting > 0 && waiting() >= options_.max_waiting)
    return Error{ErrorKind::kUnavailable, "engine",
                 std::to_string(waiting()) + " requests are waiting and " +
                     std::to_string(options_.max_waiting) + " may; try again later."};
  return {};
}

std::int64_t Engine::waiting() const {
  return books_.received - books_.finished - books_.aborted - books_.failed - books_.running;
}

Result<RequestId> Engine::submit(GenerationRequest request, std::shared_ptr<RequestSink> sink) {
  TS_CHECK(sink != nullptr);
  const auto arrived = Clock::now();
  RequestId id;
  std::uint64_t seed = 0;
  {
    const std::lock_guard lock(mutex_);
    TS_TRY(admit_submission());
    id.value = next_id_++;
    seed = seeds_();
  }
  // Hashing a long prompt takes its time, so no lock is held here.
  TS_TRY(auto sequence, prepare_sequence(id, std::move(request), std::move(sink), seed, limits_));
  sequence->times.arrived = arrived;
  {
    const std::lock_guard lock(mutex_);
    TS_TRY(admit_submission());
    ++books_.received;
    inbox_.push_back(std::move(sequence));
  }
  wake_.notify_one();
  return id;
}

void Engine::cancel(RequestId id) {
  {
    const std::lock_guard lock(mutex_);
    if (fatal_) return;
    cancel_inbox_.push_back(id);
  }
  wake_.notify_one();
}

EngineStats Engine::stats() const {
  const std::lock_guard lock(mutex_);
  EngineStats stats = books_;
  stats.waiting = waiting();
  return stats;
}

void Engine::drain(std::chrono::milliseconds patience) {
  TS_CHECK(std::this_thread::get_id() != thread_.get_id());
  std::unique_lock lock(mutex_);
  draining_ = true;
  const auto deadline = Clock::now() + patience;
  abort_at_ = abort_at_ ? std::min(*abort_at_, deadline) : deadline;
  wake_.notify_one();
  idle_.wait(lock, [&] { return !handing_out_ && books_.running + waiting() == 0; });
}

void Engine::run() {
  try {
    while (take_requests()) {
      if (has_steps()) step();
    }
  } catch (const std::exception& failure) {
    stop_after({ErrorKind::kInternal, "engine", std::string("A step failed: ") + failure.what()});
  }
}

bool Engine::take_requests() {
  bool abort_all = false;
  {
    std::unique_lock lock(mutex_);
    const auto has_news = [&] { return !inbox_.empty() || !cancel_inbox_.empty() || has_steps() || ending_; };
    wake_.wait(lock, has_news);
    if (ending_ && inbox_.empty() && !has_steps()) return false;
    std::swap(arrived_, inbox_);
    std::swap(cancelled_, cancel_inbox_);
    abort_all = abort_at_ && Clock::now() >= *abort_at_;
  }
  for (auto& sequence : arrived_) scheduler_.add(std::move(sequence));
  arrived_.clear();
  cancelled_.insert(cancelled_.end(), broken_sinks_.begin(), broken_sinks_.end());
  broken_sinks_.clear();
  for (const RequestId id : cancelled_) hand_out(scheduler_.cancel(id));
  cancelled_.clear();
  if (abort_all) hand_out(scheduler_.cancel_all());
  return true;
}

// Another step is launched behind the one under way, if it can be; then the older one's result is taken.
void Engine::step() {
  const bool went_on = scheduler_.has_work() && scheduler_.may_plan_ahead() && launch();
  if (pipeline_.launched() == pipeline_.depth() || !went_on) settle();
}

// False: there is nothing to plan before the step under way is settled.
bool Engine::launch() {
  if (scheduler_.awaits_drafts()) {
    pipeline_.wait_for_drafts();
    scheduler_.take_drafts(*result_);
  }
  pipeline_.wait_for_plans();
  Launched step;
  step.began = Clock::now();
  step.verifying = drafting_;
  const DraftPolicy policy = decide_drafts(step.situation);
  const StepPlan& plan = scheduler_.plan_step(step.began, policy);
  if (plan.work.empty()) {
    if (pipeline_.launched() > 0) return false;
    throw std::logic_error(std::to_string(scheduler_.waiting()) + " requests wait and " +
                           std::to_string(scheduler_.running()) + " run, but none can go on with " +
                           std::to_string(scheduler_.kv().free_blocks()) + " of " +
                           std::to_string(scheduler_.kv().blocks()) + " KV blocks free.");
  }
  step.drafting = drafting_ = policy.drafts;
  for (const SequenceWork& work : plan.work) step.tokens += work.open_rows > 0 ? work.open_rows : work.count;
  launched_[static_cast<std::size_t>(launches_++) % launched_.size()] = step;
  publish(false);  // first: whoever sees the step run finds its requests in the books
  pipeline_.launch(plan, step.began);
  return true;
}

void Engine::settle() {
  const std::size_t number = static_cast<std::size_t>(launches_) - pipeline_.launched();
  const Launched& step = launched_[number % launched_.size()];
  const StepPipeline::Outcome outcome = pipeline_.take();
  result_ = outcome.result;
  const auto deliveries = scheduler_.apply(*result_, outcome.known);
  if (pipeline_.depth() == 1) scheduler_.take_drafts(*result_);
  // Steps follow each other without a gap where they are planned ahead: then this is what one more costs.
  const double step_seconds = seconds(outcome.known - std::max(step.began, known_));
  known_ = outcome.known;
  step_tokens_.count(step.tokens);
  if (gate_) record_drafts(step, step_seconds);
  if (const auto alarm = scheduler_.take_draft_alarm(); alarm && options_.on_warning)
    options_.on_warning(*alarm);
  ++steps_;
  hand_out(deliveries);
  step_seconds_ += step_seconds;
  host_seconds_ += seconds(outcome.idle);
  if (pipeline_.depth() > 1) return;
  const double after = seconds(Clock::now() - outcome.known);  // nothing runs meanwhile
  step_seconds_ += after;
  host_seconds_ += after;
}

// For the drafts that the step makes and the next one verifies. Its situation is taken for the next one's.
DraftPolicy Engine::decide_drafts(StepSituation& situation) {
  if (!gate_) return {};
  const std::int32_t longest = options_.gate->disable_above_seq_len;
  const DecodeLoad load = scheduler_.decode_load(longest);
  situation = {.batch = load.sequences, .draftable = load.draftable, .context = load.context};
  const GateDecision decision = gate_->decide(situation);
  speculation_.draft_length = decision.drafts;
  ++speculation_.chosen[static_cast<std::size_t>(decision.drafts)];
  if (decision.reason == GateReason::kProbe || decision.reason == GateReason::kUnknown) ++speculation_.probes;
  return {.drafts = decision.drafts, .longest_sequence = longest};
}

// What a step cost is comparable where it did the same work as others like it: no prompts, and as many drafts
// made as verified.
void Engine::record_drafts(const Launched& step, double seconds) {
  const Scheduler::Verified& verified = scheduler_.verified();
  const bool is_steady = verified.is_pure_decode && step.verifying == step.drafting;
  gate_->record(
      {.situation = step.situation,
       .drafts = step.verifying,
       .seconds = is_steady ? seconds : 0,
       .drafted = verified.sequences,
       .accepted_at = std::span(verified.accepted_at).first(static_cast<std::size_t>(step.verifying))});
}

// The books first: who reads the last output of a request and then the books finds it there.
void Engine::hand_out(std::span<const Delivery> deliveries) {
  publish(true);
  for (const Delivery& delivery : deliveries) {
    try {
      delivery.sequence->sink->on_output(delivery.output);
    } catch (const std::exception&) {
      if (!delivery.output.finished) broken_sinks_.push_back(delivery.output.id);
    }
  }
  scheduler_.forget_ended();  // not only with the next request: a sink may hold a connection
  const std::lock_guard lock(mutex_);
  handing_out_ = false;
  if (draining_) idle_.notify_all();
}

void Engine::publish(bool handing_out) {
  const SchedulerCounters& counters = scheduler_.counters();
  const std::lock_guard lock(mutex_);
  handing_out_ = handing_out;
  books_.running = scheduler_.running();
  books_.kv_usage = scheduler_.kv().usage();
  for (std::int32_t rank = 0; rank < scheduler_.kv().ranks(); ++rank)
    books_.kv_usage_of[static_cast<std::size_t>(rank)] = scheduler_.kv().usage(rank);
  books_.finished = counters.finished;
  books_.aborted = counters.aborted;
  books_.failed = counters.failed;
  books_.prompt_tokens = counters.prompt_tokens;
  books_.generation_tokens = counters.generation_tokens;
  books_.computed_tokens = counters.computed_tokens;
  books_.recomputed_tokens = counters.recomputed_tokens;
  books_.preemptions = counters.preemptions;
  books_.sharded = counters.sharded;
  speculation_.drafts = counters.speculation.drafts;
  speculation_.draft_tokens = counters.speculation.draft_tokens;
  speculation_.accepted_tokens = counters.speculation.accepted_tokens;
  speculation_.refused_drafts = counters.refused_drafts;
  books_.awaited_constraint = counters.awaited_constraint;
  books_.awaited_blocks = counters.awaited_blocks;
  std::ranges::copy(counters.speculation.verified_at, speculation_.verified_at.begin());
  std::ranges::copy(counters.speculation.accepted_at, speculation_.accepted_at.begin());
  books_.speculation = speculation_;
  books_.prefix_queries = counters.prefix_queries;
  books_.prefix_hits = counters.prefix_hits;
  books_.steps = steps_;
  books_.step_tokens = step_tokens_;
  books_.step_seconds = step_seconds_;
  books_.host_seconds = host_seconds_;
}

// The runner cannot go on: every request is told, then main.
void Engine::stop_after(const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    fatal_ = error;
    std::swap(arrived_, inbox_);
  }
  for (auto& sequence : arrived_) scheduler_.add(std::move(sequence));
  arrived_.clear();
  hand_out(scheduler_.fail_all(error));
  if (options_.on_fatal) options_.on_fatal(error);
}

}  // namespace tessera
