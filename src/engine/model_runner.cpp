#include "engine/model_runner.h"

#include <algorithm>
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
                               : std::min(options.max_num_seqs, options.max_num_batched_tokens),
          .seqs = options.max_num_seqs,
          .logit_rows = kLogitRows,
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
      inputs_(backend_, options) {
  const std::int64_t layer_bytes = row_bytes * options.block_size * options.kv_blocks;
  pool_ = backend_.allocate(static_cast<std::size_t>(layer_bytes * model_->layers()));
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
  // Rows to sample: one a sequence; rows for prompt log-probabilities: up to every query token of the step.
  logit_rows_.reserve(static_cast<std::size_t>(options.max_num_seqs + options.max_num_batched_tokens));
  sampling_rows_.reserve(kLogitRows);
  sampled_.resize(kLogitRows);
  targets_.reserve(kLogitRows);
  result_.sampled.reserve(static_cast<std::size_t>(options.max_num_seqs));
}

ModelRunner::Inputs::Inputs(Backend& backend, const RunnerOptions& options) {
  const std::int64_t tokens = options.max_num_batched_tokens;
  const std::int64_t seqs = options.max_num_seqs;
  const std::int64_t max_blocks = (options.max_model_len + options.block_size - 1) / options.block_size;
  const auto plan = [&](Arena& host, Arena& device) {
    const auto field = [&]<class T>(Field<T>& f, std::int64_t count) {
      f.host = static_cast<T*>(host.take_bytes(static_cast<std::size_t>(count) * sizeof(T)));
      f.device = static_cast<const T*>(device.take_bytes(static_cast<std::size_t>(count) * sizeof(T)));
    };
    field(ids, tokens);
    field(positions, tokens);
    field(visible_rows, tokens);
    field(slots, tokens);
    field(query_start, seqs + 4);  // one run for each form of attention
    field(logit_rows, kLogitRows);
  };
  Arena count_host;
  Arena count_device;
  plan(count_host, count_device);
  host_.resize(count_host.peak());
  device_ = backend.allocate(count_device.peak());
  Arena host(host_.data(), host_.size());
  Arena device(device_.get(), count_device.peak());
  plan(host, device);
  const std::int64_t table_rows = (options.dcp_ranks > 1 ? 2 : 1) * seqs;
  block_table_ = backend.allocate(static_cast<std::size_t>(table_rows * max_blocks) * sizeof(std::int32_t));
}

void ModelRunner::Inputs::write_table(Backend& backend, const RankView& view, std::int32_t max_blocks,
                                      const TableWrite& write) {
  const std::int64_t first = std::int64_t{write.row} * max_blocks + write.first;
  backend.copy_to_device(static_cast<std::int32_t*>(block_table_.get()) + first,
                         view.block_table.data() + first,
                         static_cast<std::size_t>(write.count) * sizeof(std::int32_t));
}

StepResult& ModelRunner::step(const StepPlan& plan) {
  for (const std::int32_t slot : plan.retired) slots_[static_cast<std::size_t>(slot)].retire();
  for (const SequenceStart& start : plan.starts) {
    TS_CHECK(!slots_[static_cast<std::size_t>(start.slot)].is_active(), start.slot);
    slots_[static_cast<std::size_t>(start.slot)].start(start, options_.max_model_len);
  }

  result_.sampled.clear();
  result_.prompt_logprobs.clear();
  if (plan.work.empty()) return result_;
  list_forms(plan);
  upload(plan);
  ForwardBatch batch;
  batch.tokens = static_cast<std::int32_t>(plan.tokens.size());
  batch.ids = inputs_.ids.device;
  batch.decode = attention_batch(plan, kDecode);
  batch.sharded_decode = attention_batch(plan, kShardedDecode);
  batch.prefill = attention_batch(plan, kPrefill);
  batch.sharded_prefill = attention_batch(plan, kShardedPrefill);
  if (batch.sharded_prefill.tokens > 0)
    batch.staged = &staged_->stage(backend_, plan, forms_[kShardedPrefill], batch.sharded_prefill);
  const Tensor hidden = model_->forward(batch, kv_);
  list_logit_rows(plan);
  for (std::size_t first = 0; first < logit_rows_.size(); first += kLogitRows) {
    const std::size_t count = std::min<std::size_t>(kLogitRows, logit_rows_.size() - first);
    read_logits(plan, hidden, std::span(logit_rows_).subspan(first, count));
  }
  return result_;
}

// Decodes come before prefills, and of both the replicated ones first.
void ModelRunner::list_forms(const StepPlan& plan) {
  std::span<const SequenceWork> rest(plan.work);
  for (std::size_t form = 0; form < forms_.size(); ++form) {
    const auto end = std::ranges::find_if_not(rest, [&](const SequenceWork& work) {
      const bool is_absorbed = work.is_decode || options_.batch_invariant;
      return static_cast<std::size_t>((is_absorbed ? 0 : 2) + (work.is_sharded ? 1 : 0)) == form;
    });
    forms_[form] = rest.first(static_cast<std::size_t>(end - rest.begin()));
    rest = rest.subspan(forms_[form].size());
  }
  TS_CHECK(rest.empty(), rest.size(), plan.work.size());
}

void ModelRunner::upload(const StepPlan& plan) {
  const std::size_t tokens = plan.tokens.size();
  TS_CHECK(tokens <= static_cast<std::size_t>(options_.max_num_batched_tokens), tokens,
           options_.max_num_batched_tokens);
  TS_CHECK(plan.work.size() <= slots_.size(), plan.work.size(), slots_.size());
  const RankView& mine = view(plan);
  TS_CHECK(mine.slots.size() == tokens && mine.visible_rows.size() == tokens, mine.slots.size(), tokens);
  std::ranges::copy(plan.tokens, inputs_.ids.host);
  std::ranges::copy(plan.positions, inputs_.positions.host);
  std::ranges::copy(mine.slots, inputs_.slots.host);
  std::ranges::copy(mine.visible_rows, inputs_.visible_rows.host);
  std::int32_t next = 0;
  for (const SequenceWork& work : plan.work) {
    TS_CHECK(work.first_token == next && work.count > 0, work.first_token, next, work.count);
    next += work.count;
    for (std::int32_t t = work.first_token; t < next; ++t) {
      if (inputs_.ids.host[t] < 0)
        inputs_.ids.host[t] = slots_[static_cast<std::size_t>(work.slot)].last_token();
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

void ModelRunner::list_logit_rows(const StepPlan& plan) {
  logit_rows_.clear();
  for (std::size_t w = 0; w < plan.work.size(); ++w) {
    if (plan.work[w].samples) {
      logit_rows_.push_back({.token = plan.work[w].first_token + plan.work[w].count - 1,
                             .work = static_cast<std::int32_t>(w),
                             .samples = true});
    }
  }
  for (std::size_t w = 0; w < plan.work.size(); ++w) {
    const SequenceWork& work = plan.work[w];
    if (work.prompt_logprobs < 0) continue;
    for (std::int32_t t = work.first_token; t < work.first_token + work.count; ++t) {
      if (plan.next_tokens[static_cast<std::size_t>(t)] >= 0)
        logit_rows_.push_back({.token = t, .work = static_cast<std::int32_t>(w)});
    }
  }
}

void ModelRunner::read_logits(const StepPlan& plan, const Tensor& hidden, std::span<const LogitRow> rows) {
  for (std::size_t i = 0; i < rows.size(); ++i) inputs_.logit_rows.host[i] = rows[i].token;
  backend_.copy_to_device(const_cast<std::int32_t*>(inputs_.logit_rows.device), inputs_.logit_rows.host,
                          rows.size() * sizeof(std::int32_t));
  const Tensor logits =
      model_->logits(hidden, inputs_.logit_rows.device, static_cast<std::int64_t>(rows.size()));
  if (tap_) tap_rows(plan, rows, logits);

  // Rows to sample come first (list_logit_rows), the others follow.
  const auto samples = static_cast<std::size_t>(std::ranges::count_if(rows, &LogitRow::samples));
  sampling_rows_.clear();
  for (const LogitRow& row : rows.first(samples)) {
    const SequenceWork& work = plan.work[static_cast<std::size_t>(row.work)];
    std::span<const std::uint64_t> allowed;
    if (work.allowed_mask >= 0) allowed = plan.allowed_masks[static_cast<std::size_t>(work.allowed_mask)];
    sampling_rows_.push_back(slots_[static_cast<std::size_t>(work.slot)].next_row(allowed));
  }
  if (samples > 0) {
    const std::span<SampledToken> sampled(sampled_.data(), samples);
    backend_.sample(logits.row_range(0, static_cast<std::int64_t>(samples)), sampling_rows_, sampled);
    for (std::size_t i = 0; i < samples; ++i) {
      const SequenceWork& work = plan.work[static_cast<std::size_t>(rows[i].work)];
      if (!sampled[i].invalid) slots_[static_cast<std::size_t>(work.slot)].append(sampled[i].token);
      result_.sampled.push_back(std::move(sampled[i]));
    }
  }

  // Log-probabilities of prompt tokens, in runs of rows that want the same number of alternatives.
  for (std::size_t first = samples; first < rows.size();) {
    const std::int32_t top = plan.work[static_cast<std::size_t>(rows[first].work)].prompt_logprobs;
    targets_.clear();
    std::size_t end = first;
    for (; end < rows.size() && plan.work[static_cast<std::size_t>(rows[end].work)].prompt_logprobs == top;
         ++end) {
      targets_.push_back(plan.next_tokens[static_cast<std::size_t>(rows[end].token)]);
    }
    const std::span<SampledToken> scored(sampled_.data(), end - first);
    backend_.logprobs(
        logits.row_range(static_cast<std::int64_t>(first), static_cast<std::int64_t>(end - first)), targets_,
        top, scored);
    for (SampledToken& token : scored) result_.prompt_logprobs.push_back(std::move(token));
    first = end;
  }
}

void ModelRunner::tap_rows(const StepPlan& plan, std::span<const LogitRow> rows, const Tensor& logits) {
  std::vector<float> host(static_cast<std::size_t>(logits.cols));
  for (std::size_t i = 0; i < rows.size(); ++i) {
    backend_.copy_to_host(host.data(), logits.row_range(static_cast<std::int64_t>(i), 1).data,
                          host.size() * sizeof(float));
    backend_.synchronise();
    tap_(plan.work[static_cast<std::size_t>(rows[i].work)].slot,
         plan.positions[static_cast<std::size_t>(rows[i].token)], host);
  }
}

}  // namespace tessera
