#include "engine/model_runner.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <utility>

#include "base/check.h"
#include "tensor/arena.h"

namespace tessera {

StepLimits ModelRunner::limits_of(const RunnerOptions& options) {
  return {.tokens = options.max_num_batched_tokens,
          .decode_tokens = options.batch_invariant
                               ? options.max_num_batched_tokens
                               : std::min(options.max_num_seqs * (1 + options.most_drafts),
                                          options.max_num_batched_tokens),
          .seqs = options.max_num_seqs,
          .logit_rows = StepSampler::kLogitRows,
          .positions = options.max_model_len};
}

Result<std::int64_t> ModelRunner::kv_bytes(const Model& model, KvFormat format, std::int64_t tokens) {
  const std::optional<std::int64_t> row = kv_row_bytes(format, model.kv_shape());
  if (!row) {
    return Error{ErrorKind::kUnsupported, "--kv-cache-dtype",
                 std::string(name_of(format)) +
                     " needs an MLA model whose latent is a multiple of 128 wide; this model's rows hold " +
                     std::to_string(model.kv_shape().values()) + " values. Use auto, bf16 or fp8."};
  }
  return *row * tokens * model.layers();
}

Result<std::unique_ptr<ModelRunner>> ModelRunner::create(RankDevice device, std::unique_ptr<Model> model,
                                                         const RunnerOptions& options) {
  TS_TRY(const std::int64_t row_bytes, kv_bytes(*model, options.kv_format, 1));
  const std::int64_t layers = model->layers();
  return std::unique_ptr<ModelRunner>(
      new ModelRunner(std::move(device), std::move(model), options, row_bytes / layers));
}

ModelRunner::ModelRunner(RankDevice device, std::unique_ptr<Model> model, const RunnerOptions& options,
                         std::int64_t row_bytes)
    : device_(std::move(device)),
      backend_(*device_.backend),
      model_(std::move(model)),
      options_(options),
      inputs_(backend_, options),
      recordings_(backend_, options.enforce_eager || options.dcp_ranks > 1),
      resolver_(options.max_num_batched_tokens, options.max_num_seqs),
      sampler_(backend_, *model_,
               {.seqs = options.max_num_seqs,
                .tokens = options.max_num_batched_tokens,
                .drafts = options.most_drafts,
                .always_logits = options.always_logits}) {
  cache_.block = row_bytes * options.block_size * model_->layers();
  cache_.all = cache_.block * options.kv_blocks;
  pool_ = backend_.allocate(static_cast<std::size_t>(cache_.all));
  const std::int64_t layer_bytes = row_bytes * options.block_size * options.kv_blocks;
  for (std::int64_t l = 0; l < model_->layers(); ++l) {
    kv_.push_back({.data = static_cast<std::byte*>(pool_.get()) + l * layer_bytes,
                   .format = options.kv_format,
                   .shape = model_->kv_shape(),
                   .blocks = options.kv_blocks,
                   .block_size = options.block_size,
                   .row_bytes = row_bytes,
                   .scale = options.kv_scale});
  }
  if (options.dcp_ranks > 1) {
    staged_.emplace(backend_, kv_.front(),
                    StagedContext::Limits{.ranks = options.dcp_ranks,
                                          .rank = options.dcp_rank,
                                          .tokens = options.max_num_batched_tokens,
                                          .seqs = options.max_num_seqs,
                                          .positions = options.max_model_len,
                                          .gather_rows = options.gather_rows});
  }
  slots_.resize(static_cast<std::size_t>(options.max_num_seqs));
  const auto seqs = static_cast<std::size_t>(options.max_num_seqs);
  for (StepResult& result : results_) {
    result.sampled.reserve(seqs * static_cast<std::size_t>(1 + options.most_drafts));
    result.gained.reserve(seqs);
    result.rows.reserve(seqs);
    result.drafted.reserve(seqs);
    result.draft_tokens.reserve(seqs * static_cast<std::size_t>(options.most_drafts));
  }
  proposer_work_.reserve(seqs);
  proposals_.resize(seqs);
}

ModelRunner::Inputs::Inputs(Backend& backend, const RunnerOptions& options)
    : most_tokens_(options.max_num_batched_tokens), most_seqs_(options.max_num_seqs) {
  const std::int64_t max_blocks = (options.max_model_len + options.block_size - 1) / options.block_size;
  Arena count_host;
  Arena count_device;
  lay_out(count_host, count_device, most_tokens_);
  host_.resize(count_host.peak());
  device_ = backend.allocate(count_device.peak());
  const std::int64_t table_rows = (options.dcp_ranks > 1 ? 2 : 1) * most_seqs_;
  block_table_ = backend.allocate(static_cast<std::size_t>(table_rows * max_blocks) * sizeof(std::int32_t));
}

std::size_t ModelRunner::Inputs::lay_out(Arena& host, Arena& device, std::int64_t tokens) {
  const auto field = [&]<class T>(Field<T>& f, std::int64_t count) {
    f.host = static_cast<T*>(host.take_bytes(static_cast<std::size_t>(count) * sizeof(T)));
    f.device = static_cast<const T*>(device.take_bytes(static_cast<std::size_t>(count) * sizeof(T)));
  };
  field(ids, tokens);
  field(positions, tokens);
  field(visible_rows, tokens);
  field(slots, tokens);
  field(query_start, std::min(tokens, most_seqs_) + 4);  // one run for each form of attention
  return host.peak();
}

void ModelRunner::Inputs::fit(std::int64_t tokens) {
  const auto room = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(tokens)));
  Arena host(host_.data(), host_.size());
  Arena device(device_.get(), host_.size());
  used_ = lay_out(host, device, std::min(std::max(room, kLeastRoom), most_tokens_));
}

void ModelRunner::Inputs::write_table(Backend& backend, const RankView& view, std::int32_t max_blocks,
                                      const TableWrite& write) {
  const std::int64_t first = std::int64_t{write.row} * max_blocks + write.first;
  backend.copy_to_device(static_cast<std::int32_t*>(block_table_.get()) + first,
                         view.block_table.data() + first,
                         static_cast<std::size_t>(write.count) * sizeof(std::int32_t));
}

StepResult& ModelRunner::step(const StepPlan& plan) {
  for (const std::int32_t slot : plan.retired) {
    slots_[static_cast<std::size_t>(slot)].retire();
    if (proposer_) proposer_->retire(slot);
  }
  for (const SequenceStart& start : plan.starts) {
    SlotState& slot = slots_[static_cast<std::size_t>(start.slot)];
    TS_CHECK(!slot.is_active(), start.slot);
    slot.start(start, options_.max_model_len, options_.most_drafts);
    if (!proposer_) continue;
    const auto work = std::ranges::find(plan.work, start.slot, &SequenceWork::slot);
    TS_CHECK(work != plan.work.end(), start.slot);
    proposer_->start(start.slot, slot.tokens(), work->first_position);
  }

  current_ = 1 - current_;
  StepResult& result = results_[current_];
  result.clear();
  if (plan.work.empty()) return result;
  const StepRows rows = resolver_.resolve(plan, options_.dcp_rank, [this](std::int32_t slot) {
    const SlotState& state = slots_[static_cast<std::size_t>(slot)];
    return SlotStanding{.newest_position = static_cast<std::int32_t>(state.tokens().size()) - 1,
                        .drafts = static_cast<std::int32_t>(state.proposal().tokens.size())};
  });
  const auto end_of = [this](StepPhase phase) {
    if (phase_tap_) phase_tap_(phase);
  };
  const Tensor hidden = forward(plan, rows);
  end_of(StepPhase::kVerify);
  sampler_.sample(plan, rows, hidden, proposer_ ? proposer_->token_ids() : std::span<const std::int32_t>(),
                  slots_, result);
  end_of(StepPhase::kSample);
  if (listener_) listener_(result);
  if (proposer_) propose(plan, rows);
  end_of(StepPhase::kDraft);
  for (const SequenceWork& work : plan.work) {
    if (!work.samples) continue;
    const std::vector<std::int32_t>& drafts = slots_[static_cast<std::size_t>(work.slot)].proposal().tokens;
    result.drafted.push_back(static_cast<std::int32_t>(drafts.size()));
    result.draft_tokens.insert(result.draft_tokens.end(), drafts.begin(), drafts.end());
  }
  return result;
}

std::optional<DraftTrialReport> ModelRunner::try_draft(std::int64_t hidden, std::int32_t first_token) {
  TS_CHECK(proposer_ != nullptr);
  DraftTrialSetup setup{.backend = backend_,
                        .target = *model_,
                        .proposer = *proposer_,
                        .hidden = hidden,
                        .kv = kv_,
                        .first_token = first_token};
  const std::int32_t room =
      std::min(options_.max_model_len, options_.kv_blocks * options_.block_size) - proposer_->lookahead(1);
  if (room < setup.tokens / 2) return std::nullopt;
  setup.tokens = std::min(setup.tokens, room);
  return tessera::try_draft(setup);
}

Tensor ModelRunner::forward(const StepPlan& plan, const StepRows& rows) {
  list_forms(rows.work);
  upload(plan, rows);
  ForwardBatch batch;
  batch.tokens = static_cast<std::int32_t>(rows.tokens.size());
  batch.ids = inputs_.ids.device;
  batch.decode = attention_batch(plan, kDecode);
  batch.sharded_decode = attention_batch(plan, kShardedDecode);
  batch.prefill = attention_batch(plan, kPrefill);
  batch.sharded_prefill = attention_batch(plan, kShardedPrefill);
  if (batch.sharded_prefill.tokens > 0)
    batch.staged = &staged_->stage(backend_, plan, forms_[kShardedPrefill], batch.sharded_prefill);
  return recordings_.run(batch, [&] { return model_->forward(batch, kv_); });
}

// Decodes come before prefills, and of both the replicated ones first.
void ModelRunner::list_forms(std::span<const SequenceWork> works) {
  std::span<const SequenceWork> rest = works;
  for (std::size_t form = 0; form < forms_.size(); ++form) {
    const auto end = std::ranges::find_if_not(rest, [&](const SequenceWork& work) {
      const bool is_absorbed = work.is_decode || options_.batch_invariant;
      return static_cast<std::size_t>((is_absorbed ? 0 : 2) + (work.is_sharded ? 1 : 0)) == form;
    });
    forms_[form] = rest.first(static_cast<std::size_t>(end - rest.begin()));
    rest = rest.subspan(forms_[form].size());
  }
  TS_CHECK(rest.empty(), rest.size(), works.size());
}

void ModelRunner::upload(const StepPlan& plan, const StepRows& rows) {
  const std::size_t tokens = rows.tokens.size();
  TS_CHECK(tokens <= static_cast<std::size_t>(options_.max_num_batched_tokens), tokens,
           options_.max_num_batched_tokens);
  TS_CHECK(rows.work.size() <= slots_.size(), rows.work.size(), slots_.size());
  inputs_.fit(static_cast<std::int64_t>(tokens));
  const RankView& mine = view(plan);
  TS_CHECK(rows.slots.size() == tokens && rows.visible_rows.size() == tokens, rows.slots.size(), tokens);
  std::ranges::copy(rows.tokens, inputs_.ids.host);
  std::ranges::copy(rows.positions, inputs_.positions.host);
  std::ranges::copy(rows.slots, inputs_.slots.host);
  std::ranges::copy(rows.visible_rows, inputs_.visible_rows.host);
  std::int32_t next = 0;
  for (const SequenceWork& work : rows.work) {
    TS_CHECK(work.first_token == next && work.count > 0, work.first_token, next, work.count);
    next += work.count;
    const SlotState& slot = slots_[static_cast<std::size_t>(work.slot)];
    for (std::int32_t t = work.first_token; t < next; ++t) {
      if (inputs_.ids.host[t] >= 0) continue;
      const std::int32_t draft = t - work.first_token - 1;
      inputs_.ids.host[t] =
          draft < 0 ? slot.last_token() : slot.proposal().tokens.at(static_cast<std::size_t>(draft));
    }
  }
  TS_CHECK(static_cast<std::size_t>(next) == tokens, next, tokens);
  std::int32_t* start = inputs_.query_start.host;
  for (const auto& works : forms_) {
    std::int32_t first = 0;
    *start++ = 0;
    for (const SequenceWork& work : works) *start++ = first += work.count;
  }
  inputs_.copy(backend_);
  for (const TableWrite& write : mine.table_writes)
    inputs_.write_table(backend_, mine, plan.max_blocks, write);
}

AttentionBatch ModelRunner::attention_batch(const StepPlan& plan, Form form) {
  AttentionBatch batch;
  const std::span<const SequenceWork> works = forms_[form];
  if (works.empty()) return batch;
  const std::int32_t first_token = works.front().first_token;
  for (const SequenceWork& work : works) {
    TS_CHECK(work.table_row == works.front().table_row + batch.seqs, work.table_row, batch.seqs);
    batch.tokens += work.count;
    batch.max_query = std::max(batch.max_query, work.count);
    ++batch.seqs;
  }
  std::size_t starts = 0;
  for (std::size_t f = 0; f < form; ++f) starts += forms_[f].size() + 1;
  batch.max_blocks = plan.max_blocks;
  batch.query_start = inputs_.query_start.device + starts;
  batch.positions = inputs_.positions.device + first_token;
  batch.visible_rows = inputs_.visible_rows.device + first_token;
  batch.slots = inputs_.slots.device + first_token;
  batch.block_table = inputs_.block_table() + std::int64_t{works.front().table_row} * plan.max_blocks;
  return batch;
}

// Every rank's proposer sees what the step made certain, also where nothing is to be drafted.
void ModelRunner::propose(const StepPlan& plan, const StepRows& step) {
  proposer_work_.clear();
  for (const SequenceWork& work : step.work) {
    if (work.is_decode && !work.samples) continue;  // has ended
    SlotState& slot = slots_[static_cast<std::size_t>(work.slot)];
    const auto first = static_cast<std::size_t>(work.first_position);
    // Rows that stand and the token that follows the last of them. There is none after a prompt that wants no
    // output, nor after logits without a token.
    const std::size_t known = slot.tokens().size() - first;
    const std::size_t rows =
        work.is_decode ? known - std::min<std::size_t>(known, 1) : static_cast<std::size_t>(work.count);
    slot.proposal().tokens.clear();
    slot.proposal().probs.clear();
    if (rows == 0 || known < rows + 1) continue;
    // The blocks that the sequence has: drafts go no further.
    std::span<const std::int32_t> table;
    if (!plan.shared_table.empty()) {
      const auto width = static_cast<std::size_t>(plan.max_blocks);
      table = std::span(plan.shared_table).subspan(static_cast<std::size_t>(work.table_row) * width, width);
      const auto end = std::ranges::partition_point(table, [](std::int32_t block) { return block >= 0; });
      table = table.first(static_cast<std::size_t>(end - table.begin()));
    }
    proposer_work_.push_back({.slot = work.slot,
                              .is_decode = work.is_decode,
                              .first_row = work.first_token,
                              .first_position = work.first_position,
                              .tokens = slot.tokens().subspan(first, rows + 1),
                              .block_table = table,
                              .drafts = work.drafts_wanted,
                              .temperature = slot.temperature(),
                              .seed = slot.seed(),
                              .draw = slot.next_draw()});
  }
  const auto proposals = std::span(proposals_).first(proposer_work_.size());
  for (std::size_t i = 0; i < proposals.size(); ++i)
    std::swap(proposals[i], slots_[static_cast<std::size_t>(proposer_work_[i].slot)].proposal());
  proposer_->propose(proposer_work_, model_->aux_states(), proposals);
  for (std::size_t i = 0; i < proposals.size(); ++i)
    std::swap(proposals[i], slots_[static_cast<std::size_t>(proposer_work_[i].slot)].proposal());
}

}  // namespace tessera
