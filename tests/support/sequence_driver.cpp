#include "support/sequence_driver.h"

#include <algorithm>

#include "base/check.h"

namespace tessera::test {

SequenceDriver::SequenceDriver(TinyModel& model)
    : runner_(*model.runner),
      options_(model.options),
      max_blocks_((options_.max_model_len + options_.block_size - 1) / options_.block_size) {
  // The sequence's blocks lie scattered over the pool, last block first.
  TS_CHECK(options_.kv_blocks >= max_blocks_, options_.kv_blocks, max_blocks_);
  plan_.max_blocks = max_blocks_;
  plan_.table_rows = 1;
  plan_.views.resize(1);
  RankView& view = plan_.views.front();
  for (std::int32_t b = 0; b < max_blocks_; ++b) view.block_table.push_back(options_.kv_blocks - 1 - b);
  model.first->set_logits_tap([this](std::int32_t, std::int32_t position, std::span<const float> row) {
    logits_[position].assign(row.begin(), row.end());
  });
}

std::vector<std::int32_t> SequenceDriver::generate(std::span<const std::int32_t> prompt, std::int32_t count,
                                                   std::int32_t chunk, bool all_logits) {
  logits_.clear();
  plan_.retired.clear();
  if (!first_step_) plan_.retired.push_back(0);
  SequenceStart start;
  start.sampling.temperature = 0;
  start.sampling.max_tokens = count;
  if (all_logits) start.sampling.prompt_logprobs = 0;
  start.prompt.assign(prompt.begin(), prompt.end());
  plan_.starts = {start};
  plan_.views.front().table_writes = {{.row = 0, .first = 0, .count = max_blocks_}};

  std::vector<std::int32_t> output;
  const auto length = static_cast<std::int32_t>(prompt.size());
  std::vector<std::int32_t> next;
  for (std::int32_t first = 0; first < length; first += chunk) {
    const std::int32_t end = std::min(first + chunk, length);
    next.clear();
    for (std::int32_t p = first; p < end; ++p) {
      next.push_back(all_logits && p + 1 < length ? prompt[static_cast<std::size_t>(p) + 1] : -1);
    }
    const std::int32_t token =
        run(prompt.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(end - first)), first,
            false, end == length, next);
    if (end == length) output.push_back(token);
  }
  while (static_cast<std::int32_t>(output.size()) < count) {
    const std::int32_t position = length + static_cast<std::int32_t>(output.size()) - 1;
    const std::int32_t unseen = -1;  // the runner puts its own last sample there
    next.assign(1, -1);
    output.push_back(run({&unseen, 1}, position, true, true, next));
  }
  return output;
}

std::int32_t SequenceDriver::run(std::span<const std::int32_t> tokens, std::int32_t first_position,
                                 bool is_decode, bool samples, std::span<const std::int32_t> next_tokens) {
  const auto count = static_cast<std::int32_t>(tokens.size());
  plan_.work = {
      {.slot = 0,
       .first_token = 0,
       .count = count,
       .first_position = first_position,
       .is_decode = is_decode,
       .samples = samples,
       .prompt_logprobs = std::ranges::any_of(next_tokens, [](std::int32_t t) { return t >= 0; }) ? 0 : -1}};
  plan_.tokens.assign(tokens.begin(), tokens.end());
  plan_.next_tokens.assign(next_tokens.begin(), next_tokens.end());
  plan_.positions.clear();
  RankView& view = plan_.views.front();
  view.slots.clear();
  view.visible_rows.clear();
  for (std::int32_t p = first_position; p < first_position + count; ++p) {
    plan_.positions.push_back(p);
    const auto block = std::int64_t{view.block_table[static_cast<std::size_t>(p / options_.block_size)]};
    view.slots.push_back(block * options_.block_size + p % options_.block_size);
    view.visible_rows.push_back(p + 1);
  }
  const StepResult& result = runner_.step(plan_);
  first_step_ = false;
  ++plan_.step;
  plan_.retired.clear();
  plan_.starts.clear();
  view.table_writes.clear();
  return samples ? result.sampled.front().token : -1;
}

}  // namespace tessera::test
