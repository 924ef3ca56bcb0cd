#include "support/scheduled_model.h"

#include <utility>

#include "base/check.h"
#include "engine/scheduler_drive.h"

namespace tessera::test {
namespace {

SchedulerOptions scheduler_options(const ScheduledModel::Options& options, const TinyModel& model) {
  SchedulerOptions scheduler;
  scheduler.max_num_seqs = model.options.max_num_seqs;
  scheduler.max_num_batched_tokens = options.max_num_batched_tokens;
  scheduler.max_model_len = model.options.max_model_len;
  scheduler.block_size = model.options.block_size;
  scheduler.kv_blocks = model.options.kv_blocks;
  scheduler.dcp_ranks = model.options.dcp_ranks;
  scheduler.replicate_up_to = options.replicate_up_to;
  scheduler.most_drafts = model.options.most_drafts;
  scheduler.draft_lookahead = model.draft_lookahead;
  scheduler.shared_table = model.options.most_drafts > 0;
  scheduler.forecast_admission = options.forecast_admission;
  scheduler.vocab = static_cast<std::int32_t>(model.first->model().vocab());
  return scheduler;
}

}  // namespace

ScheduledModel::ScheduledModel(const Options& options)
    : model_(load_tiny(options.model)), options_(scheduler_options(options, model_)), scheduler_(options_) {
  sampling.temperature = 0;
  drafts.drafts = options_.most_drafts;
  if (!options.model.always_logits) return;
  model_.first->set_logits_tap([this](std::int32_t slot, std::int32_t position, std::span<const float> row) {
    results_[slot_owner_.at(slot)].logits[position].assign(row.begin(), row.end());
  });
}

std::uint64_t ScheduledModel::submit(std::span<const std::int32_t> prompt, std::int32_t count,
                                     bool all_logits) {
  GenerationRequest request;
  request.prompt.assign(prompt.begin(), prompt.end());
  request.sampling = sampling;
  request.sampling.max_tokens = count;
  request.sampling.ignore_eos = true;
  if (all_logits) request.sampling.prompt_logprobs = 0;
  const SequenceLimits limits = sequence_limits(options_, {});
  const std::uint64_t id = ++last_id_;
  auto sequence = prepare_sequence({id}, std::move(request), std::make_shared<NullSink>(), id, limits);
  TS_CHECK(sequence.ok(), sequence.error().message());
  results_[id];
  scheduler_.add(*std::move(sequence));
  return id;
}

void ScheduledModel::run() {
  while (scheduler_.has_work()) {
    if (before_step) before_step();
    const StepPlan& plan = scheduler_.plan_step({}, drafts);
    scheduler_.check_invariants();
    TS_CHECK(!plan.work.empty(), scheduler_.waiting());
    for (const SequenceStart& start : plan.starts)
      slot_owner_[start.slot] = start.seed;  // submit() made it the id
    StepResult& result = model_.runner->step(plan);
    for (const Delivery& delivery : scheduler_.apply(result, {})) {
      Result& mine = results_[delivery.output.id.value];
      TS_CHECK(!delivery.output.error, delivery.output.error->message());
      for (const SampledToken& token : delivery.output.tokens) mine.tokens.push_back(token.token);
      mine.cached_tokens = delivery.output.cached_tokens;
    }
    scheduler_.take_drafts(result);
  }
}

std::vector<std::int32_t> ScheduledModel::generate(std::span<const std::int32_t> prompt, std::int32_t count) {
  const std::uint64_t id = submit(prompt, count);
  run();
  return result(id).tokens;
}

}  // namespace tessera::test
