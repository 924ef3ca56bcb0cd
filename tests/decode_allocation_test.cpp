// A decode step of the real model allocates nothing: planning apart (its own test), from the plan to the
// sampled tokens.
#include <gtest/gtest.h>

#include "support/allocation_count.h"
#include "support/golden.h"
#include "support/tiny_model.h"

namespace tessera::test {
namespace {

// Two sequences: prompts of 100 and 30 tokens, then decode steps of both, with penalties so that token counts
// are kept.
TEST(DecodeStep, AllocatesNothing) {
  for (const int ranks : {1, 2}) {
    TinyModel model = load_tiny({.ranks = ranks});
    const std::int32_t max_blocks = model.options.max_model_len / model.options.block_size;
    StepPlan plan;
    plan.max_blocks = max_blocks;
    plan.table_rows = 2;
    plan.views.resize(1);
    RankView& view = plan.views.front();
    view.block_table.assign(static_cast<std::size_t>(2 * max_blocks), -1);
    std::int32_t next_block = 0;
    for (std::int32_t row = 0; row < 2; ++row) {
      for (std::int32_t b = 0; b < 4; ++b)
        view.block_table[static_cast<std::size_t>(row * max_blocks + b)] = next_block++;
      view.table_writes.push_back({.row = row, .first = 0, .count = 4});
    }
    const auto add = [&](std::int32_t slot, std::int32_t first_position, std::int32_t count, bool is_decode) {
      plan.work.push_back({.slot = slot,
                           .first_token = static_cast<std::int32_t>(plan.tokens.size()),
                           .count = count,
                           .first_position = first_position,
                           .is_decode = is_decode,
                           .table_row = slot,
                           .samples = true});
      for (std::int32_t p = first_position; p < first_position + count; ++p) {
        plan.tokens.push_back(is_decode ? -1 : 100 + p);
        plan.positions.push_back(p);
        plan.next_tokens.push_back(-1);
        const auto block = std::int64_t{
            view.block_table[static_cast<std::size_t>(slot * max_blocks + p / model.options.block_size)]};
        view.slots.push_back(block * model.options.block_size + p % model.options.block_size);
        view.visible_rows.push_back(p + 1);
      }
    };
    for (std::int32_t slot = 0; slot < 2; ++slot) {
      SequenceStart start;
      start.slot = slot;
      start.sampling.temperature = slot == 0 ? 0.0F : 0.8F;
      start.sampling.top_p = 0.9F;
      start.sampling.repetition_penalty = 1.1F;
      start.sampling.max_tokens = 100;
      start.prompt.assign(100, 7);
      plan.starts.push_back(start);
    }
    add(0, 0, 100, false);
    add(1, 0, 30, false);
    model.runner->step(plan);

    for (std::int32_t step = 0; step < 40; ++step) {
      plan.starts.clear();
      view.table_writes.clear();
      plan.work.clear();
      plan.tokens.clear();
      plan.positions.clear();
      plan.next_tokens.clear();
      view.slots.clear();
      view.visible_rows.clear();
      add(0, 100 + step, 1, true);
      add(1, 30 + step, 1, true);
      const std::int64_t before = allocations();
      model.runner->step(plan);
      if (step >= 2) {
        ASSERT_EQ(allocations() - before, 0) << "decode step " << step << " on " << ranks << " ranks";
      }
    }
  }
}

}  // namespace
}  // namespace tessera::test
